"""Where something else than pipes, an inbox and a fresh start is put into a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from .turns import TurnTracker

__all__ = ["Carry", "Past", "Sink"]


class Sink(Protocol):
    """Takes what the CLI writes in the very call that delivered it, in place of `read`.

    For a program that keeps everything elsewhere. It must neither block nor raise.
    """

    def received(
        self,
        events: Sequence[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None = None,
    ) -> None:
        """Take a batch, and the types in it, before any handler hears of what it asks.

        `lines` are what the batch was read from, where they have a number.
        """
        ...

    def ended(self, error: SessionEnded) -> None:
        """Note how the CLI ended, once, after the last batch."""
        ...


Carry = Callable[[Launch], Transport]
"""Makes the transport for a start: what else than pipes is to carry the CLI's bytes."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a client must know of a CLI that was greeted before it: see `Client.attach`."""

    tracker: TurnTracker
    """What was sent to it and what it told, followed up to now."""
    asked: Sequence[ControlRequest] = ()
    """What it asked and nobody has answered."""
    greeting: InitializeResult | None = None
    """Its answer to the greeting; None: that is still to come."""
    is_greeting_sent: bool = True
    """Whether the greeting is on its way to it at all."""
    init: InitMessage | None = None
    session_id: str | None = None
