"""Which sessions have changed since an entry, from the entries at hand or from the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from pilothouse.api.events import Event

from .schema import scalar

__all__ = [
    "OF_QUESTIONS",
    "ChangedSessions",
    "changed_in",
    "changed_since",
    "question_bodies",
    "summaries_of",
]

OF_QUESTIONS: Final = frozenset({"question.opened", "question.closed", "question.decided"})
MINUTE_MS: Final = 60_000


class ChangedSessions(NamedTuple):
    """Sessions that have changed, those whose questions may have, and since when."""

    names: set[str]
    asking: set[str]
    since: int


def changed_in(newer: Sequence[Event]) -> ChangedSessions:
    """The sessions of these entries."""
    asked = [event for event in newer if event.kind in OF_QUESTIONS]
    return ChangedSessions(
        {event.session_id for event in newer},
        {event.session_id for event in asked},
        min((event.at for event in asked), default=0),
    )


def changed_since(db: sqlite3.Connection, after: int, most: int) -> ChangedSessions:
    """Sessions with an entry after this number. Each is one look into an index, however many
    entries there are."""
    listed = scalar(
        db,
        "SELECT json_group_array(id) FROM (SELECT id FROM sessions WHERE EXISTS"
        " (SELECT 1 FROM events WHERE session = key AND seq > ?) LIMIT ?)",
        *(after, most),
    )
    names = msgspec.json.decode(listed, type=set[str])
    at = scalar(db, "SELECT at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1", after)
    # Clocks are set: a minute more is no harm, since what is told twice is the same.
    return ChangedSessions(names, names, (at or 0) - MINUTE_MS)


def summaries_of(db: sqlite3.Connection, names: Collection[str]) -> dict[str, bytes]:
    """The rows of these sessions, of those that ever rested and that retention has left."""
    listed = scalar(
        db,
        "SELECT json_group_object(id, CAST(summary AS TEXT)) FROM sessions"
        " WHERE summary IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
        _json(names),
    )
    found = msgspec.json.decode(listed, type=dict[str, str])
    return {name: summary.encode() for name, summary in found.items()}


def question_bodies(
    db: sqlite3.Connection, changed: ChangedSessions, most: int
) -> list[bytes] | None:
    """The questions for people of these sessions that are open, or were asked or settled since
    then, in the order they were asked; None if they are more than so many."""
    rows = db.execute(
        "SELECT opened, number, body FROM questions WHERE session IN (SELECT key FROM sessions"
        " WHERE id IN (SELECT value FROM json_each(?))) AND (state = 'open'"
        " OR (NOT by_rule AND (asked >= ? OR closed >= ?))) LIMIT ?",
        (_json(changed.asking), changed.since, changed.since, most + 1),
    ).fetchall()
    # Sorted here: a sort of so much text may want room on a disk that has none.
    return None if len(rows) > most else [body for *_, body in sorted(rows)]


def _json(names: Collection[str]) -> str:
    return msgspec.json.encode(list(names)).decode()
