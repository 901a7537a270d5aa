"""What a door needs of whoever keeps things, and whom it lets in.

socket ──> Doors ── token: whose? ──> Carrier.visited ──> Receiver (a client's channel)
                                          │
                                          └── Ledger: what was received and sent, on disk
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pilothouse.transport.base import LONGEST_LINE, NumberedLines

from .sockets import Socket

__all__ = ["Carried", "Carrier", "Ledger", "LostLines", "Outgoing", "too_long"]


class Outgoing(NamedTuple):
    """Something for a CLI with its number: a line or an order, as a relay's frame has it."""

    number: int
    kind: int
    """`relay.door_frames.FrameKind`: LINES (one line with its newline) or ORDER."""
    body: bytes


class Carried(NamedTuple):
    """How far one run has come, as it was kept."""

    received: int = 0
    """The last line of the CLI's that is committed."""
    sent: int = 0
    """The last number that was given to something for the CLI."""
    outgoing: Sequence[Outgoing] = ()
    """What the CLI may not have yet, in order."""


class Ledger(Protocol):
    """Keeps how far one run has come. Everything given to it is committed in that order."""

    def kept(self, upto: int | None = None) -> asyncio.Future[None]:
        """Return a future that is done when everything that came so far is committed.

        `upto` is the last number that came, if it was not stored with the lines themselves.
        """
        ...

    def sending(self, outgoing: Sequence[Outgoing]) -> asyncio.Future[None]:
        """Keep this for the CLI; done once it is committed, and may be sent."""
        ...

    def taken(self, upto: int) -> None:
        """Forget what the CLI has by now."""
        ...


class LostLines(Protocol):
    """Called when lines of a CLI are gone for good."""

    def __call__(self, because: str, lines: NumberedLines | None = None) -> None:
        """`lines` is empty and has the number of the last that is gone, if that is known."""
        ...


class Carrier(Protocol):
    """One run's way in: a transport that is reached through a door."""

    @property
    def session_id(self) -> str: ...

    @property
    def run(self) -> str:
        """This one life of a CLI; its token names it."""
        ...

    @property
    def machine(self) -> str:
        """The runner that looks after it; empty: this machine."""
        ...

    @property
    def route(self) -> str:
        """Which address is its own: `relay` for /relay/ID, `ws` for /ws/ID and its posts."""
        ...

    def is_other(self, headers: Mapping[str, str]) -> bool:
        """Whether a dial with these headers must be another's than the one that came first."""
        ...

    async def visited(self, socket: Socket) -> None:
        """Speak with whoever came, until the socket or the carrier has ended. Never raises."""
        ...

    async def posted(self, body: bytes) -> int:
        """Take a batch that came beside the socket; the HTTP status to answer with."""
        ...


def too_long(size: int) -> str:
    """What is told of a line that was dropped for its length."""
    return f"a line of the CLI was lost: it had {size} bytes, and {LONGEST_LINE} are the most"
