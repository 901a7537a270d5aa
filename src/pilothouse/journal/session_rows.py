"""What the journal's database has of each session beside its entries, so that it is found by them.

A session at work is marked as such: an engine that opens the journal restores those and no others.
The columns of the rest are true while it rests, and are what lists and look-ups read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable

import msgspec

from pilothouse.protocol.strict import clean_text

from .contract import RestingPage, SessionFilter, SessionRow, Snapshot
from .schema import given, scalar

__all__ = [
    "forget_session",
    "holder_of",
    "names_near",
    "owned_among",
    "read_snapshot",
    "resting_page",
    "session_names",
    "write_sessions",
]

_HAS_ENTRIES = (
    "(EXISTS (SELECT 1 FROM snapshots WHERE session = key)"
    " OR EXISTS (SELECT 1 FROM events WHERE session = key))"
)
_IS_KNOWN = "(at_work OR summary IS NOT NULL)"


def write_sessions(
    db: sqlite3.Connection, rows: Iterable[SessionRow], number: Callable[[str], int]
) -> None:
    """Write rows within the transaction of their entries; `number` gives a session's key."""
    for row in rows:
        key = number(row.session_id)
        if row.summary is None:
            db.execute(
                "UPDATE sessions SET at_work = ?, conversation = ? WHERE key = ?",
                (row.at_work, row.conversation, key),
            )
        else:
            db.execute(
                "UPDATE sessions SET at_work = ?, conversation = ?, updated_at = ?, cwd = ?,"
                " state = ?, label = ?, machine = ?, archived = ?, search = ?, summary = ?"
                " WHERE key = ?",
                (
                    *(row.at_work, row.conversation, row.updated_at, clean_text(row.cwd)),
                    *(row.state, _clean(row.label), row.machine, row.archived),
                    *(clean_text(row.search), row.summary, key),
                ),
            )


def forget_session(db: sqlite3.Connection, key: int) -> None:
    """Leave nothing of a session but its name, which gaps still refer to."""
    db.execute(
        "UPDATE sessions SET at_work = 0, conversation = NULL, updated_at = NULL, cwd = NULL,"
        " state = NULL, label = NULL, machine = NULL, search = NULL, summary = NULL WHERE key = ?",
        (key,),
    )


def session_names(db: sqlite3.Connection, *, at_work: bool) -> list[str]:
    """Every session that has entries or a snapshot, or every one of those at work."""
    only = "at_work AND " if at_work else ""
    rows = db.execute(f"SELECT id FROM sessions WHERE {only}{_HAS_ENTRIES} ORDER BY key")
    return [name for (name,) in rows.fetchall()]


def read_snapshot(db: sqlite3.Connection, name: str) -> Snapshot | None:
    """The newest snapshot of a session, an empty one if it has entries alone; None: no session."""
    found = db.execute(
        "SELECT upto, body FROM sessions LEFT JOIN snapshots ON session = key"
        f" WHERE id = ? AND {_HAS_ENTRIES}",
        (name,),
    ).fetchone()
    if found is None:
        return None
    return Snapshot(session_id=name, upto=found[0] or 0, body=found[1] or b"")


def holder_of(db: sqlite3.Connection, conversation: str) -> str | None:
    """The session that has this conversation, the oldest if several do."""
    return scalar(
        db,
        f"SELECT id FROM sessions WHERE conversation = ? AND {_IS_KNOWN} ORDER BY key LIMIT 1",
        conversation,
    )


def owned_among(db: sqlite3.Connection, names: Collection[str]) -> set[str]:
    """Those names that are a session's, or the conversation's of one."""
    listed = scalar(
        db,
        "SELECT json_group_array(value) FROM json_each(?) AS asked WHERE"
        f" EXISTS (SELECT 1 FROM sessions WHERE id = asked.value AND {_IS_KNOWN}) OR"
        f" EXISTS (SELECT 1 FROM sessions WHERE conversation = asked.value AND {_IS_KNOWN})",
        _json(names),
    )
    return set(msgspec.json.decode(listed, type=list[str]))


def names_near(db: sqlite3.Connection, name: str, most: int) -> list[str]:
    """Sessions before and after this name in the order of names, which begin as it does."""
    after = f"SELECT id FROM sessions WHERE id >= ? AND {_IS_KNOWN} ORDER BY id LIMIT ?"
    before = f"SELECT id FROM sessions WHERE id < ? AND {_IS_KNOWN} ORDER BY id DESC LIMIT ?"
    rows = [*db.execute(after, (name, most)), *db.execute(before, (name, most))]
    return [found for (found,) in rows]


def resting_page(
    db: sqlite3.Connection, which: SessionFilter, limit: int, besides: Collection[str]
) -> RestingPage:
    """The newest of the sessions that are meant, without those in `besides`."""
    where, values = given(
        {
            "cwd = ?": _clean(which.cwd),
            "state = ?": which.state,
            "label = ?": _clean(which.label),
            "machine = ?": _clean(which.machine),
            "archived = ?": which.archived,
        }
    )
    for word in which.words:
        where += " AND instr(search, ?)"
        values.append(clean_text(word))
    chosen = f"FROM sessions WHERE summary IS NOT NULL AND {where}"
    others, left_out = "id NOT IN (SELECT value FROM json_each(?))", _json(besides)
    states = dict(db.execute(f"SELECT state, count(*) {chosen} GROUP BY state", values).fetchall())
    held = db.execute(
        f"SELECT state, count(*) {chosen} AND id IN (SELECT value FROM json_each(?))"
        " GROUP BY state",
        (*values, left_out),
    ).fetchall()
    for state, count in held:
        states[state] -= count
    # As one row: each further one could wait for a busy event loop.
    listed = scalar(
        db,
        "SELECT json_group_array(CAST(summary AS TEXT)) FROM"
        f" (SELECT summary {chosen} AND {others} ORDER BY updated_at DESC, id LIMIT ?)",
        *(*values, left_out, limit),
    )
    return RestingPage(
        summaries=[each.encode() for each in msgspec.json.decode(listed, type=list[str])],
        states={state: count for state, count in states.items() if count},
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _json(names: Collection[str]) -> str:
    return msgspec.json.encode(list(names)).decode()
