"""What one can wait for in a session: that it no longer works by itself, or the next thing that
somebody must know."""

from __future__ import annotations

from typing import Final

from .events import Batch
from .statuses import Status

__all__ = ["PASSING", "Wanted"]

AT_REST: Final = ("done", "error", "interrupted")
MATTERS: Final = frozenset({"question.opened", "question.closed", "question.decided", "turn.ended"})
PASSING: Final = frozenset({"partial", "noise"})
"""Pieces of what is told whole soon after, and what no face shows."""


class Wanted:
    """What is waited for: something that matters after a cursor, or else that the session waits
    for somebody, or, with `at_rest`, that it neither works nor asks."""

    def __init__(self, after: int | None, *, at_rest: bool) -> None:
        self.after = after
        self._at_rest = at_rest

    def is_it(self, status: Status) -> bool:
        """Whether a session as it is now ends the wait."""
        if status.state in AT_REST:
            return True
        return self.after is None and not self._at_rest and status.state != "active"

    def has_it(self, batch: Batch) -> bool:
        """Whether something that happened ends it."""
        if self.after is None:
            return False
        # What has been lost from the journal may have mattered.
        is_lost = any(gap.reason != "partials" for gap in batch.gaps)
        return is_lost or any(event.kind in MATTERS for event in batch.events)
