"""No program outlives its owner, however the owner ends. Linux: this is where all of it holds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

import pytest

from pilothouse.transport import SpawnFailed, guard_client, stdio
from pilothouse.transport.stdio import Timings
from tests.support.processes import (
    DEAF,
    ECHO,
    FOLLOWS_STDIN,
    STAYS,
    Recorder,
    alive,
    children_of,
    gone,
    guard_pid,
    program,
)
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

# Starts a program under guard, tells the pids of its first line and the guard's, and then does
# what the test asks for.
OWNER = """
import asyncio, ctypes, os, signal, sys
from pilothouse.transport import StdioTransport, guard_client

# A shell that started the tests in the background had this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Receiver:
    def __init__(self): self.data, self.ready = b"", asyncio.Event()
    def data_received(self, data):
        self.data += data
        if b"\\n" in self.data: self.ready.set()
    def eof_received(self): pass
    def exited(self, exit): pass

async def main():
    receiver = Receiver()
    transport = StdioTransport([sys.executable, "-S", "-c", sys.argv[1]], cwd=None, env={})
    await transport.start(receiver)
    await receiver.ready.wait()
    FIRST
    print(receiver.data.decode().strip(), guard_client._shared._guard.pid, flush=True)
    await END

asyncio.run(main())
"""


WAIT = "asyncio.Event().wait()"

# It skips Python's own hooks, so it keeps the owner's end of the guard's socket.
FORK = "if ctypes.PyDLL(None).fork() == 0: os.close(1), os.read(0, 1), os._exit(0)"


_owners: list[asyncio.subprocess.Process] = []


@pytest.fixture(autouse=True)
async def no_owner_outlives_its_test() -> AsyncIterator[None]:
    yield
    while _owners:
        owner = _owners.pop()
        if owner.returncode is None:
            owner.kill()
            await owner.communicate()


def _owner_source(end: str, first: str = "pass") -> str:
    return OWNER.replace("END", end).replace("FIRST", first)


async def _owner(
    end: str,
    *,
    first: str = "pass",
    stdin: int = asyncio.subprocess.DEVNULL,
    by: Sequence[str] = (),
) -> tuple[asyncio.subprocess.Process, list[int]]:
    owner = await asyncio.create_subprocess_exec(
        *(*by, sys.executable, "-W", "ignore", "-c", _owner_source(end, first), STAYS),
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
    )
    _owners.append(owner)
    assert owner.stdout is not None
    async with asyncio.timeout(DEADLINE):
        line = await owner.stdout.readline()
    return owner, [int(word) for word in line.split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_is_left_when_a_signal_ends_the_owner(number: signal.Signals) -> None:
    owner, pids = await _owner(WAIT)
    owner.send_signal(number)
    await owner.wait()
    await gone(*pids)


async def test_nothing_is_left_when_the_owner_returns_without_closing() -> None:
    owner, pids = await _owner("asyncio.sleep(0)")
    assert await owner.wait() == 0
    await gone(*pids)


async def test_nothing_is_left_when_the_owner_exits_without_cleaning_up() -> None:
    owner, pids = await _owner("asyncio.to_thread(os._exit, 3)")
    assert await owner.wait() == 3
    await gone(*pids)


async def test_a_fork_that_outlives_the_owner_does_not_hide_its_death() -> None:
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as stdin, os.fdopen(writable, "wb"):
        owner, pids = await _owner(WAIT, first=FORK, stdin=stdin.fileno())
        owner.kill()
        await owner.wait()
        await gone(*pids)


@pytest.mark.parametrize("by", [(), ("sh", "-c", "trap '' CHLD; exec \"$@\"", "sh")])
async def test_a_killed_guard_leaves_nothing_and_takes_its_watcher_along(by: Sequence[str]) -> None:
    owner, [pid, grandchild, watcher] = await _owner(WAIT, by=by)
    guard = guard_pid(pid)
    assert guard_pid(guard) == watcher
    assert guard_pid(watcher) == owner.pid
    os.kill(guard, signal.SIGKILL)
    await gone(pid, grandchild, guard, watcher)
    assert owner.returncode is None


async def test_a_killed_watcher_has_the_guard_leave_nothing() -> None:
    owner, [pid, grandchild, watcher] = await _owner(WAIT)
    guard = guard_pid(pid)
    os.kill(watcher, signal.SIGKILL)
    await gone(pid, grandchild, guard, watcher)
    assert owner.returncode is None


async def test_a_guard_that_is_killed_with_its_owner_leaves_nothing() -> None:
    owner, [pid, grandchild, watcher] = await _owner(WAIT)
    guard = guard_pid(pid)
    os.kill(guard, signal.SIGKILL)
    owner.kill()
    await owner.wait()
    await gone(pid, grandchild, guard, watcher)


@pytest.mark.parametrize("which", ["guard", "watcher"])
async def test_a_terminated_guard_leaves_nothing(which: str) -> None:
    recorder = Recorder()
    transport = program(STAYS)
    await transport.start(recorder)
    pids = [int(word) for word in (await recorder.line()).split()]
    guard = guard_pid(pids[0])
    os.kill(guard if which == "guard" else guard_pid(guard), signal.SIGTERM)
    await gone(*pids)
    await recorder.until("exited")
    assert recorder.exits[0].signal == signal.SIGTERM


async def test_a_killed_guard_takes_its_programs_along_and_is_replaced() -> None:
    recorder = Recorder()
    transport = program("import threading; print('ready', flush=True); threading.Event().wait()")
    await transport.start(recorder)
    await recorder.line()
    assert transport.pid is not None
    os.kill(guard_pid(transport.pid), signal.SIGKILL)
    await recorder.until("exited")
    assert (recorder.exits[0].code, recorder.exits[0].signal) == (None, None)
    await gone(transport.pid)
    assert await transport.aclose() == recorder.exits[0]
    await _works()


async def test_a_program_that_ignores_the_loss_of_its_guard_is_killed() -> None:
    recorder = Recorder()
    transport = program(DEAF, Timings(eof=0.05))
    await transport.start(recorder)
    await recorder.line()
    assert transport.pid is not None
    os.kill(guard_pid(transport.pid), signal.SIGKILL)
    await recorder.until("exited")
    await gone(transport.pid)
    await _works()


async def test_a_guard_lost_between_the_request_and_its_answer_is_replaced() -> None:
    recorder = Recorder()
    warm = program(ECHO)
    await warm.start(recorder)
    assert warm.pid is not None
    guard = guard_pid(warm.pid)
    os.kill(guard, signal.SIGSTOP)
    late = program(ECHO)
    starting = asyncio.ensure_future(late.start(Recorder()))
    await asyncio.sleep(0)
    os.kill(guard, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE):
        await starting
    assert late.pid is not None
    assert guard_pid(late.pid) != guard
    await late.aclose()
    await warm.aclose()


async def test_a_guard_that_does_not_answer_fails_the_start_and_starts_nothing_later() -> None:
    warm = program(ECHO)
    recorder = Recorder()
    await warm.start(recorder)
    assert warm.pid is not None
    guard = guard_pid(warm.pid)
    os.kill(guard, signal.SIGSTOP)
    try:
        with pytest.raises(SpawnFailed, match="does not answer"):
            await program(DEAF, Timings(start=0.05)).start(Recorder())
    finally:
        os.kill(guard, signal.SIGCONT)
    await _works()
    await _until_only(warm.pid, guard)
    await warm.aclose()


async def _until_only(pid: int, guard: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while children_of(guard) != {pid}:  # noqa: ASYNC110 - other processes have no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("source", [STAYS, FOLLOWS_STDIN])
async def test_closing_one_program_ends_what_it_started_and_disturbs_no_other(source: str) -> None:
    one, other = Recorder(), Recorder()
    closing, staying = program(source), program(STAYS)
    await closing.start(one)
    await staying.start(other)
    pids = [int(word) for word in (await one.line()).split()]
    others = [int(word) for word in (await other.line()).split()]
    assert guard_pid(pids[0]) == guard_pid(others[0])
    await closing.aclose(grace=0.2)
    # The exit is told only after what the program left is gone, so there is nothing to wait for.
    assert not any(alive(pid) for pid in pids)
    assert all(alive(pid) for pid in others)
    await staying.aclose(grace=0)
    assert not any(alive(pid) for pid in others)


async def test_what_clears_its_environment_ends_with_the_last_program() -> None:
    recorder, last = Recorder(), Recorder()
    transport, other = program(STAYS.replace("start_new", "env={}, start_new")), program(ECHO)
    await transport.start(recorder)
    await other.start(last)
    pids = [int(word) for word in (await recorder.line()).split()]
    await transport.aclose(grace=0)
    assert not alive(pids[0])
    await other.aclose()
    assert not alive(pids[1])


async def test_a_guard_below_a_guarded_program_ends_with_it() -> None:
    recorder = Recorder()
    argv = [sys.executable, "-c", _owner_source(WAIT), STAYS]
    transport = stdio.StdioTransport(argv, cwd=None, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    await transport.start(recorder)
    pids = [int(word) for word in (await recorder.line()).split()]
    await transport.aclose(grace=0)
    await gone(*pids)


async def test_a_fork_of_the_owner_starts_a_guard_of_its_own() -> None:
    recorder = Recorder()
    transport = program(ECHO)
    await transport.start(recorder)
    assert transport.pid is not None
    ours = guard_pid(transport.pid)
    readable, writable = os.pipe()
    if (fork := os.fork()) == 0:
        _report_guard(writable)
    os.close(writable)
    with os.fdopen(readable) as answer:
        theirs = int(answer.read())
    assert os.waitpid(fork, 0)[1] == 0  # noqa: ASYNC222 - it has answered and is ending
    assert theirs != ours
    await gone(theirs)
    transport.write(b"still here\n")
    assert await recorder.line() == "still here"
    await transport.aclose()


def _report_guard(fd: int) -> None:
    """In the fork: run a program on a loop of our own and write its guard's pid."""
    code = 1
    try:
        asyncio.events._set_running_loop(None)
        os.write(fd, str(asyncio.run(_guard_of_a_program())).encode())
        code = 0
    finally:
        os._exit(code)


async def _guard_of_a_program() -> int:
    recorder = Recorder()
    transport = program(ECHO)
    await transport.start(recorder)
    assert transport.pid is not None
    guard = guard_pid(transport.pid)
    await transport.aclose()
    return guard


async def _works() -> None:
    recorder = Recorder()
    transport = program(ECHO)
    await transport.start(recorder)
    transport.write(b"works\n")
    assert await recorder.line() == "works"
    assert (await transport.aclose()).code == 0


async def test_a_guard_that_cannot_be_started_fails_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_client, "_shared", guard_client._Shared())
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    transport = stdio.StdioTransport(["/bin/true"], cwd=None, env={})
    with pytest.raises(SpawnFailed, match="no guard process"):
        await transport.start(Recorder())
