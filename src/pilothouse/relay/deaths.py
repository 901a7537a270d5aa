"""The end of a relay, for other processes: to notice it, to explain it, to bring it about."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import registry
from .registry import RunningRelay

__all__ = [
    "STARTS_WITHIN",
    "RelayTermination",
    "RelayWatch",
    "guard_of",
    "last_words",
    "lives",
]

LOOK_AGAIN: Final = 1.0
"""Between two looks at a relay where the kernel does not tell of its end."""
STARTS_WITHIN: Final = 20.0
"""As long as a relay may take to write down who it is."""
GUARD_GRACE: Final = 5.0
"""For the guard of a relay that was killed to end its CLI."""
GRACE: Final = 10.0
"""For a relay to end its CLI in order and to write down what it could not deliver."""
LOG_TAIL: Final = 4096
SAID: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+ pilothouse relay: ")
"""How a line begins that a relay has written while it ran."""


def lives(found: RunningRelay) -> bool:
    """Whether it runs, and is no other process that has its number now."""
    return registry.started_at(found.relay_pid) == found.started


def guard_of(folder: Path) -> int | None:
    """The guard of a relay that was killed: one that ends in order takes its file away."""
    try:
        pid = json.loads((folder / registry.NAME).read_bytes())["guard_pid"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return pid if type(pid) is int and 0 < pid < 1 << 31 else None


def last_words(folder: Path) -> str:
    """Why a relay is gone. One that ended in order has left no log."""
    try:
        line = _last_line(folder / registry.LOG_NAME)
    except OSError:
        return "its relay has ended"
    if not line or SAID.match(line):
        return "its relay was killed"
    return f"its relay failed: {line.removeprefix('pilothouse relay: ')}"


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_TAIL))
        lines = file.read(LOG_TAIL).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


class RelayWatch:
    """Calls `gone` once when a relay has ended, never at once.

    One that is not found yet is waited for as long as it may take to start, if `starts` looks for
    it. `guard`, asked when the relay has ended, names a guard that may still be ending the CLI: it
    is waited for too. The kernel tells of the end where it has descriptors for processes.
    """

    def __init__(
        self,
        found: RunningRelay | None,
        gone: Callable[[], None],
        starts: Callable[[], RunningRelay | None] | None = None,
        guard: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._guard = guard
        self._fd = -1
        self._timer: asyncio.Handle | None = None
        if found is not None:
            self._watch(found)
        elif starts is not None:
            self._await(starts, self._loop.time() + STARTS_WITHIN)
        else:
            self._tell_soon()

    def end(self) -> None:
        """Tell nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _await(self, starts: Callable[[], RunningRelay | None], until: float) -> None:
        if (found := starts()) is not None:
            self._watch(found)
        elif self._loop.time() < until:
            self._timer = self._loop.call_later(LOOK_AGAIN, self._await, starts, until)
        else:
            self._tell_soon()

    def _watch(self, found: RunningRelay) -> None:
        fd = _pidfd(found.relay_pid)
        if fd is None:
            self._poll(found)
            return
        self._fd = fd
        self._loop.add_reader(fd, self._relay_ended)
        # Asked when the descriptor is there: before, its number may have become another's.
        if not lives(found):
            self._timer = self._loop.call_soon(self._relay_ended)

    def _poll(self, found: RunningRelay) -> None:
        if lives(found):
            self._timer = self._loop.call_later(LOOK_AGAIN, self._poll, found)
        else:
            self._timer = self._loop.call_soon(self._relay_ended)

    def _relay_ended(self) -> None:
        self.end()
        pid = self._guard()
        fd = None if pid is None else _pidfd(pid)
        if fd is None:
            self._tell()
            return
        # It may be another's number by now; then that one is waited for, and not for long.
        self._fd = fd
        self._loop.add_reader(fd, self._tell)
        self._timer = self._loop.call_later(GUARD_GRACE, self._tell)

    def _tell_soon(self) -> None:
        self._timer = self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self.end()
        self._gone()


class RelayTermination:
    """SIGTERM now, SIGKILL when its time is up, then `done`. Its guard ends the CLI.

    The end itself is noticed by a `RelayWatch`.
    """

    def __init__(self, found: RunningRelay, done: Callable[[], object]) -> None:
        self._found = found
        self._done = done
        self._fd = _pidfd(found.relay_pid)
        self._send(signal.SIGTERM)
        self._timer = asyncio.get_running_loop().call_later(GRACE, self.kill)

    def kill(self) -> None:
        """Have it gone; one that has ended by then is not harmed, nor is another of its number."""
        self._timer.cancel()
        self._send(signal.SIGKILL)
        if self._fd is not None:
            os.close(self._fd)
        self._done()

    def _send(self, number: signal.Signals) -> None:
        # By the descriptor it cannot reach another process between the look and the signal.
        with suppress(OSError):
            if lives(self._found) and self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            elif lives(self._found):
                os.kill(self._found.relay_pid, number)


def _pidfd(pid: int) -> int | None:
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None
