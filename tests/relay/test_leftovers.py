"""What a relay could not deliver stays in its folder, all of it and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilothouse.relay import leftovers, registry, spool
from pilothouse.relay.door_frames import CLIExit
from pilothouse.relay.launcher import start
from pilothouse.relay.refusals import Refusal
from pilothouse.relay.spool import Spool
from tests.support.processes import alive, gone
from tests.support.relay.door import SESSION, TOKEN, RelayDoor
from tests.support.relay.relays import ECHO, SAYS, RunningRelay, python, relay
from tests.support.waiting import DEADLINE

NOWHERE = "ws://127.0.0.1:9"
HASTE = {"interrupt": 0.1, "close": 2.0, "terminate": 0.1, "kill": 2.0, "farewell": 0.1}
GONE = CLIExit(3, None, "oh", "")


def told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / leftovers.NAME).read_bytes())


def lines(folder: Path) -> list[bytes]:
    return (folder / leftovers.LINES).read_bytes().splitlines()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def filled(folder: Path | None, *said: bytes) -> Spool:
    kept = Spool(folder)
    for each in said:
        kept.append(each + b"\n")
    return kept


# When


async def test_what_nobody_came_for_is_left_with_the_end_when_the_will_is_done(
    tmp_path: Path,
) -> None:
    source = "import sys; print('one'); print('two'); print('oh', file=sys.stderr); sys.exit(3)"
    will = ("--last-will", "0.3")
    async with relay(NOWHERE, tmp_path, python(source), *will, pace=HASTE) as running:
        assert await running.result() == 1
    assert lines(running.spool) == [b"one", b"two"]
    assert told(running.spool) == {
        "session_id": SESSION,
        "run": "a-run",
        "first": 1,
        "next": 3,
        "exit": {"code": 3, "signal": None, "stderr_tail": "oh\n", "reason": ""},
        "dropped": [],
    }
    assert names(running.spool) == {leftovers.NAME, leftovers.LINES}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in running.spool.iterdir())


async def end_behind_the_doors_back(door: RelayDoor, running: RunningRelay) -> None:
    """Have one line acknowledged and another not, then end the relay without a door."""
    await door.greeted()
    await door.say(b"one")
    await door.has(1)
    door.acknowledging = False
    await door.say(b"two")
    await door.has(2)
    await door.kill()
    os.kill(running.pid, signal.SIGTERM)
    assert await running.result() == 1


async def test_a_relay_that_is_told_to_end_leaves_only_what_was_not_acknowledged(
    tmp_path: Path,
) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(ECHO), pace=HASTE) as running,
    ):
        await end_behind_the_doors_back(door, running)
    # What it says of our interrupt is a line too.
    assert lines(running.spool)[0] == b"heard two"
    left = told(running.spool)
    assert left["first"] == 2
    assert left["next"] == 2 + len(lines(running.spool))
    assert left["exit"]["code"] == 0


async def test_an_end_that_was_not_acknowledged_is_left_without_lines(tmp_path: Path) -> None:
    will = ("--last-will", "0.3")
    async with relay(NOWHERE, tmp_path, python("pass"), *will, pace=HASTE) as running:
        assert await running.result() == 1
    assert lines(running.spool) == []
    assert (told(running.spool)["first"], told(running.spool)["next"]) == (1, 1)


async def test_a_relay_that_was_heard_leaves_nothing(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(SAYS, "10", "x")) as running,
    ):
        await door.ended()
        assert await running.result() == 0
    assert not running.spool.exists()


@pytest.mark.parametrize(
    ("code", "leaves"),
    [
        (Refusal.TOKEN_REFUSED, False),
        (Refusal.SESSION_ENDED, False),
        (Refusal.SESSION_UNKNOWN, True),
    ],
)
async def test_nothing_is_left_for_a_session_that_is_known_to_want_nothing(
    tmp_path: Path, code: Refusal, leaves: bool
) -> None:
    async with RelayDoor().opened() as door:
        door.refusal = code
        command = python("print('unheard', flush=True); input()")
        async with relay(door.url, tmp_path, command, pace=HASTE) as running:
            assert await running.result() == 1
    assert running.spool.exists() == leaves
    assert not leaves or lines(running.spool) == [b"unheard"]


async def test_a_relay_that_fails_leaves_what_it_had_and_says_why(tmp_path: Path) -> None:
    command = python("print('said', flush=True); input()")
    # A time that cannot be waited for.
    async with relay(NOWHERE, tmp_path, command, pace={"pause": -1}) as running:
        assert await running.result() == 1
    assert lines(running.spool) == [b"said"]
    assert told(running.spool)["exit"]["code"] is None
    assert "its relay failed: ValueError" in told(running.spool)["exit"]["reason"]
    assert not (running.spool / registry.NAME).exists()


async def test_a_relay_that_cannot_leave_anything_says_so_and_ends(tmp_path: Path) -> None:
    will = ("--last-will", "0.5")
    command = python("import sys; print('x', flush=True); sys.stdin.read()")
    async with relay(NOWHERE, tmp_path, command, *will, pace=HASTE) as running:
        while not (running.spool / registry.NAME).exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.005)
        os.rename(running.spool, tmp_path / "taken-away")  # noqa: PTH104
        assert await running.result() == 1
    assert "what no door has is lost: " in running.said()


# How


async def test_lines_that_were_on_the_disk_are_left_in_their_order(tmp_path: Path) -> None:
    count, pad = 12_000, "x" * 1000
    async with relay(NOWHERE, tmp_path, python(SAYS, str(count), pad), pace=HASTE) as running:
        async with asyncio.timeout(DEADLINE):
            while "the CLI ended" not in running.said():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
        os.kill(running.pid, signal.SIGTERM)
        assert await running.result() == 1
    assert lines(running.spool) == [f"{number} {pad}".encode() for number in range(count)]
    assert told(running.spool)["next"] == count + 1


def test_the_spool_gives_its_room_back_while_it_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MEMORY", 100)
    monkeypatch.setattr(spool, "SEGMENT", 1000)
    monkeypatch.setattr(spool, "CHUNK", 100)
    monkeypatch.setattr(leftovers, "BATCH", 200)
    kept = filled(tmp_path, *(b"%099d" % number for number in range(100)))
    held: list[int] = []
    store = leftovers._store

    def watched(fd: int, data: bytes) -> None:
        held.append(kept.held)
        store(fd, data)

    monkeypatch.setattr(leftovers, "_store", watched)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert leftovers.leave(tmp_path, kept, "s", "r", GONE) == ""
    assert held[1:] == sorted(held[1:], reverse=True)
    assert held[-1] <= 200
    assert kept.held == 0
    assert len(os.listdir("/proc/self/fd")) < before  # noqa: PTH208
    assert lines(tmp_path) == [b"%099d" % number for number in range(100)]


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_without_room_for_all_lines_gets_whole_ones_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "BATCH", 100)
    monkeypatch.setattr(spool, "CHUNK", 100)
    kept = filled(None, *(b"%049d" % number for number in range(100)))
    with files_no_larger_than(1025):
        trouble = leftovers.leave(tmp_path, kept, "s", "r", GONE)
    kept.close()
    assert "File too large" in trouble
    assert lines(tmp_path) == [b"%049d" % number for number in range(20)]
    assert (told(tmp_path)["next"], told(tmp_path)["exit"]["code"]) == (101, 3)


def test_what_stays_is_not_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    leftovers.leave(folder, filled(None, b"one"), "s", "r", GONE)
    (folder / registry.NAME).touch()
    (folder / registry.LOG_NAME).touch()
    registry.clear(folder)
    assert names(folder) == {leftovers.NAME, leftovers.LINES}


def test_what_was_cut_off_half_way_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / leftovers.PART).write_text("{}")
    (folder / leftovers.LINES).write_text("one\n")
    assert not leftovers.is_complete(folder)
    registry.clear(folder)
    assert not folder.exists()


# Locks


async def test_a_locked_file_names_the_relay_that_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("4194304000")
    fd = os.open(lock, os.O_RDWR)
    async with RelayDoor().opened() as door:
        pid = start(
            python(ECHO),
            {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            tmp_path,
            connect=door.url,
            session_id=SESSION,
            run="a-run",
            token=TOKEN,
            spool=tmp_path / "spool",
            last_will=1000,
            hold=[fd],
        )
        os.close(fd)
        try:
            await door.greeted()
            assert lock.read_text() == str(pid)
        finally:
            if alive(pid):
                os.kill(pid, signal.SIGTERM)
            await gone(pid)
