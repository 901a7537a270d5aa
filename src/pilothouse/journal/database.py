"""The journal's rows in one SQLite file, or in memory.

All SQL of the project stands here and in `changes`, `runs`, `schema`, `session_changes`,
`session_rows` and `sums`.

Many rows go in with one statement, and a page of entries comes out as one row: Python's sqlite3
lets go of the interpreter at every step of a statement, and beside a busy event loop each step
may then wait for 5 ms (measured with 256 rows a group: 1,000 rows a second against 100,000).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.questions import Question
from pilothouse.errors import JournalError
from pilothouse.protocol.strict import clean_text, is_strict, strict

from . import files
from .changes import write_changes
from .contract import (
    MAX_BATCH_BYTES,
    KeyRow,
    RestingPage,
    RunRow,
    SessionFilter,
    Snapshot,
    Touched,
)
from .kinds import LINES, NUMBERS, ODD, PARTIALS, stored_event
from .runs import read_run, remove_runs, write_runs
from .schema import (
    INCREMENTAL,
    Damaged,
    connect,
    given,
    insert_events,
    look_for_damage,
    migrate,
    opening_error,
    portions,
    refuse_strangers,
    scalar,
    transaction,
)
from .session_changes import changed_in, changed_since, question_bodies, summaries_of
from .session_rows import (
    forget_session,
    holder_of,
    names_near,
    owned_among,
    read_snapshot,
    resting_page,
    session_names,
)
from .sums import Sums
from .writer import Post, Removed

__all__ = ["Database", "prepared"]

log = logging.getLogger("pilothouse")

CHUNK: Final = 1000
"""Entries that one step of a removal takes: about 8 ms."""
BLOCK: Final = 16_384
"""No gap reaches over a multiple of this, so that those around a cursor are found by an index."""
MAX_PAGE_BYTES: Final = 8 << 20
"""What the bodies of a page that is read back may have together."""
FREED_PAGES: Final = 32
"""Pages that one step gives back to the disk; SQLite makes a row of each."""

MOST_NUMBERS: Final = 10_000
"""Keys of sessions that are remembered; of others they are looked up."""
KEY_OF: Final = "SELECT key FROM sessions WHERE id = ?"

_question: Final = msgspec.json.Decoder(Question)


class Database:
    """The file's two connections: one that writes and one that reads. In memory they are one."""

    def __init__(self, path: Path | None) -> None:
        self.name = "the journal in memory" if path is None else f"the journal {path}"
        self.damage = (sqlite3.DatabaseError,)
        self._path = path
        self._db = connect(path)
        self._write_lock = self._read_lock = threading.Lock()
        self._reading = self._db
        self._numbers: dict[str, int] = {}
        self._lost: list[Gap] = []
        self._lock: int | None = None
        self.sums = Sums(self._reading, self._read_lock, path)
        self.highest = 0

    def close(self) -> None:
        """Close both connections; the last one folds the write-ahead log into the file."""
        self._reading.close()
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Opening

    def prepare(self, *, check: bool) -> None:
        """Bring the file up to this version, and look whether it is sound."""
        refuse_strangers(self._db, self.name)
        if scalar(self._db, "PRAGMA page_count") == 0:
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        migrate(self._db, self._write_lock)
        if self._path is not None:
            look_for_damage(self._db, self._path, check=check)
            self._read_lock = threading.Lock()
            self._reading = connect(self._path)
        self.sums = Sums(self._reading, self._read_lock, self._path)

    def hold(self, lock: int) -> None:
        """Keep the lock of the file until `close`."""
        self._lock = lock

    def look(self) -> None:
        """Learn the highest number ever used, and which were lost."""
        self.highest = scalar(
            self._db,
            "SELECT max((SELECT seq FROM highest), (SELECT ifnull(max(seq), 0) FROM events))",
        )
        self._lost = [
            Gap(first=first, last=last, count=0, reason="damage")
            for first, last in self._db.execute("SELECT first, last FROM gaps WHERE session = 0")
        ]

    def go_on_from(self, seq: int) -> None:
        """Number from here; older cursors get a gap in the place of all before."""
        with transaction(self._db, self._write_lock):
            self._db.execute("UPDATE highest SET seq = ?", (seq,))
            self._db.execute("INSERT INTO gaps VALUES (0, 1, ?, 0, 'damage')", (seq,))
        self.look()

    # Writing

    def append(self, posts: Sequence[Post]) -> None:
        """Write all of them in one transaction."""
        with transaction(self._db, self._write_lock):
            self._insert([event for post in posts for event in post.events])
            for post in posts:
                if post.changes is not None:
                    write_changes(self._db, post.changes, post.events, self._number)
            write_runs(self._db, [p.changes for p in posts if p.changes], self._number)

    def _insert(self, events: list[Event]) -> None:
        for part in portions(events):
            values: list[Any] = []
            for event in part:
                key = self._numbers.get(event.session_id) or self._number(event.session_id)
                kind = NUMBERS[event.kind if event.raw is None else ODD[event.kind]]
                # Of bytes that cannot change, sqlite3 looks for an adapter, each time in vain.
                body = bytearray(event.body if event.raw is None else event.raw)
                values += (event.seq, key, kind, event.at, body)
            self._db.execute(insert_events(len(part)), values)

    def _number(self, name: str) -> int:
        """The key of a session, within a transaction; one that is new gets a row."""
        key = self._numbers.get(name) or scalar(self._db, KEY_OF, name)
        if key is None:
            key = self._db.execute("INSERT INTO sessions (id) VALUES (?)", (name,)).lastrowid
            assert key is not None
        return self._remember(name, key)

    def _remember(self, name: str, key: int) -> int:
        if len(self._numbers) >= MOST_NUMBERS:
            self._numbers.clear()
        self._numbers[name] = key
        return key

    # Removing

    def prune(self, session_id: str, first: int, last: int) -> Iterator[Removed]:
        """Remove a turn's partials, a chunk at each step."""
        while True:
            with transaction(self._db, self._write_lock):
                key = scalar(self._db, KEY_OF, session_id) or -1
                removed = self._remove(key, session_id, first, last, "partials")
            if not removed.seqs:
                return
            yield removed

    def retain(self, before: int, keep: Collection[str]) -> Iterator[Removed]:
        """Remove the sessions that rest since before this moment, a chunk at each step."""
        with transaction(self._db, self._write_lock):
            self._db.execute("DELETE FROM keys WHERE at < ?", (before,))
            resting = self._db.execute(
                "SELECT key, id FROM sessions WHERE updated_at < ?", (before,)
            ).fetchall()
        for key, name in resting:
            if name not in keep:
                yield from self._retire(key, name, before)
        if resting:
            yield from self._shrink()

    def _shrink(self) -> Iterator[Removed]:
        """Give the pages that are free now back to the disk, a few at each step.

        In a file that was made without `auto_vacuum` they stay, for entries to come.
        """
        with self._write_lock:
            mode = scalar(self._db, "PRAGMA auto_vacuum")
            free = scalar(self._db, "PRAGMA freelist_count")
        for _ in range(0, free if mode == INCREMENTAL else 0, FREED_PAGES):
            with self._write_lock:
                # `execute` would end it at its first row, which has no columns.
                self._db.executescript(f"PRAGMA incremental_vacuum({FREED_PAGES})")
            yield Removed("", [], [])

    def _retire(self, key: int, name: str, before: int) -> Iterator[Removed]:
        """One session. What happens to it between two steps ends its removal."""
        while True:
            with transaction(self._db, self._write_lock):
                if not self._rests(key, before):
                    return
                removed = self._remove(key, name, 0, 1 << 62, "retention")
                if scalar(self._db, "SELECT 1 FROM events WHERE session = ? LIMIT 1", key) is None:
                    self._db.execute("DELETE FROM snapshots WHERE session = ?", (key,))
                    self._db.execute("DELETE FROM questions WHERE session = ?", (key,))
                    remove_runs(self._db, key)
                    forget_session(self._db, key)
            yield removed

    def _rests(self, key: int, before: int) -> bool:
        at = scalar(
            self._db, "SELECT at FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1", key
        )
        asked = "SELECT 1 FROM questions WHERE session = ? AND state = 'open' LIMIT 1"
        return at is not None and at < before and not scalar(self._db, asked, key)

    def _remove(
        self,
        key: int,
        name: str,
        first: int,
        last: int,
        reason: Literal["partials", "retention"],
    ) -> Removed:
        only = f"AND kind IN {PARTIALS}" if reason == "partials" else ""
        chosen = f"FROM events WHERE session = ? AND seq BETWEEN ? AND ? {only}"
        listed = scalar(
            self._db,
            f"SELECT group_concat(seq) FROM (SELECT seq {chosen} ORDER BY seq LIMIT {CHUNK})",
            *(key, first, last),
        )
        seqs = [int(each) for each in listed.split(",")] if listed else []
        gaps = _gaps(seqs, reason)
        if seqs:
            self._db.execute(f"DELETE {chosen}", (key, seqs[0], seqs[-1]))
            self._db.execute("UPDATE highest SET seq = max(seq, ?)", (seqs[-1],))
            self._db.executemany(
                "INSERT INTO gaps VALUES (?, ?, ?, ?, ?)",
                [(key, gap.first, gap.last, gap.count, gap.reason) for gap in gaps],
            )
        return Removed(name, seqs, gaps)

    # Reading

    def page(
        self, after: int, upto: int, session_id: str | None, limit: int, *, partials: bool
    ) -> Batch:
        """Entries after a cursor and the gaps among them, as of one moment."""
        key = self._known(session_id)
        where, values = _where(key, partials=partials)
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            events, whole = self._events(
                f"{where} AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                (*values, after, upto, limit),
                MAX_BATCH_BYTES,
            )
            full = not whole or len(events) == limit
            cursor = events[-1].seq if full else max(after, upto)
            return Batch(
                events=events,
                cursor=cursor,
                gaps=self._gaps_between(after, cursor, key, partials=partials),
            )

    def page_back(self, upto: int, session_id: str, limit: int, *, partials: bool) -> Batch:
        """The last entries up to a number and the gaps among them, as of one moment."""
        key = self._known(session_id)
        where, values = _where(key, partials=partials)
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            events, whole = self._events(
                f"{where} AND seq <= ? ORDER BY seq DESC LIMIT ?",
                (*values, upto, limit),
                MAX_PAGE_BYTES,
            )
            events.reverse()
            full = not whole or len(events) == limit
            after = events[0].seq - 1 if full else 0
            return Batch(
                events=events,
                cursor=upto,
                gaps=self._gaps_between(after, upto, key, partials=partials),
            )

    def lines_with(self, after: int, session_id: str, words: Sequence[bytes]) -> list[bytes]:
        """The CLI's lines after a number that have one of these words in them."""
        key = self._known(session_id)
        told = " OR ".join(["instr(body, ?) > 0"] * len(words))
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            rows = self._reading.execute(
                f"SELECT body FROM events WHERE session = ? AND seq > ? AND kind IN {LINES}"
                f" AND ({told}) ORDER BY seq",
                (key, after, *words),
            )
            return [bytes(body) for (body,) in rows]

    def _known(self, session_id: str | None) -> int | None:
        if session_id is None:
            return None
        key = self._numbers.get(session_id)
        if key is None:
            # A caller may name anything, also what is no text.
            rows = self._rows(KEY_OF, clean_text(session_id))
            return self._remember(session_id, rows[0][0]) if rows else -1
        return key

    def _events(self, chosen: str, values: tuple[Any, ...], most: int) -> tuple[list[Event], bool]:
        """The entries with up to `most` bytes of bodies, and whether these are all."""
        listed = self._reading.execute(
            "SELECT group_concat(seq), group_concat(session), group_concat(kind),"
            " group_concat(at), group_concat(size)"
            f" FROM (SELECT seq, session, kind, at, length(body) AS size {chosen})",
            values,
        ).fetchone()
        if listed[0] is None:
            return [], True
        seqs, keys, kinds, ats, sizes = ([int(n) for n in part.split(",")] for part in listed)
        count = _fitting(sizes, most)
        bodies = self._bodies(chosen, values, sizes[:count])
        names = self._names(set(keys))
        events = [
            stored_event(seq, names[key], kind, at, body)
            for seq, key, kind, at, body in zip(seqs, keys, kinds, ats, bodies, strict=False)
        ]
        return events, count == len(seqs)

    def _names(self, keys: Collection[int]) -> dict[int, str]:
        among = ",".join(map(str, keys))
        return dict(self._reading.execute(f"SELECT key, id FROM sessions WHERE key IN ({among})"))

    def _bodies(self, chosen: str, values: tuple[Any, ...], sizes: Sequence[int]) -> list[bytes]:
        page = f"FROM (SELECT body {chosen}) LIMIT {len(sizes)}"
        whole: bytes = scalar(
            self._reading,
            f"SELECT CAST(group_concat(CAST(body AS TEXT), '') AS BLOB) FROM (SELECT * {page})",
            *values,
        )
        if len(whole) == sum(sizes):
            ends = list(accumulate(sizes))
            return [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        # A body with a NUL in it, which is no JSON, would end the text there.
        return [row[0] for row in self._reading.execute(f"SELECT body {page}", values)]

    def _gaps_between(
        self, after: int, cursor: int, session: int | None, *, partials: bool
    ) -> list[Gap]:
        where, values = given({"session = ?": session, "session != ?": 0})
        found = self._reading.execute(
            f"SELECT first, last, count, reason FROM gaps WHERE {where}"
            " AND first >= ? AND first <= ? AND last > ? ORDER BY first, last",
            (*values, after // BLOCK * BLOCK, cursor, after),
        )
        lost = [gap for gap in self._lost if gap.last > after and gap.first <= cursor]
        return lost + [
            Gap(first=first, last=last, count=count, reason=reason)
            for first, last, count, reason in found
            if partials or reason != "partials"
        ]

    def newest(self, session_id: str) -> int:
        """The number of a session's newest entry; 0: it has none."""
        rows = self._rows("SELECT max(seq) FROM events WHERE session = ?", self._known(session_id))
        return rows[0][0] or 0

    def sessions(self, *, at_work: bool) -> list[str]:
        """Every session that has entries or a snapshot, or every one of those at work."""
        with self._read_lock:
            return session_names(self._reading, at_work=at_work)

    def snapshot(self, session_id: str) -> Snapshot | None:
        """The newest snapshot of a session; None: there is no such session."""
        with self._read_lock:
            return read_snapshot(self._reading, clean_text(session_id))

    def holder(self, conversation: str) -> str | None:
        """The session that has this conversation."""
        with self._read_lock:
            return holder_of(self._reading, clean_text(conversation))

    def owned(self, names: Collection[str]) -> set[str]:
        """Those names that are a session's, or the conversation's of one."""
        with self._read_lock:
            return owned_among(self._reading, names)

    def near(self, session_id: str, most: int) -> list[str]:
        """Sessions that stand beside this id in the order of ids."""
        with self._read_lock:
            return names_near(self._reading, clean_text(session_id), most)

    def resting(self, which: SessionFilter, limit: int, besides: Collection[str]) -> RestingPage:
        """The newest sessions as their rows have them, as of one moment."""
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            return resting_page(self._reading, which, limit, besides)

    def touched(
        self,
        after: int,
        upto: int,
        newer: Sequence[Event] | None,
        most: int,
        besides: Collection[str],
    ) -> Touched | None:
        """Which sessions have entries after a number, their rows, and their questions of then.

        `newer` are these entries, if they are at hand.
        """
        if any(gap.last > after for gap in self._lost):
            return None
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            changed = changed_since(self._reading, after, most + 1) if newer is None else None
            changed = changed or changed_in(newer or ())
            if len(changed.names) > most:
                return None
            summaries = summaries_of(self._reading, changed.names.difference(besides))
            bodies = question_bodies(self._reading, changed, most)
        if bodies is None:
            return None
        read = [self._read_question(body) for body in bodies]
        return Touched(
            cursor=upto,
            sessions=sorted(changed.names),
            summaries=summaries,
            questions=[question for question in read if question is not None],
        )

    def questions(
        self, session_id: str | None, state: str | None, limit: int | None, before: str | None
    ) -> list[Question]:
        """The last `limit` questions before another one, in the order they were asked."""
        where, values = given(
            {
                "session = ?": self._known(session_id),
                "state = ?": state,
                "(opened, number) < (SELECT opened, number FROM questions WHERE id = ?)": before,
            }
        )
        rows = self._rows(
            f"SELECT body FROM questions WHERE {where} ORDER BY opened DESC, number DESC LIMIT ?",
            *(*values, -1 if limit is None else limit),
        )
        read = (self._read_question(body) for (body,) in reversed(rows))
        return [question for question in read if question is not None]

    def question(self, question_id: str) -> Question | None:
        """The question with this id."""
        rows = self._rows("SELECT body FROM questions WHERE id = ?", question_id)
        return self._read_question(rows[0][0]) if rows else None

    def _read_question(self, body: bytes) -> Question | None:
        """The question of a row; one that cannot be read is set aside, whoever wrote it."""
        try:
            return _question.decode(body if is_strict(body) else strict(body))
        except (msgspec.DecodeError, ValueError) as error:
            log.error("a question in %s cannot be read: %s: %.200r", self.name, error, body)
            return None

    def key(self, key: str) -> KeyRow | None:
        """The row of an idempotency key."""
        rows = self._rows("SELECT key, digest, result FROM keys WHERE key = ?", key)
        return KeyRow(key=rows[0][0], digest=rows[0][1], result=rows[0][2]) if rows else None

    def run(self, run: str) -> RunRow:
        """How far a run has come, as of one moment."""
        with transaction(self._reading, self._read_lock, "DEFERRED"):
            return read_run(self._reading, run)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._read_lock:
            return self._reading.execute(sql, values).fetchall()

    def backup(self, path: Path) -> None:
        """Copy everything committed by now into a new file."""
        part = path.with_name(path.name + ".part")
        if path.exists() or part.exists():
            raise JournalError(f"{path} exists already; choose another name")
        files.make_private(part)
        try:
            with closing(connect(part)) as copy:
                self._copy(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            part.rename(path)
        except sqlite3.Error as error:
            part.unlink()
            raise JournalError(f"no copy could be made at {path}: {error}") from error

    def _copy(self, copy: sqlite3.Connection) -> None:
        """All pages in one step: begun again at every commit, it would not come to an end."""
        if self._path is None:
            with self._write_lock:
                return self._db.backup(copy)
        with closing(connect(self._path)) as source:
            source.backup(copy)


def prepared(path: Path | None, *, check: bool) -> Database:
    """The database at this place, brought up to this version and looked at."""
    if path is not None and not files.looks_whole(path):
        raise Damaged("it is no database")
    database = Database(path)
    try:
        database.prepare(check=check)
        database.look()
    except BaseException as error:
        with suppress(sqlite3.Error):
            database.close()
        if isinstance(error, sqlite3.Error):
            raise opening_error(error, database.name) from error
        raise
    return database


def _where(session: int | None, *, partials: bool) -> tuple[str, list[Any]]:
    where, values = given({"session = ?": session})
    whole = "" if partials else f" AND kind NOT IN {PARTIALS}"
    return f"FROM events WHERE {where}{whole}", values


def _fitting(sizes: Sequence[int], most: int) -> int:
    """How many of the bodies make a page: as many as there is room for, and one in any case."""
    return max(1, bisect_right(list(accumulate(sizes)), most))


def _gaps(seqs: Iterable[int], reason: Literal["partials", "retention"]) -> list[Gap]:
    parts = (list(part) for _, part in groupby(seqs, lambda seq: seq // BLOCK))
    return [Gap(first=p[0], last=p[-1], count=len(p), reason=reason) for p in parts]
