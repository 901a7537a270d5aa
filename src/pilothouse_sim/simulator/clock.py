"""Times as the wire has them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

__all__ = ["now_ms", "timestamp"]


def timestamp() -> str:
    """The time as transcripts and messages have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
