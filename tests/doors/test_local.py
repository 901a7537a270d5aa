"""The relays of this machine: started on their own, found again, and missed when they are gone."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from pilothouse.doors.local import LocalRelays
from pilothouse.relay import deaths, registry
from pilothouse.transport import SpawnFailed
from tests.support.doors.ledger import Disk
from tests.support.doors.server import KEYRING, RUN, SESSION, DoorServer
from tests.support.processes import alive, gone
from tests.support.relay.relays import ECHO, python
from tests.support.waiting import DEADLINE


class Near:
    """Relays of a test's own, and what was told about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "relays"
        self.path = folder / "door"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.relays = self.found_again()
        self.pids: set[int] = set()

    def found_again(self) -> LocalRelays:
        connect = f"unix:{self.path}"
        return LocalRelays(self.folder, connect=connect, keyring=KEYRING, last_will=1000)

    async def start(self, argv: list[str] | None = None, hold: tuple[int, ...] = ()) -> int:
        argv = argv or python(ECHO)
        await self.relays.start(argv, self.env, None, session_id=SESSION, run=RUN, hold=hold)
        found = self.relays.find(RUN)
        assert found is not None
        self.pids.add(found.relay_pid)
        return found.relay_pid

    async def reason(self) -> str:
        async with asyncio.timeout(DEADLINE):
            return await self.told.get()


@pytest.fixture
async def near(tmp_path: Path) -> AsyncIterator[Near]:
    near = Near(tmp_path)
    yield near
    for pid in near.pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    await gone(*near.pids)


def open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    found: list[str] = []
    for fd in os.listdir(folder):  # noqa: PTH208
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{fd}"))  # noqa: PTH115
    return found


def read(pid: int | None, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


async def test_a_relay_is_started_comes_to_the_door_and_ends_in_order(near: Near) -> None:
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        house.transport.write(b"one\n")
        await house.book.until(lambda: house.book.told == b"heard one\n")
        assert house.transport.hello is not None
        assert house.transport.hello.relay_pid == pid
        house.transport.close_stdin()
        assert (await house.book.ended()).code == 0
        await gone(pid)
    assert near.relays.find(RUN) is None
    assert not (near.folder / RUN).exists()


async def test_it_is_found_at_once_and_again_after_a_restart(near: Near) -> None:
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        await house.until_connected()
        assert house.transport.hello is not None
        for relays in (near.relays, near.found_again()):
            found = relays.find(RUN)
            assert found is not None
            assert (found.session_id, found.run, found.relay_pid) == (SESSION, RUN, pid)
            assert found.cli_pid == house.transport.pid
        # Of one that lives, nothing is cleared.
        near.relays.clear(RUN)
        assert near.relays.find(RUN) is not None


async def test_a_killed_relay_is_missed(near: Near) -> None:
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        near.relays.watch(RUN, near.told.put_nowait)
        await house.until_connected()
        cli = house.transport.pid
        assert cli is not None
        assert near.told.empty()
        os.kill(pid, signal.SIGKILL)
        reason = await near.reason()
        assert reason == "its relay was killed"
        house.transport.lost(reason)
        assert (await house.book.ended()).reason == reason
        await gone(cli)
    assert near.relays.find(RUN) is None
    assert (near.folder / RUN).exists()
    near.relays.clear(RUN)
    assert not (near.folder / RUN).exists()
    assert near.told.empty()


async def test_a_watch_that_was_ended_tells_nothing(near: Near) -> None:
    pid = await near.start()
    end = near.relays.watch(RUN, near.told.put_nowait)
    other: asyncio.Queue[str] = asyncio.Queue()
    near.relays.watch(RUN, other.put_nowait)
    end()
    end()
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE):
        await other.get()
    assert near.told.empty()


async def test_one_that_is_gone_already_is_told_soon(near: Near) -> None:
    near.relays.watch("never-started", near.told.put_nowait)
    assert near.told.empty()
    assert await near.reason() == "its relay has ended"
    end = near.relays.watch("never-started", near.told.put_nowait)
    end()
    await asyncio.sleep(0)
    assert near.told.empty()


async def test_where_processes_have_no_descriptors_they_are_looked_at(
    near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(deaths, "LOOK_AGAIN", 0.01)
    pid = await near.start()
    end = near.relays.watch(RUN, lambda _: near.told.put_nowait("ended watch"))
    near.relays.watch(RUN, near.told.put_nowait)
    await asyncio.sleep(0.03)
    end()
    assert near.told.empty()
    os.kill(pid, signal.SIGKILL)
    assert await near.reason() == "its relay was killed"
    assert near.told.empty()


async def test_a_number_that_was_used_again_is_no_relay(near: Near) -> None:
    folder = near.folder / RUN
    folder.mkdir(parents=True)
    ours = os.getpid()
    registry.record(folder, registry.RunningRelay(SESSION, RUN, ours, 1, None, None))
    assert near.relays.find(RUN) is None
    near.relays.watch(RUN, near.told.put_nowait)
    assert await near.reason() == "its relay has ended"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "its relay was killed"),
        ("2026-01-02T03:04:05+0000 pilothouse relay: connected\n", "its relay was killed"),
        ("pilothouse relay: no token\n", "its relay failed: no token"),
        (
            "Traceback:\n  a line\nMemoryError: no room\n\n",
            "its relay failed: MemoryError: no room",
        ),
        ("x" * 10_000 + "\nKeyError: 1\n", "its relay failed: KeyError: 1"),
    ],
)
async def test_the_reason_is_what_the_relay_left(near: Near, log: str, reason: str) -> None:
    folder = near.folder / RUN
    folder.mkdir(parents=True)
    (folder / registry.LOG_NAME).write_text(log)
    # Of a fresh one its relay may still be starting.
    os.utime(folder, (0, 0))
    near.relays.watch(RUN, near.told.put_nowait)
    assert await near.reason() == reason


async def test_what_is_held_stays_locked_while_the_relay_lives_and_no_longer(
    near: Near, tmp_path: Path
) -> None:
    house, path = DoorServer(Disk()), tmp_path / "lock"
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    async with house.at(near.path):
        pid = await near.start(hold=(held,))
        os.close(held)
        await house.until_connected()
        assert house.transport.hello is not None
        assert str(path) in open_files(pid)
        for other in (house.transport.hello.guard_pid, house.transport.pid):
            assert other is not None
            assert str(path) not in open_files(other)
        with path.open("rb") as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.kill(pid, signal.SIGKILL)
            await gone(pid)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_a_cancelled_start_does_not_mix_up_descriptors(near: Near, tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    starting = asyncio.ensure_future(near.start(hold=(held,)))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    os.close(held)
    async with asyncio.timeout(DEADLINE):
        while not (found := near.relays.find(RUN)):  # noqa: ASYNC110 - a thread's work
            await asyncio.sleep(0.01)
    near.pids.add(found.relay_pid)
    assert str(tmp_path / "lock") in open_files(found.relay_pid)
    async with asyncio.timeout(DEADLINE):
        while len(os.listdir("/proc/self/fd")) > len(before) + 1:  # noqa: ASYNC110, PTH208
            await asyncio.sleep(0.01)


async def test_a_folder_that_cannot_be_made_is_told(near: Near) -> None:
    near.folder.write_text("in the way")
    with pytest.raises(SpawnFailed):
        await near.start()
    assert near.relays.find(RUN) is None


async def test_the_token_is_in_no_file_and_no_argument(near: Near) -> None:
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        await house.until_connected()
        assert house.transport.hello is not None
        code = KEYRING.issue(SESSION, RUN).rpartition(".")[2].encode()
        for each in (pid, house.transport.hello.guard_pid, house.transport.pid):
            for name in ("cmdline", "environ"):
                assert code not in read(each, name)
        for file in (near.folder / RUN).iterdir():
            assert code not in file.read_bytes()


# -- ending


async def test_a_relay_that_is_to_end_ends_in_order(near: Near) -> None:
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        await house.until_connected()
        cli = house.transport.pid
        assert near.relays.end(RUN)
        assert near.relays.end(RUN)
        assert (await house.book.ended()).reason == ""
        assert cli is not None
        await gone(pid, cli)
    near.relays.close()
    assert not near.relays.end(RUN)


@pytest.mark.parametrize("with_pidfd", [True, False])
async def test_a_relay_that_does_not_even_hear_that_it_is_to_end_is_killed_with_its_cli(
    near: Near, monkeypatch: pytest.MonkeyPatch, with_pidfd: bool
) -> None:
    if not with_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.setattr(deaths, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(deaths, "GRACE", 0.05)
    house = DoorServer(Disk())
    async with house.at(near.path):
        pid = await near.start()
        await house.until_connected()
        cli = house.transport.pid
        assert cli is not None
        os.kill(pid, signal.SIGSTOP)
        near.relays.watch(RUN, near.told.put_nowait)
        assert near.relays.end(RUN)
        assert await near.reason() == "its relay was killed"
        if with_pidfd:
            # It is told when the guard has done its work.
            assert not alive(cli)
        await gone(pid, cli)


async def test_what_has_not_ended_is_killed_when_nobody_can_wait_for_it(near: Near) -> None:
    pid = await near.start()
    os.kill(pid, signal.SIGSTOP)
    assert near.relays.end(RUN)
    near.relays.close()
    await gone(pid)


async def test_another_process_of_that_number_is_not_ended(near: Near) -> None:
    folder = near.folder / RUN
    folder.mkdir(parents=True)
    registry.record(folder, registry.RunningRelay(SESSION, RUN, os.getpid(), 1, None, None))
    assert not near.relays.end(RUN)
