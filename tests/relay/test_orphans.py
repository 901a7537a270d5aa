"""However a relay or its guard dies, nothing it started stays behind. Linux: all of it holds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.processes import alive, gone
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import RunningRelay, python, relay

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

# A CLI in the middle of a tool: a shell with a child of its own, one in a session of its own that
# is deaf to hangups, and one more that has no environment by which it could be recognised.
MID_TOOL = """
import os, subprocess, sys, time
deaf = "import signal,sys,time\\nfor n in (1,2,15): signal.signal(n, signal.SIG_IGN)\\n" \\
       "print('ready', flush=True)\\ntime.sleep(1000)"
def start(*command, **kw):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **kw)
tools = [
    start("sh", "-c", "echo ready; sleep 1000; true"),
    start("setsid", "nohup", sys.executable, "-S", "-c", deaf, stderr=subprocess.DEVNULL),
    start(sys.executable, "-S", "-c", deaf, start_new_session=True, env={}),
]
for tool in tools:
    tool.stdout.readline()
print(os.getpid(), *(tool.pid for tool in tools), flush=True)
if "deaf" in sys.argv:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)
while "streams" in sys.argv:
    print("x" * 300, flush=True)
time.sleep(1000)
"""


@asynccontextmanager
async def mid_tool(
    tmp_path: Path, *manners: str
) -> AsyncIterator[tuple[RelayDoor, RunningRelay, list[int]]]:
    env = {"PATH": os.environ["PATH"]}
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(MID_TOOL, *manners), env=env) as running,
    ):
        await door.has(500 if "streams" in manners else 1 + len(manners))
        pids = [int(word) for word in door.lines[0].split()]
        assert all(alive(pid) for pid in pids)
        yield door, running, pids


@pytest.mark.parametrize("manner", ["quiet", "streams"])
async def test_a_killed_relay_leaves_nothing(tmp_path: Path, manner: str) -> None:
    manners = () if manner == "quiet" else (manner,)
    async with mid_tool(tmp_path, *manners) as (door, running, pids):
        guard = door.hellos[0].guard_pid
        assert guard is not None
        running.process.kill()
        await gone(*pids, guard)


@pytest.mark.parametrize("manner", ["quiet", "streams", "deaf"])
async def test_a_killed_guard_leaves_nothing_and_the_end_is_told(
    tmp_path: Path, manner: str
) -> None:
    manners = () if manner == "quiet" else (manner,)
    async with mid_tool(tmp_path, *manners) as (door, running, pids):
        guard = door.hellos[0].guard_pid
        assert guard is not None
        os.kill(guard, signal.SIGKILL)
        exit_ = await door.ended()
        assert exit_.signal == (signal.SIGKILL if manner == "deaf" else signal.SIGTERM)
        # The end is told only after what was left is gone, so there is nothing to wait for.
        assert not any(alive(pid) for pid in pids)
        assert await running.result() == 0


# Left a tool to the guard; told to end, it sees that one go before it goes itself.
LAST_TO_GO = """
import os, signal, subprocess, sys, time
hide = "import os,time\\nif os.fork(): os._exit(0)\\n" \\
       "print(os.getpid(), flush=True)\\ntime.sleep(1000)"
tool = subprocess.Popen([sys.executable, "-S", "-c", hide], stdout=subprocess.PIPE,
                        start_new_session=True)
hidden = int(tool.stdout.readline())
tool.wait()
def leave(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        while True:
            os.kill(hidden, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        os.write(1, b"alone\\n")
        os._exit(0)
signal.signal(signal.SIGTERM, leave)
print(hidden, flush=True)
while True:
    time.sleep(1000)
"""


async def test_what_a_killed_guard_had_is_gone_before_the_cli_has_had_its_grace(
    tmp_path: Path,
) -> None:
    env = {"PATH": os.environ["PATH"]}
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(LAST_TO_GO), env=env) as running,
    ):
        await door.has(1)
        guard = door.hellos[0].guard_pid
        assert guard is not None
        os.kill(guard, signal.SIGKILL)
        assert (await door.ended()).code == 0
        assert door.lines[1:] == [b"alone"]
        assert await running.result() == 0


async def test_a_cli_that_ends_leaves_nothing_behind_either(tmp_path: Path) -> None:
    async with mid_tool(tmp_path) as (door, running, pids):
        os.kill(pids[0], signal.SIGKILL)
        assert (await door.ended()).signal == signal.SIGKILL
        assert not any(alive(pid) for pid in pids)
        assert await running.result() == 0


async def test_a_relay_that_ends_leaves_no_guard(tmp_path: Path) -> None:
    async with mid_tool(tmp_path) as (door, running, pids):
        await door.order("kill")
        await door.ended()
        assert await running.result() == 0
        guard = door.hellos[0].guard_pid
        assert guard is not None
        await gone(*pids, guard)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [number / 20 for number in range(20)])
async def test_a_relay_killed_at_any_moment_of_its_start_leaves_nothing(
    tmp_path: Path, delay: float
) -> None:
    mark = f"HOME={tmp_path}".encode()
    async with RelayDoor().opened() as door:
        env = {"PATH": os.environ["PATH"]}
        async with relay(door.url, tmp_path, python(MID_TOOL), env=env) as running:
            await asyncio.sleep(delay)
            running.process.kill()
            await running.result()
            while _bearing(mark):  # noqa: ASYNC110 - /proc tells nobody when it changes
                await asyncio.sleep(0.02)


def _bearing(mark: bytes) -> list[int]:
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found
