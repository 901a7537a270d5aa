"""The journal's tables, how an older file gets them, and how a damaged one is found out."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pilothouse.errors import JournalError, JournalTooNew
from pilothouse.protocol.strict import is_strict, strict
from pilothouse.protocol.wire import encode_json

__all__ = [
    "INCREMENTAL",
    "MIGRATIONS",
    "Damaged",
    "connect",
    "given",
    "insert_events",
    "look_for_damage",
    "migrate",
    "opening_error",
    "portions",
    "refuse_strangers",
    "scalar",
    "transaction",
]

T = TypeVar("T")

APPLICATION: Final = 0x50486A6C
BUSY_SECONDS: Final = 30.0
INCREMENTAL: Final = 2
"""The `auto_vacuum` of a file whose free pages can be given back to the disk."""
CHECKED_BYTES: Final = 32 << 20
"""Files up to this size are checked in full whenever they are opened."""
MAX_ROWS: Final = 1024
"""Rows that one statement writes."""

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Damaged(Exception):
    """The file is no journal any more."""


# Migrations: each brings a file from the version before it to its own.


def m1_everything(db: sqlite3.Connection) -> None:
    """The first version."""
    for statement in (
        "CREATE TABLE sessions (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, session INTEGER NOT NULL,"
        " kind INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL)",
        "CREATE INDEX events_by_session ON events (session, seq)",
        "CREATE TABLE gaps (session INTEGER NOT NULL, first INTEGER NOT NULL,"
        " last INTEGER NOT NULL, count INTEGER NOT NULL, reason TEXT NOT NULL)",
        "CREATE INDEX gaps_by_place ON gaps (first)",
        "CREATE TABLE questions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
        " session INTEGER NOT NULL, state TEXT NOT NULL, opened INTEGER NOT NULL,"
        " body BLOB NOT NULL)",
        "CREATE INDEX questions_by_session ON questions (session, state)",
        "CREATE INDEX questions_by_state ON questions (state, opened)",
        "CREATE TABLE costs (seq INTEGER NOT NULL, session INTEGER NOT NULL,"
        " project TEXT NOT NULL, at INTEGER NOT NULL, day TEXT NOT NULL, usd REAL NOT NULL,"
        " input INTEGER NOT NULL, output INTEGER NOT NULL,"
        " cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL)",
        "CREATE INDEX costs_by_session ON costs (session)",
        "CREATE INDEX costs_by_day ON costs (day)",
        "CREATE TABLE keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, result BLOB NOT NULL,"
        " at INTEGER NOT NULL)",
        "CREATE TABLE snapshots (session INTEGER PRIMARY KEY, upto INTEGER NOT NULL,"
        " body BLOB NOT NULL)",
        "CREATE TABLE highest (seq INTEGER NOT NULL)",
        "INSERT INTO highest VALUES (0)",
        f"PRAGMA application_id = {APPLICATION}",
    ):
        db.execute(statement)


def m2_runs(db: sqlite3.Connection) -> None:
    """How far the runs of CLIs have come, and what is sent to them (no body: it was taken)."""
    for statement in (
        "CREATE TABLE runs (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
        " session INTEGER NOT NULL, received INTEGER NOT NULL)",
        "CREATE INDEX runs_by_session ON runs (session)",
        "CREATE TABLE sendings (run INTEGER NOT NULL, number INTEGER NOT NULL,"
        " kind INTEGER NOT NULL, ref TEXT NOT NULL, body BLOB, PRIMARY KEY (run, number))",
        "CREATE INDEX sendings_untaken ON sendings (run, number) WHERE body IS NOT NULL",
    ):
        db.execute(statement)


def m3_odd_lines(db: sqlite3.Connection) -> None:
    """Lines that not every reader of JSON takes get kinds of their own; records are mended."""
    db.create_function("is_strict", 1, is_strict, deterministic=True)
    db.create_function("strict", 1, _mended, deterministic=True)
    odd = "FROM events WHERE kind IN (0, 1) AND NOT is_strict(body)"
    db.execute(f"UPDATE events SET kind = kind + 19 WHERE seq IN (SELECT seq {odd})")
    broken = "FROM events WHERE kind BETWEEN 2 AND 18 AND NOT is_strict(body)"
    db.execute(f"UPDATE events SET body = strict(body) WHERE seq IN (SELECT seq {broken})")


def _mended(body: bytes) -> bytes:
    try:
        return strict(body)
    except ValueError:
        return encode_json(body.decode("utf-8", "replace"))


def m4_pages(db: sqlite3.Connection) -> None:
    """A page of questions is found without looking at the others."""
    db.execute("CREATE INDEX IF NOT EXISTS questions_by_place ON questions (opened, number)")


def m5_sessions_at_work(db: sqlite3.Connection) -> None:
    """Sessions are found by what an engine writes of them. Until it has, all of them are at work:
    the first engine that opens an older journal restores every session, as it did before."""
    known = {row[1] for row in db.execute("PRAGMA table_info(sessions)")}
    for column in (
        "at_work INTEGER NOT NULL DEFAULT 1",
        "conversation TEXT",
        "updated_at INTEGER DEFAULT 0",
        "cwd TEXT",
        "state TEXT",
        "summary BLOB",
    ):
        if column.split()[0] not in known:
            db.execute(f"ALTER TABLE sessions ADD COLUMN {column}")
    for index in (
        "sessions_at_work ON sessions (key) WHERE at_work",
        "sessions_by_conversation ON sessions (conversation)",
        "sessions_by_age ON sessions (updated_at DESC, id)",
        "sessions_by_place ON sessions (cwd, updated_at DESC, id, state) WHERE summary IS NOT NULL",
        "sessions_by_state ON sessions (state) WHERE summary IS NOT NULL",
        "gaps_of_damage ON gaps (first) WHERE session = 0",
        "keys_by_age ON keys (at)",
    ):
        db.execute(f"CREATE INDEX IF NOT EXISTS {index}")


def m6_models(db: sqlite3.Connection) -> None:
    """What each model had of a turn's cost. Of earlier turns nothing is known."""
    db.execute(
        "CREATE TABLE IF NOT EXISTS model_costs (session INTEGER NOT NULL, model TEXT NOT NULL,"
        " at INTEGER NOT NULL, day TEXT NOT NULL, usd REAL NOT NULL, input INTEGER NOT NULL,"
        " output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL)"
    )
    db.execute("CREATE INDEX IF NOT EXISTS model_costs_by_session ON model_costs (session)")


def m7_archive(db: sqlite3.Connection) -> None:
    """Sessions can be put into an archive, and are found by what a list shows of them."""
    _add_columns(
        db,
        "sessions",
        "archived INTEGER NOT NULL DEFAULT 0",
        "label TEXT",
        "machine TEXT",
        "search TEXT",
    )
    shown = ("title", "cwd", "label", "machine", "last_line", "model", "session_id")
    told = [f"json_extract(CAST(summary AS TEXT), '$.{name}')" for name in shown]
    search = " || char(10) || ".join(f"coalesce({each}, '')" for each in told)
    # SQLite's own lower() knows ASCII alone.
    db.create_function("casefold", 1, str.casefold, deterministic=True)
    db.execute(
        f"UPDATE sessions SET label = {told[2]}, machine = {told[3]}, search = casefold({search})"
        " WHERE summary IS NOT NULL AND json_valid(CAST(summary AS TEXT))"
    )
    for index in (
        "sessions_by_place ON sessions (cwd, archived, updated_at DESC, id, state)",
        "sessions_by_state ON sessions (archived, state)",
        "sessions_listed ON sessions (archived, updated_at DESC, id)",
    ):
        db.execute(f"DROP INDEX IF EXISTS {index.split()[0]}")
        db.execute(f"CREATE INDEX {index} WHERE summary IS NOT NULL")


def m8_activity(db: sqlite3.Connection) -> None:
    """Times and rules of questions, and how long turns took, can be added up from indexes."""
    _add_columns(
        db,
        "questions",
        "asked INTEGER NOT NULL DEFAULT 0",
        "closed INTEGER",
        "rule TEXT",
        "by_rule INTEGER NOT NULL DEFAULT 0",
    )
    _add_columns(db, "costs", "duration INTEGER NOT NULL DEFAULT 0")
    told = [f"json_extract(CAST(body AS TEXT), '$.{each}')" for each in ("opened_at", "closed_at")]
    db.execute(
        f"UPDATE questions SET asked = {_whole(told[0])}, closed = {_whole(told[1], 'NULL')},"
        " rule = json_extract(CAST(body AS TEXT), '$.rule'),"
        " by_rule = json_extract(CAST(body AS TEXT), '$.answered_by') IS 'policy'"
        " WHERE json_valid(CAST(body AS TEXT))"
    )
    took = "json_extract(CAST(body AS TEXT), '$.duration_ms')"
    db.execute(
        f"UPDATE costs SET duration = min(ifnull((SELECT {_whole(took)} FROM events"
        " WHERE events.seq = costs.seq AND kind = 16 AND json_valid(CAST(body AS TEXT))), 0),"
        # A CLI may have said anything: no turn is longer than its session.
        " max(at - ifnull((SELECT at FROM events WHERE events.session = costs.session"
        " ORDER BY seq LIMIT 1), at), 0))"
    )
    for index in (
        "questions_by_time ON questions (session, asked, closed, state, by_rule, rule)",
        "costs_by_time ON costs (session, at, duration)",
    ):
        db.execute(f"CREATE INDEX IF NOT EXISTS {index}")


def _add_columns(db: sqlite3.Connection, table: str, *columns: str) -> None:
    known = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    for column in columns:
        if column.split()[0] not in known:
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def _whole(value: str, otherwise: str = "0") -> str:
    """The value where it is a whole number: whoever wrote the row may have written anything."""
    return f"iif(typeof({value}) = 'integer', max({value}, 0), {otherwise})"


MIGRATIONS: Final = (
    m1_everything,
    m2_runs,
    m3_odd_lines,
    m4_pages,
    m5_sessions_at_work,
    m6_models,
    m7_archive,
    m8_activity,
)


def migrate(db: sqlite3.Connection, lock: threading.Lock) -> None:
    """Bring the file up to this version, each step in a transaction of its own."""
    version = scalar(db, "PRAGMA user_version")
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        with transaction(db, lock):
            step(db)
            db.execute(f"PRAGMA user_version = {number}")


def refuse_strangers(db: sqlite3.Connection, name: str) -> None:
    version = scalar(db, "PRAGMA user_version")
    if version > len(MIGRATIONS):
        raise JournalTooNew(
            f"{name} has version {version}, and this pilothouse reads up to {len(MIGRATIONS)}; "
            "upgrade pilothouse, or choose another file"
        )
    tables = scalar(db, "SELECT count(*) FROM sqlite_master")
    if tables and scalar(db, "PRAGMA application_id") != APPLICATION:
        raise JournalError(f"{name} is a database of something else; choose another file")


def look_for_damage(db: sqlite3.Connection, path: Path, *, check: bool) -> None:
    """Cheap looks at every file, all of it at a small one or when asked."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = path.stat().st_size
    if size < scalar(db, "PRAGMA page_count") * scalar(db, "PRAGMA page_size"):
        raise Damaged("the file is cut off")
    if (check or size <= CHECKED_BYTES) and scalar(db, "PRAGMA quick_check(1)") != "ok":
        raise Damaged("its pages contradict each other")


def opening_error(error: sqlite3.Error, name: str) -> Exception:
    """What to raise for an error of SQLite's that came up while a file was opened."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
        return Damaged(str(error))
    return JournalError(f"{name} cannot be opened: {error}; see to its folder and its disk")


def connect(path: Path | None) -> sqlite3.Connection:
    target = ":memory:" if path is None else str(path)
    return sqlite3.connect(
        target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


@contextmanager
def transaction(
    db: sqlite3.Connection, lock: threading.Lock, kind: str = "IMMEDIATE"
) -> Generator[None]:
    with lock:
        db.execute(f"BEGIN {kind}")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise


def scalar(db: sqlite3.Connection, sql: str, *values: Any) -> Any:
    row = db.execute(sql, values).fetchone()
    return None if row is None else row[0]


def portions(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut them into powers of two, so that few statements are ever made."""
    start, size = 0, MAX_ROWS
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        yield rows[start : start + size]
        start += size


@cache
def insert_events(rows: int) -> str:
    """The statement for so many entries at once."""
    return "INSERT INTO events VALUES " + ",".join(["(?, ?, ?, ?, ?)"] * rows)


def given(conditions: dict[str, Any]) -> tuple[str, list[Any]]:
    """What to write after WHERE, and the values for it; a condition on None is none."""
    given = {each: value for each, value in conditions.items() if value is not None}
    return " AND ".join(["1", *given]), list(given.values())
