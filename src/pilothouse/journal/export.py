"""Writes entries as lines of JSON, a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pilothouse.protocol.wire import encode_json

from .contract import Journal

__all__ = ["export"]

PAGE: Final = 1000


async def export(
    journal: Journal,
    write: Callable[[bytes], Any],
    *,
    session_id: str | None = None,
    after: int = 0,
) -> int:
    """Write what is committed by now, of one session or of all; how many entries that were.

    A line is `{"seq", "session_id", "kind", "at", "body"}`. `write` is called once a page.
    """
    cursor, upto, count = after, journal.last, 0
    while cursor < upto:
        batch = await journal.read(cursor, session_id=session_id, limit=PAGE)
        events = [event for event in batch.events if event.seq <= upto]
        if events:
            write(b"".join(encode_json(event) + b"\n" for event in events))
        cursor, count = batch.cursor, count + len(events)
    return count
