"""Small programs that stand in for the CLI, and ways to wait for processes."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from pilothouse.transport import Exit, StdioTransport
from pilothouse.transport.stdio import TIMINGS, Timings
from tests.support.waiting import DEADLINE

ECHO = """
import os
while data := os.read(0, 65536):
    while data:
        data = data[os.write(1, data):]
"""

DEAF = """
import signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
threading.Event().wait()
"""

# Starts a grandchild in a session of its own that ignores what a hangup or a terminal would send,
# tells both pids, and runs until it is ended.
PARENT = """
import os, subprocess, sys, threading
patient = (
    "import signal, threading\\n"
    "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):\\n"
    "    signal.signal(number, signal.SIG_IGN)\\n"
    "print('ready', flush=True)\\n"
    "threading.Event().wait()\\n"
)
grandchild = subprocess.Popen(
    [sys.executable, "-S", "-c", patient], start_new_session=True,
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
)
grandchild.stdout.readline()
print(os.getpid(), grandchild.pid, flush=True)
"""
STAYS = PARENT + "threading.Event().wait()\n"
FOLLOWS_STDIN = PARENT + "sys.stdin.read()\n"


class Recorder:
    """A receiver that keeps what it was told and lets a test wait for it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.calls: list[str] = []
        self.exits: list[Exit] = []
        self._changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._note("data")

    def eof_received(self) -> None:
        self._note("eof")

    def exited(self, exit: Exit) -> None:
        self.exits.append(exit)
        self._note("exited")

    def _note(self, call: str) -> None:
        if self.calls[-1:] != [call] or call != "data":
            self.calls.append(call)
        self._changed.set()

    async def until(self, what: str) -> None:
        """Wait for a call of this name."""
        async with asyncio.timeout(DEADLINE):
            while what not in self.calls:
                self._changed.clear()
                await self._changed.wait()

    async def line(self) -> str:
        """Wait for the first whole line."""
        async with asyncio.timeout(DEADLINE):
            while b"\n" not in self.data:
                self._changed.clear()
                await self._changed.wait()
        return self.data.split(b"\n", 1)[0].decode()

    async def size(self, count: int) -> None:
        """Wait for this many bytes."""
        async with asyncio.timeout(DEADLINE):
            while len(self.data) < count:
                self._changed.clear()
                await self._changed.wait()


def program(source: str, timings: Timings = TIMINGS) -> StdioTransport:
    """Return a transport to a Python program given as text."""
    argv = [sys.executable, "-S", "-c", source]
    return StdioTransport(argv, cwd=None, env={}, timings=timings)


def state(pid: int) -> str:
    """Return the kernel's letter for the process, or none if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Say whether the process runs; a zombie does not."""
    return state(pid) not in ("", "Z")


async def stopped(pid: int) -> None:
    """Wait until the process has stopped itself."""
    async with asyncio.timeout(DEADLINE):
        while state(pid) != "T":  # noqa: ASYNC110 - another process's state has no event
            await asyncio.sleep(0.01)


async def gone(*pids: int) -> None:
    """Wait until none of the processes runs."""
    async with asyncio.timeout(DEADLINE):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


def guard_pid(pid: int) -> int:
    """Return the parent of a program under guard."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> set[int]:
    """Return the children of a process with one thread."""
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def open_fds() -> int:
    """Count our open file descriptors."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def showing(words: str) -> list[int]:
    """The processes that have these words in their command line; the rest is not ours to tell."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def with_variable(name: str, value: str) -> list[int]:
    """The processes that were started with this in their environment."""
    wanted = f"{name}={value}".encode()
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
