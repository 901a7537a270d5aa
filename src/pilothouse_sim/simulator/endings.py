"""How a turn can end."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Aborted", "Ending"]


class Ending(Struct, frozen=True, kw_only=True):
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
