"""The rows that go with entries: questions, costs, idempotency keys and snapshots."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pilothouse.sessions.contract import Event, Question, Tokens

from .contract import Changes

__all__ = ["write_changes"]

LARGEST: Final = 2**63 - 1


def write_changes(
    db: sqlite3.Connection,
    changes: Changes,
    events: Sequence[Event],
    number: Callable[[str], int],
) -> None:
    """Write them within the transaction of their entries; `number` gives a session's key."""
    if not (changes.questions or changes.costs or changes.keys or changes.snapshots):
        # Most posts only say how far a run has come; four statements for nothing are not free.
        return
    opened, last = (events[0].seq, events[-1].seq) if events else (0, 0)
    db.executemany(
        "INSERT INTO questions (id, session, state, opened, body) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body",
        [(q.id, number(q.session_id), q.state, opened, _body(q)) for q in changes.questions],
    )
    db.executemany(
        "INSERT INTO costs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (last, number(c.session_id), c.project, c.at, c.day, c.usd, *_sums(c.tokens))
            for c in changes.costs
        ],
    )
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


def _body(question: Question) -> bytes:
    """As JSON; half of a surrogate pair, which a CLI's line may have, becomes a question mark."""
    try:
        return msgspec.json.encode(question)
    except UnicodeEncodeError:
        plain = json.dumps(msgspec.to_builtins(question), ensure_ascii=False)
        return plain.encode("utf-8", "replace")


def _sums(tokens: Tokens) -> list[int]:
    told = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    # A line of a CLI's must not stop the journal, whatever it counts.
    return [max(min(each, LARGEST), 0) for each in told]
