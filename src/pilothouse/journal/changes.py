"""The rows that go with entries: questions, costs, idempotency keys, snapshots and sessions."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence

from pilothouse.api.codec import encode_strictly
from pilothouse.api.events import Event
from pilothouse.api.statuses import Tokens
from pilothouse.api.values import MAX_WHOLE
from pilothouse.protocol.strict import clean_text

from .contract import Changes
from .session_rows import write_sessions

__all__ = ["write_changes"]


def write_changes(
    db: sqlite3.Connection,
    changes: Changes,
    events: Sequence[Event],
    number: Callable[[str], int],
) -> None:
    """Write them within the transaction of their entries; `number` gives a session's key."""
    kinds = (changes.questions, changes.costs, changes.keys, changes.snapshots, changes.sessions)
    if not any(kinds):
        # Most posts only have how far a run has come; statements for nothing are not free.
        return
    opened, last = (events[0].seq, events[-1].seq) if events else (0, 0)
    db.executemany(
        "INSERT INTO questions (id, session, state, opened, body, asked, closed, rule, by_rule)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state,"
        " body = excluded.body, closed = excluded.closed, rule = excluded.rule,"
        " by_rule = excluded.by_rule",
        [
            (
                *(q.id, number(q.session_id), q.state, opened, encode_strictly(q)),
                *(q.opened_at, q.closed_at, None if q.rule is None else clean_text(q.rule)),
                q.answered_by == "policy",
            )
            for q in changes.questions
        ],
    )
    db.executemany(
        "INSERT INTO costs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                last,
                number(c.session_id),
                clean_text(c.project),
                c.at,
                c.day,
                *_sums(c.usd, c.tokens),
                max(min(c.duration_ms, MAX_WHOLE), 0),
            )
            for c in changes.costs
        ],
    )
    by_model = [
        (number(c.session_id), clean_text(name), c.at, c.day, *_sums(each.cost_usd, each.tokens))
        for c in changes.costs
        for name, each in c.models.items()
    ]
    if by_model:
        db.executemany("INSERT INTO model_costs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", by_model)
    now = int(time.time() * 1000)
    db.executemany(
        "INSERT INTO keys VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(row.key, row.digest, row.result, now) for row in changes.keys],
    )
    db.executemany(
        "INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE"
        " SET upto = excluded.upto, body = excluded.body WHERE excluded.upto >= upto",
        [(number(row.session_id), row.upto, row.body) for row in changes.snapshots],
    )
    write_sessions(db, changes.sessions, number)


def _sums(usd: float, tokens: Tokens) -> Iterable[float]:
    # A line of a CLI's must not stop the journal, whatever it counts.
    yield usd if math.isfinite(usd) else 0.0
    for count in (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write):
        yield max(min(count, MAX_WHOLE), 0)
