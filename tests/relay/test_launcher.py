"""A started relay is on its own, can be found again, and keeps its token to itself."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pilothouse.relay import registry
from pilothouse.relay.launcher import start
from pilothouse.transport import SpawnFailed
from tests.support.processes import alive, gone
from tests.support.relay.door import SESSION, TOKEN, RelayDoor
from tests.support.relay.relays import ECHO, python
from tests.support.waiting import DEADLINE

Start = Callable[..., int]


@pytest.fixture
async def begin(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts relays, in a spool of the test's own; those left are killed."""
    started: list[int] = []

    def begin(door: RelayDoor, argv: list[str], env: dict[str, str] | None = None) -> int:
        pid = start(
            argv,
            {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **(env or {})},
            tmp_path,
            connect=door.url,
            session_id=SESSION,
            run="a-run",
            token=TOKEN,
            spool=tmp_path / "spool",
            last_will=1000,
        )
        started.append(pid)
        return pid

    yield begin
    for pid in started:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    await gone(*started)


def read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    found: list[str] = []
    for fd in os.listdir(folder):  # noqa: PTH208
        # The listing's own is gone by now.
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{fd}"))  # noqa: PTH115
    return found


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def test_it_is_no_child_and_of_no_session_of_ours(tmp_path: Path, begin: Start) -> None:
    async with RelayDoor().opened() as door:
        pid = await asyncio.to_thread(begin, door, python(ECHO))
        hello = await door.greeted()
        assert hello.relay_pid == pid
        _, parent, group, session, *_ = stat(pid)
        assert int(parent) != os.getpid()
        assert int(session) != os.getsid(0)
        assert int(group) != os.getpgid(0)
        await door.order("close_input")
        await door.ended()
        await gone(pid)
    assert not (tmp_path / "spool").exists()


async def test_it_outlives_the_thread_that_started_it(tmp_path: Path, begin: Start) -> None:
    async with RelayDoor().opened() as door:
        pids: list[int] = []
        thread = threading.Thread(target=lambda: pids.append(begin(door, python(ECHO))))
        thread.start()
        await door.greeted()
        thread.join()
        await door.say(b"hello")
        await door.has(1)
        assert alive(pids[0])


async def test_it_has_nothing_of_ours_open(tmp_path: Path, begin: Start) -> None:
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    async with RelayDoor().opened() as door:
        pid = await asyncio.to_thread(begin, door, python(ECHO))
        await door.greeted()
        os.close(writable)
        # Whoever else held the pipe open would keep its end from us.
        assert await asyncio.to_thread(os.read, readable, 1) == b""
        os.close(readable)
        theirs, ours = open_files(pid), open_files(os.getpid())
    assert not {each for each in theirs if each.startswith(("pipe", "socket"))} & {*ours}
    assert theirs.count(str(tmp_path / "spool" / registry.LOG_NAME)) == 2


async def test_the_registry_file_says_who_runs_and_goes_with_the_relay(
    tmp_path: Path, begin: Start
) -> None:
    async with RelayDoor().opened() as door:
        pid = await asyncio.to_thread(begin, door, python(ECHO))
        hello = await door.greeted()
        found = registry.alive(tmp_path / "spool" / registry.NAME)
        assert found is not None
        assert (found.session_id, found.run, found.relay_pid) == (SESSION, "a-run", pid)
        assert (found.cli_pid, found.guard_pid) == (hello.pid, hello.guard_pid)
        os.kill(pid, signal.SIGKILL)
        assert hello.pid is not None
        await gone(pid, hello.pid)
        assert registry.alive(tmp_path / "spool") is None
        registry.clear(tmp_path / "spool")
    assert not (tmp_path / "spool").exists()


async def test_it_is_found_after_the_door_was_killed(tmp_path: Path, begin: Start) -> None:
    async with RelayDoor(tmp_path / "socket").opened() as door:
        pid = await asyncio.to_thread(begin, door, python(ECHO))
        first = await door.greeted()
        await door.restart()
        second = await door.greeted(2)
        assert (first.pid, first.relay_pid) == (second.pid, second.relay_pid)
        found = registry.alive(tmp_path / "spool")
        assert found is not None
        assert found.relay_pid == pid


async def test_the_cli_has_the_environment_and_the_folder_it_was_given(
    tmp_path: Path, begin: Start
) -> None:
    source = "import os; print(os.getcwd()); print(*sorted(os.environ))"
    async with RelayDoor().opened() as door:
        await asyncio.to_thread(begin, door, python(source), {"PYTHONHOME": "", "MINE": "1"})
        await door.ended()
    assert door.lines[0].decode() == str(tmp_path)
    names = set(door.lines[1].decode().split()) - {"LC_CTYPE", "PILOTHOUSE_CHILD"}
    assert names == {"HOME", "MINE", "PATH", "PYTHONHOME"}


async def test_the_token_is_nowhere_to_be_read(tmp_path: Path, begin: Start) -> None:
    source = "import os; print(*os.listdir('/proc/self/fd'), flush=True); input()"
    async with RelayDoor().opened() as door:
        await asyncio.to_thread(begin, door, python(source))
        hello = await door.greeted()
        await door.has(1)
        # One for the listing itself.
        assert sorted(door.lines[0].split())[:3] == [b"0", b"1", b"2"]
        assert len(door.lines[0].split()) == 4
        await door.restart()
        await door.greeted(2)
        for pid in (hello.relay_pid, hello.guard_pid, hello.pid):
            assert pid is not None
            assert TOKEN.encode() not in read(pid, "cmdline")
            assert TOKEN.encode() not in read(pid, "environ")
        files = [path for path in (tmp_path / "spool").iterdir() if path.is_file()]
        assert {path.name for path in files} == {registry.NAME, registry.LOG_NAME}
        assert all(TOKEN not in path.read_text() for path in files)
        assert all(path.stat().st_mode & 0o077 == 0 for path in files)


async def test_a_folder_that_is_not_there_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed):
        start(
            ["true"],
            {},
            tmp_path / "missing",
            connect="unix:/x",
            session_id="s",
            run="r",
            token=TOKEN,
            spool=tmp_path / "spool",
            last_will=1,
        )


async def test_what_fails_before_the_cli_starts_is_in_the_log(tmp_path: Path) -> None:
    pid = start(
        ["true"],
        {},
        tmp_path,
        connect="gopher://x",
        session_id="s",
        run="r",
        token=TOKEN,
        spool=tmp_path / "spool",
        last_will=1,
    )
    async with asyncio.timeout(DEADLINE):
        await gone(pid)
    assert "gopher://x" in (tmp_path / "spool" / registry.LOG_NAME).read_text()
