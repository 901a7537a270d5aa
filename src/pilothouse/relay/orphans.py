"""Ends what a killed guard left behind.

The guard is a child subreaper, and the relay above it is one too: when the guard is gone, whatever
it had below it becomes the relay's child, however it tried to get away. There is nothing of the
kind outside Linux: there only the CLI's own process group can be found.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["become_subreaper", "end_children", "kill_children", "reap"]

ROUNDS = 20
ROUND = 0.02
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Be the parent of every orphan below us from now on."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)


def kill_children(*, but: int = 0) -> bool:
    """Kill every child, or every one but this; False if there is none."""
    found = [pid for pid in _children() if pid != but]
    for pid in found:
        # Ours and not reaped, so that the number is still its own.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def end_children() -> None:
    """Kill and reap every child, in a bounded time."""
    for _ in range(ROUNDS):
        if not kill_children():
            return
        # What was killed has to die before it can be reaped; its own children show up only then.
        time.sleep(ROUND)
        reap()


def reap() -> dict[int, int]:
    """The wait status of each child that has ended."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (death := os.waitpid(-1, os.WNOHANG))[0]:
            ended[death[0]] = death[1]
    return ended


def _children() -> list[int]:
    # Of every thread: an orphan may be given to any of them.
    files = Path("/proc/self/task").glob("*/children")
    try:
        return [int(pid) for file in files for pid in file.read_text().split()]
    except OSError:
        return []
