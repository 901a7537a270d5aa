"""Ends a relay from outside, for an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from .deaths import lives
from .registry import Found

__all__ = ["Ending"]

GRACE: Final = 10.0
"""For a relay to end its CLI in order and to put down what it could not deliver."""


class Ending:
    """SIGTERM now, SIGKILL when its time is up, then `done`. Its guard ends the CLI.

    Nobody waits for the end itself: a `Watch` tells of it.
    """

    def __init__(self, found: Found, done: Callable[[], object]) -> None:
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
