"""What a CLI writes has no bounds; what a person is shown has."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast

from pilothouse.api.values import MAX_WHOLE

__all__ = ["LONGEST", "MOST", "count", "members", "milliseconds", "shorten", "text_of"]

LONGEST: Final = 20_000
"""Characters of one text in an item; what the model says is never cut."""
MOST: Final = 500
"""Members of one list in an item."""


def shorten(text: str, longest: int = LONGEST) -> tuple[str, int]:
    """Return the text, and how many characters of it were left out."""
    over = len(text) - longest
    return (text, 0) if over <= 0 else (text[:longest], over)


def count(value: Any) -> int:
    """Return a whole number that every reader of JSON takes; 0 for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(min(max(value, 0), MAX_WHOLE))


def milliseconds(timestamp: str | None) -> int:
    """Return the time that the CLI wrote, in milliseconds since the epoch; 0 for none."""
    if not timestamp:
        return 0
    try:
        return count(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def members(value: Any) -> dict[str, Any]:
    """Return the members of a JSON object; none for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """Return the value if it is a text; an empty one for anything else."""
    return value if isinstance(value, str) else ""
