"""What happened: entries of the journal, as watchers get them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Raw, Struct, field

from .values import ResultData

__all__ = [
    "Batch",
    "Event",
    "Gap",
]


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """One entry of the journal."""

    seq: int
    session_id: str
    kind: str
    """`cli`, `partial`, `noise`, or a record of the engine's: see `records`."""
    at: int
    body: Raw
    raw: bytes | None = None
    """The line of the CLI's byte for byte, where it is one that not every reader of JSON takes and
    `body` is what every reader does; in base64."""


class Gap(ResultData, frozen=True):
    """Events that were there and are no more: `count` of them between the two cursors.

    After `damage` nobody knows how many: it is 0. So it is after `reset`: the cursor was of another
    journal, or of this one before a backup was put back, and `first` is where this one goes on.
    """

    first: int
    last: int
    count: int
    reason: Literal["partials", "retention", "damage", "reset"]


class Batch(ResultData, frozen=True):
    """Events in order, and where to go on."""

    events: Sequence[Event]
    cursor: int
    gaps: list[Gap] = field(default_factory=list[Gap])
