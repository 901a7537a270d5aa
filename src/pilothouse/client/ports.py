"""What a client can be given in place of its pipes, its inbox and a fresh start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pilothouse.errors import SessionEnded
from pilothouse.protocol import (
    ControlRequest,
    InitializeResult,
    InitMessage,
    LineRejected,
    Message,
)
from pilothouse.transport import Transport
from pilothouse.transport.base import NumberedLines

from .launch import Launch
from .turns import Turn, TurnTracker

__all__ = ["Carry", "Past", "Sink"]


class Sink(Protocol):
    """Takes what the CLI writes in the very call that delivered it, in place of `read`.

    For a program that stores everything elsewhere. It must neither block nor raise. It follows the
    turns itself: the client only looks at its tracker.
    """

    @property
    def tracker(self) -> TurnTracker:
        """The CLI's turns, with every prompt that was sent to it, as followed so far."""
        ...

    def received(
        self,
        events: Sequence[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None = None,
    ) -> Sequence[Turn]:
        """Take a batch, and the types in it, before any handler hears of what it asks.

        `lines` are what the batch was read from, where they have a number. Return the turns that
        ended with it.
        """
        ...

    def ended(self, error: SessionEnded) -> None:
        """Take how the CLI ended, once, after the last batch."""
        ...


Carry = Callable[[Launch], Transport]
"""Makes the transport for a start, where no pipes are to carry the CLI's bytes."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a client must know of a CLI that was greeted before it: see `Client.attach`."""

    tracker: TurnTracker = field(default_factory=TurnTracker)
    """Its turns, followed up to now. Where there is a sink, that one's counts."""
    asked: Sequence[ControlRequest] = ()
    """The requests of the CLI that nobody has answered."""
    greeting: InitializeResult | None = None
    """Its answer to the greeting; None: that is still to come."""
    is_greeting_sent: bool = True
    """Whether the greeting was sent to it at all."""
    init: InitMessage | None = None
    session_id: str | None = None
