"""The CLI of a relay: its pipes, and the guard's word on its start and its end.

    relay ── guard ── CLI ── tools

When the relay dies, the guard ends everything below it. When the guard dies, the kernel tells the
CLI to end, and the relay kills what is left. On macOS there is no way to find what left the CLI's
process group; it stays behind in both cases. So it does on Linux if both are killed at once, when
only the CLI is told.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pilothouse.transport import guard, guard_client
from pilothouse.transport.base import SpawnFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Child", "start"]

START_DEADLINE: Final = 10.0
PIPE_SIZE: Final = 1024 * 1024
STDERR_LIMIT: Final = 64 * 1024


class Child:
    """A running CLI; its descriptors are not blocking."""

    def __init__(
        self, handle: guard_client.Handle, stdin: int, stdout: int, stderr: int, status: int
    ):
        self._handle = handle
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.status = status
        self.pid = 0
        self.wait_status: int | None = None
        self._stderr_kept = bytearray()

    @property
    def guard_pid(self) -> int:
        return self._handle.guard.pid

    @property
    def stderr_tail(self) -> str:
        return self._stderr_kept[-STDERR_LIMIT:].decode(errors="replace")

    def read_stderr(self) -> bool:
        """Keep the last part of what there is; False at the end."""
        data = read(self.stderr, 65536)
        self._stderr_kept += data or b""
        if len(self._stderr_kept) > 2 * STDERR_LIMIT:
            del self._stderr_kept[:-STDERR_LIMIT]
        return data != b""

    def read_status(self) -> bool:
        """Hear what the guard says; False if it says nothing more."""
        report = read(self.status, guard.REPORT.size)
        if report is None:
            return True
        if len(report) == guard.REPORT.size:
            kind, number = guard.REPORT.unpack(report)
            if kind == guard.ENDED:
                self.wait_status = number
        return report != b""

    def terminate(self) -> None:
        """Tell the CLI's process group to end."""
        self._handle.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the CLI and all it started."""
        self._handle.end()

    def kill_group(self) -> None:
        """Kill the CLI's process group without the guard, which is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def read(fd: int, size: int) -> bytes | None:
    """Some bytes, none at the end, or None if there are none now."""
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return None


def start(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Child:
    """Start the CLI under a guard; raises `SpawnFailed`. Waits until it is known to run."""
    pipes = [os.pipe() for _ in range(4)]
    stdin, *outputs = pipes
    theirs = [stdin[0], *(writable for _, writable in outputs)]
    ours = [stdin[1], *(readable for readable, _ in outputs)]
    try:
        # We are a subreaper ourselves: what a killed guard leaves becomes ours.
        handle = guard_client.spawn(argv, cwd=cwd, env=env, fds=theirs, watched=False)
    finally:
        for fd in theirs:
            os.close(fd)
    for fd in ours:
        os.set_blocking(fd, False)
    _enlarge(ours[1])
    child = Child(handle, *ours)
    child.pid = _started(child, argv, cwd)
    return child


def _started(child: Child, argv: Sequence[str], cwd: str | None) -> int:
    ready, _, _ = select.select([child.status], [], [], START_DEADLINE)
    report = read(child.status, guard.REPORT.size) if ready else b""
    if not report:
        raise SpawnFailed(argv[0], "the guard process does not answer")
    kind, number = guard.REPORT.unpack(report)
    if kind != guard.STARTED:
        raise guard_client.explain(argv, cwd, kind, number)
    return number


def _enlarge(fd: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        # Refused when the user's pipes already hold their share of memory.
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
