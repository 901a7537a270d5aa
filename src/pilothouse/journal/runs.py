"""How far each run of a CLI has come, and what is stored for it: rows of the journal's database.

A run's row begins with the first thing that is received from it or sent to it, and goes with all
that belongs to it when the run has ended or its session is removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from .contract import Changes, ReceivedRow, RunRow, SendingRow
from .schema import portions, scalar

__all__ = ["read_run", "remove_runs", "write_runs"]


@dataclass(slots=True)
class _Net:
    """What changes come to when they are made one after the other.

    Lines arrive far more often than groups are committed: of each run, the last row is written.
    """

    received: dict[str, ReceivedRow] = field(default_factory=dict[str, ReceivedRow])
    sending: dict[str, list[SendingRow]] = field(default_factory=dict[str, list[SendingRow]])
    taken: dict[str, int] = field(default_factory=dict[str, int])
    ended: set[str] = field(default_factory=set[str])

    def add(self, changes: Changes) -> None:
        for row in changes.received:
            self.received[row.run] = row
        for row in changes.sending:
            self.sending.setdefault(row.run, []).append(row)
        for run, upto in changes.taken:
            self.taken[run] = max(upto, self.taken.get(run, 0))
        for run in changes.ended_runs:
            self._end(run)

    def _end(self, run: str) -> None:
        self.ended.add(run)
        self.received.pop(run, None)
        self.sending.pop(run, None)
        self.taken.pop(run, None)


def write_runs(
    db: sqlite3.Connection, changes: Iterable[Changes], number: Callable[[str], int]
) -> None:
    """Write the changes of runs, within a transaction; `number` gives a session's key."""
    net = _Net()
    for each in changes:
        net.add(each)
    # First, since the net has nothing of an ended run but what came after its end.
    _delete(db, "SELECT key FROM runs WHERE id = ?", net.ended)
    _receive(db, net.received.values(), number)
    _send(db, net.sending, number)
    db.executemany(
        "UPDATE sendings SET body = NULL WHERE run = (SELECT key FROM runs WHERE id = ?)"
        " AND number <= ? AND body IS NOT NULL",
        net.taken.items(),
    )


def _receive(
    db: sqlite3.Connection, rows: Iterable[ReceivedRow], number: Callable[[str], int]
) -> None:
    told = [(row.run, number(row.session_id), row.upto) for row in rows]
    for part in portions(told):
        db.execute(_insert_received(len(part)), [value for row in part for value in row])


@cache
def _insert_received(rows: int) -> str:
    return (
        f"INSERT INTO runs (id, session, received) VALUES {','.join(['(?, ?, ?)'] * rows)}"
        " ON CONFLICT (id) DO UPDATE SET received = excluded.received"
    )


def _send(
    db: sqlite3.Connection, sending: dict[str, list[SendingRow]], number: Callable[[str], int]
) -> None:
    db.executemany(
        "INSERT INTO runs (id, session, received) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        [(run, number(rows[0].session_id)) for run, rows in sending.items()],
    )
    # A number that is used twice fails the post: neither of the two may be lost.
    db.executemany(
        "INSERT INTO sendings SELECT key, ?, ?, ?, ? FROM runs WHERE id = ?",
        [
            (row.number, row.kind, row.ref, row.body, run)
            for run, rows in sending.items()
            for row in rows
        ],
    )


def remove_runs(db: sqlite3.Connection, session: int) -> None:
    """Remove every run of a session, within a transaction."""
    _delete(db, "SELECT key FROM runs WHERE session = ?", [session])


def _delete(db: sqlite3.Connection, chosen: str, values: Iterable[str | int]) -> None:
    for value in values:
        db.execute(f"DELETE FROM sendings WHERE run IN ({chosen})", (value,))
        db.execute(f"DELETE FROM runs WHERE key IN ({chosen})", (value,))


def read_run(db: sqlite3.Connection, run: str) -> RunRow:
    """Return what is stored of a run, within a transaction; of one that is unknown, nothing."""
    found = db.execute(
        "SELECT runs.key, received, sessions.id FROM runs JOIN sessions ON session = sessions.key"
        " WHERE runs.id = ?",
        (run,),
    ).fetchone()
    if found is None:
        return RunRow()
    key, received, session_id = found
    untaken = db.execute(
        "SELECT number, kind, ref, body FROM sendings WHERE run = ? AND body IS NOT NULL"
        " ORDER BY number",
        (key,),
    )
    return RunRow(
        received=received,
        sent=scalar(db, "SELECT ifnull(max(number), 0) FROM sendings WHERE run = ?", key),
        untaken=tuple(SendingRow(session_id, run, *row) for row in untaken),
        refs=_refs(db, key),
    )


def _refs(db: sqlite3.Connection, key: int) -> frozenset[str]:
    """All in one row, for there may be many; as hexadecimal digits, which have no comma."""
    listed = scalar(
        db, "SELECT group_concat(hex(ref)) FROM sendings WHERE run = ? AND ref != ''", key
    )
    return frozenset(bytes.fromhex(each).decode() for each in (listed or "").split(",") if each)
