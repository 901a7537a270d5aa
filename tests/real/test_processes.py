"""However a program that uses Pilothouse ends, its CLI and all of the CLI's tools end with it.

The newest CLI ends by itself when its input does, but only when it is idle; in the middle of a
turn every version goes on, and so do its tools.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilothouse_sim.scenario import gate, reply, tool
from tests.support.places import PROGRAMS
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.turns import HeldCommand
from tests.support.versions import CACHE, NEWEST
from tests.support.waiting import DEADLINE

# In a session of its own, deaf to hangups, and once more without the environment it came from.
STRAYS = """\
setsid nohup sleep 1000 >/dev/null 2>&1 & echo $! > stray
env -i /usr/bin/setsid /usr/bin/nohup /usr/bin/sleep 1000 >/dev/null 2>&1 & echo $! > bare
"""
LONG_TOOL = tool("Bash", command="bash tool.sh", description="wait")
BACKGROUND_TOOL = tool("Bash", command="bash tool.sh", description="wait", run_in_background=True)


@dataclass
class Owner:
    """A running owner script and what it brought about."""

    process: asyncio.subprocess.Process
    cli: int
    desk: Desk

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    def tell_to_end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def strays(self) -> set[int]:
        return {int((self.desk.cwd / name).read_text()) for name in ("stray", "bare")}

    def living(self) -> set[int]:
        """The owner, the guard, the CLI and its tools: all share a home. The strays besides."""
        mark = f"HOME={self.desk.home}".encode()
        found = {pid for pid in _pids() if mark in _read(pid, "environ").split(b"\0")}
        strays = self.strays() if (self.desk.cwd / "bare").exists() else set[int]()
        return found | {pid for pid in strays if b"sleep" in _read(pid, "cmdline")}

    async def all_gone(self) -> None:
        await self.process.wait()
        while self.living():  # noqa: ASYNC110 - /proc tells nobody when it changes
            await asyncio.sleep(0.02)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@asynccontextmanager
async def owner(it: Desk, end: str = "killed") -> AsyncIterator[Owner]:
    script = str(PROGRAMS / "client_owner.py")
    cli = str(CACHE / it.version / "claude")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, script, cli, str(it.home), str(it.cwd), it.model.url, end),
        env={"HOME": str(it.home), "PATH": os.defpath},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    it.stack.push_async_callback(_end, process)
    yield Owner(process, int(await process.stdout.readline()), it)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    # The rest of its output, so that its pipes close with it.
    await process.communicate()


def write_tool(it: Desk, held: HeldCommand) -> None:
    (it.cwd / "tool.sh").write_text(STRAYS + held.command)


async def mid_tool(held: HeldCommand, its: Owner) -> None:
    await held.running.wait()
    # The strays may be on their way from `env` to `sleep`. Besides them there are the guard, the
    # process above it, the shell of the tool and the command it waits for.
    expected = {its.process.pid, its.cli} | its.strays()
    # Other processes: there is no event.
    while not (expected <= (living := its.living()) and len(living) >= 7):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, marks=pytest.mark.versions(NEWEST, "2.1.37")),
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
    ],
)
async def test_a_signal_to_the_owner_in_the_middle_of_a_tool_leaves_nothing(
    desk: OpenDesk, number: signal.Signals
) -> None:
    # D10: left to themselves the CLI and its tools would stay.
    held = HeldCommand()
    async with held.serving(), asyncio.timeout(DEADLINE):
        it = await desk(reply(LONG_TOOL), reply("done"))
        write_tool(it, held)
        async with owner(it) as its:
            await mid_tool(held, its)
            its.process.send_signal(number)
            await its.all_gone()
            await held.ended.wait()


@pytest.mark.parametrize("end", ["closing", "leaving", "failing"])
async def test_an_owner_that_ends_in_the_middle_of_a_tool_leaves_nothing(
    desk: OpenDesk, end: str
) -> None:
    held = HeldCommand()
    async with held.serving(), asyncio.timeout(DEADLINE):
        it = await desk(reply(LONG_TOOL), reply("done"))
        write_tool(it, held)
        async with owner(it, end) as its:
            await mid_tool(held, its)
            its.tell_to_end()
            await its.all_gone()
            await held.ended.wait()
            assert its.process.returncode == (1 if end == "failing" else 0)


async def test_a_killed_owner_leaves_no_background_work(desk: OpenDesk) -> None:
    held = HeldCommand()
    async with held.serving(), asyncio.timeout(DEADLINE):
        it = await desk(reply(BACKGROUND_TOOL), reply("meanwhile"))
        write_tool(it, held)
        async with owner(it) as its:
            await mid_tool(held, its)
            await it.model.asked(2)
            its.process.kill()
            await its.all_gone()
            await held.ended.wait()


async def test_an_owner_killed_in_the_middle_of_text_leaves_no_cli(desk: OpenDesk) -> None:
    it = await desk(reply("one", gate("held"), "two"))
    async with asyncio.timeout(DEADLINE), owner(it) as its:
        await it.model.reached("held")
        assert {its.process.pid, its.cli} <= its.living()
        its.process.kill()
        await its.all_gone()


async def test_an_owner_killed_while_it_is_asked_leaves_no_cli(desk: OpenDesk) -> None:
    it = await desk(reply(tool("Bash", command="touch x", description="never answered")))
    async with asyncio.timeout(DEADLINE), owner(it) as its:
        assert await its.line() == "asked"
        its.process.kill()
        await its.all_gone()
    assert not (it.cwd / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
async def test_an_owner_killed_at_any_moment_leaves_nothing(desk: OpenDesk, seed: int) -> None:
    """The moment is drawn from the whole of a turn with a tool, the start of the CLI included."""
    async with HeldCommand().serving() as held:
        it = await desk(reply("first", LONG_TOOL), reply("done"))
        write_tool(it, held)
        async with asyncio.timeout(DEADLINE), owner(it) as its:
            with suppress(TimeoutError):
                await asyncio.wait_for(held.running.wait(), random.Random(seed).uniform(0, 3))
            its.process.send_signal(signal.SIGKILL)
            await its.all_gone()
