"""Real relays at the doors: nothing is lost, nothing comes twice, whatever the link does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pilothouse.doors.http_server import serve_at
from pilothouse.transport import Exit
from tests.support.doors.ledger import Disk
from tests.support.doors.server import KEYRING, RUN, SESSION, TOKEN, DoorServer
from tests.support.relay.bad_link import FATES, IMPATIENT, TALKS, BadLink
from tests.support.relay.relays import ECHO, python, relay


def check(disk: Disk, heard: int) -> None:
    *lines, total = [line.decode() for line in disk.lines]
    said = [line for line in lines if line.startswith("said ")]
    assert total == f"total {len(said)}"
    assert said == [f"said {number} " + "z" * (number % 700) for number in range(len(said))]
    answers = [line for line in lines if line.startswith("heard ")]
    assert answers == [f"heard line {number}" for number in range(heard)]
    assert len(lines) == len(said) + len(answers)


async def cut_at_random(folder: Path, cuts: int, seed: int) -> None:
    heard = 0
    house = DoorServer(Disk())
    async with (
        house.on_loopback() as port,
        BadLink(port, cuts, seed).opened() as proxy,
        relay(proxy.url, folder, python(TALKS), pace=IMPATIENT, token=TOKEN) as running,
    ):
        while len(proxy.fates) < cuts:
            house.transport.write(f"line {heard}\n".encode())
            heard += 1
            await asyncio.sleep(0.01)
        house.transport.write(b"stop\n")
        assert (await house.book.ended()).code == 0
        assert await running.result() == 0
    check(house.book.disk, heard)
    assert len(house.book.exits) == 1
    assert set(proxy.fates) == set(FATES)


LONG = [pytest.param(200, seed, marks=pytest.mark.slow) for seed in (11, 12)]


@pytest.mark.parametrize(("cuts", "seed"), [(20, 7), *LONG])
async def test_a_link_cut_at_random_loses_nothing_and_doubles_nothing(
    tmp_path: Path, cuts: int, seed: int
) -> None:
    await cut_at_random(tmp_path, cuts, seed)


async def test_a_server_killed_again_and_again_loses_nothing_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    disk, path, heard, pids = Disk(), tmp_path / "door", 0, set[int | None]()
    async with relay(f"unix:{path}", tmp_path, python(TALKS), token=TOKEN) as running:
        for _ in range(8):
            house = DoorServer(disk)
            async with house.at(path):
                await house.until_connected()
                pids.add(house.transport.pid)
                before = len(disk.lines)
                for _ in range(20):
                    house.transport.write(f"line {heard}\n".encode())
                    # What was not committed is written by nobody: a server would not know of it.
                    await house.book.kept()
                    heard += 1
                await house.book.until(lambda before=before: len(disk.lines) > before + 50)
                house.kill()
        last = DoorServer(disk)
        async with last.at(path):
            last.transport.write(b"stop\n")
            assert (await last.book.ended()).code == 0
            assert await running.result() == 0
    check(disk, heard)
    assert len(pids) == 1


async def test_a_delayed_commit_delays_the_acknowledgement(tmp_path: Path) -> None:
    disk, path = Disk(), tmp_path / "door"
    first = DoorServer(disk)
    async with relay(f"unix:{path}", tmp_path, python(ECHO), token=TOKEN) as running:
        async with first.at(path):
            first.transport.write(b"one\n")
            await first.book.until(lambda: first.book.told == b"heard one\n")
            await first.book.kept()
            first.transport.write(b"two\n")
            await first.book.until(lambda: 2 in disk.outgoing)
            first.book.by_hand = True
            await first.book.until(lambda: first.book.told == b"heard one\nheard two\n")
            # Told, but never committed: the relay is to have it still.
            first.kill()
        assert disk.lines == [b"heard one"]
        second = DoorServer(disk)
        async with second.at(path):
            await second.book.until(lambda: len(disk.lines) == 2)
            second.transport.close_stdin()
            assert (await second.book.ended()).code == 0
            assert await running.result() == 0
    assert disk.lines == [b"heard one", b"heard two"]
    assert not disk.outgoing


async def test_the_end_of_a_cli_is_told_with_its_last_words(tmp_path: Path) -> None:
    path, house = tmp_path / "door", DoorServer(Disk())
    source = "import sys; sys.stderr.write('last words'); print('one'); sys.exit(3)"
    async with (
        house.at(path),
        relay(f"unix:{path}", tmp_path, python(source), token=TOKEN) as running,
    ):
        assert await house.book.ended() == Exit(3, None, "last words")
        assert await running.result() == 0
    assert house.book.disk.lines == [b"one"]


async def test_closing_ends_a_cli_that_does_not_listen(tmp_path: Path) -> None:
    path, house = tmp_path / "door", DoorServer(Disk())
    deaf = (
        "import signal, threading\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    )
    deaf += "threading.Event().wait()"
    async with (
        house.at(path),
        relay(f"unix:{path}", tmp_path, python(deaf), token=TOKEN) as running,
    ):
        await house.book.until(lambda: house.book.told == b"ready\n")
        exit_ = await house.transport.aclose(grace=0.05)
        assert exit_.signal == 9
        assert await running.result() == 0


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (KEYRING.issue("another-session", RUN), "TOKEN_REFUSED"),
        (KEYRING.issue(SESSION, "an-ended-run"), "SESSION_ENDED"),
    ],
)
async def test_a_relay_with_a_wrong_token_is_refused_and_ends_its_cli(
    tmp_path: Path, token: str, why: str
) -> None:
    path, house = tmp_path / "door", DoorServer(Disk())
    async with (
        house.at(path),
        relay(f"unix:{path}", tmp_path, python(ECHO), token=token) as running,
    ):
        assert await running.result() == 1
        assert why in running.said()
        assert token not in running.said()
    assert house.transport.hello is None
    assert house.book.told == b""


async def test_the_newest_relay_wins_and_what_the_older_one_says_is_not_taken(
    tmp_path: Path,
) -> None:
    path, house = tmp_path / "door", DoorServer(Disk())
    older, newer = tmp_path / "older", tmp_path / "newer"
    older.mkdir()
    newer.mkdir()
    # The one that was replaced is to stay away while the other has its say.
    patient = {"replaced_delay": 1000.0}
    async with (
        house.at(path),
        relay(f"unix:{path}", older, python(ECHO), pace=patient, token=TOKEN) as first,
    ):
        await house.until_connected()
        pid = house.transport.pid
        async with relay(f"unix:{path}", newer, python(ECHO), token=TOKEN) as second:
            await house.book.until(lambda: house.transport.pid != pid)
            house.transport.write(b"for whom\n")
            await house.book.until(lambda: house.book.told == b"heard for whom\n")
            house.transport.close_stdin()
            await house.book.ended()
            assert await second.result() == 0
        assert "newer connection" in first.said() or "4009" in first.said()
    assert house.book.disk.lines == [b"heard for whom"]


async def test_a_door_with_a_long_name_is_found_by_a_relay(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path, house = folder / "door", DoorServer(Disk())
    assert len(os.fsencode(path)) > 107
    async with (
        house.at(path),
        relay(f"unix:{path}", tmp_path, python("print('one')"), token=TOKEN) as running,
    ):
        await house.book.ended()
        assert await running.result() == 0
    assert house.book.disk.lines == [b"one"]


async def test_a_stopped_door_is_waited_for(tmp_path: Path) -> None:
    path, house = tmp_path / "door", DoorServer(Disk())
    async with relay(f"unix:{path}", tmp_path, python("print('one')"), token=TOKEN) as running:
        await house.transport.start(house.book)
        async with serve_at(house.doors, path):
            await house.book.ended()
            assert await running.result() == 0
    assert house.book.disk.lines == [b"one"]
