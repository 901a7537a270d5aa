"""What every transport promises: bytes both ways, an end told once, a bounded close.

::

    TransportError
    ├── SpawnFailed      the program could not be started
    └── TransportClosed  it was used before its start or after its end
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes of a line that is kept. The longest a CLI writes on purpose are echoes of prompts, with
their images, and the model takes half of this. A longer one is dropped, and told of by its size.
"""


class TransportError(Exception):
    """The bytes cannot be carried."""


class SpawnFailed(TransportError):
    """The program could not be started; `reason` says why in words for a user."""

    def __init__(self, argv0: str, reason: str) -> None:
        super().__init__(f"cannot start {argv0}: {reason}")
        self.argv0 = argv0
        self.reason = reason


class TransportClosed(TransportError):
    """The transport takes no bytes: not started, closed by us, or left by the peer."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the peer ended: with `code`, or killed by `signal`; neither when that is unknown."""

    code: int | None
    signal: int | None
    stderr_tail: str
    reason: str = ""
    """Why it is gone, where that was not its own doing."""


class NumberedLines(bytes):
    """Whole lines of one run, with the number of the last of them.

    Whoever stores the lines stores the number with them, and then sets `is_stored`: from then on
    they must not come again, whatever fails.
    """

    run: str
    upto: int
    is_stored: bool = False

    @classmethod
    def of(cls, lines: bytes, run: str, upto: int) -> NumberedLines:
        """Return these lines with their number."""
        numbered = cls(lines)
        numbered.run, numbered.upto = run, upto
        return numbered


class Receiver(Protocol):
    """Takes what a transport delivers, in order, on the event loop; must never block or raise."""

    def data_received(self, data: bytes) -> None:
        """Take some bytes of the peer's output, cut anywhere; `NumberedLines` are whole."""
        ...

    def eof_received(self) -> None:
        """Note that the peer's output has ended: called once, and always before `exited`."""
        ...

    def exited(self, exit: Exit) -> None:
        """Note that the peer is gone and its output is complete: called once, and last."""
        ...


class Transport(Protocol):
    """Carries bytes to and from one peer."""

    @property
    def pid(self) -> int | None:
        """The peer's process, if it is one of this machine and was started."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last part of what the peer wrote to stderr so far."""
        ...

    async def start(self, receiver: Receiver) -> None:
        """Start the peer, once; raises `SpawnFailed` if that cannot be done."""
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes for the peer without waiting; raises `TransportClosed` if it takes none."""
        ...

    async def drain(self) -> None:
        """Wait until little enough is queued; raises `TransportClosed` if the peer left."""
        ...

    def close_stdin(self) -> None:
        """End the peer's input once the queued bytes are through; repeated calls do nothing."""
        ...

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """End the peer within a bounded time and say how it ended.

        Cancelling a caller does not stop the closing; every caller gets the same answer.
        """
        ...
