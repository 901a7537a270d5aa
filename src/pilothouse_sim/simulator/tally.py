"""What one turn has come to so far, and how it ended: what its result will say."""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct

from pilothouse_sim.simulator.ledger import Spent

__all__ = ["Aborted", "Tally", "TurnEnding"]


class Tally:
    """One turn's books."""

    def __init__(
        self,
        uuids: list[str] | None = None,
        origin: dict[str, Any] | None = None,
        *,
        lead: str | None = None,
    ) -> None:
        self.uuids = uuids or []
        """The client's ids of the prompts this turn answers."""
        self.origin = origin
        self._lead = lead
        self.spent = Spent()
        self.user_lines = 0
        self.denials: list[dict[str, Any]] = []
        self.last_text = ""
        self.stop_reason: str | None = None
        self.first_usage: dict[str, Any] | None = None
        self.last_usage: dict[str, Any] = {}
        self.structured: Any = None
        self.misfits: list[str] = []
        """What was wrong with answers that did not have the shape asked for."""
        self.has_made_room = False
        """Whether the conversation was compacted because the API found it too long."""
        self.is_opened = False
        """Whether the first stream event has said already which prompts the turn answers."""
        self.refusals = 0
        """How many replies the model has broken off because it refuses."""
        self.is_sent_back = False
        """Whether a Stop hook has sent the model back to work."""
        self.announced = False
        """Whether a line has said already which prompts the turn answers."""
        self.started = time.monotonic()
        self.api_ms = 0

    def announce(self) -> dict[str, Any]:
        """The fields that name the prompts, for the first line that speaks for the turn."""
        if self.announced or not self.uuids:
            return {}
        self.announced = True
        return self.names()

    def names(self) -> dict[str, Any]:
        """The fields that name the prompts."""
        if not self.uuids:
            return {}
        lead = self._lead or self.uuids[0]
        return {"user_message_uuid": lead, "user_message_uuids": list(self.uuids)}

    def elapsed_ms(self) -> int:
        """How long the turn has taken."""
        return int((time.monotonic() - self.started) * 1000)


class TurnEnding(Struct, frozen=True, kw_only=True):
    """How a turn ended, as its result says it."""

    reason: str = "completed"
    subtype: str = "success"
    is_error: bool = False
    errors: list[str] | None = None
    extra: dict[str, Any] = {}
    error: str = ""
    """The kind of API error that ended it."""


class Aborted(Exception):
    """The turn was interrupted; the lines that say so are written."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
