"""What the journal's database adds up: costs, what happened on each day, what each rule decided.

A session that asks two things at once waits once, and one that waits within its turn does not work
then. So stretches of time are joined session by session before they are added up, and the time
worked is that of turns and waits together without that of the waits.
"""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from pilothouse.api.results import Activity, ActivityDay, CostLine, RuleUse
from pilothouse.api.statuses import Tokens
from pilothouse.api.values import MAX_WHOLE
from pilothouse.client.turns import MAX_COST_USD
from pilothouse.errors import JournalError
from pilothouse.protocol.strict import clean_text

from .schema import connect, given, transaction

__all__ = ["Sums"]

BOUNDED_USD: Final = f"min(max(usd, 0), {MAX_COST_USD})"
"""Earlier versions stored whatever a CLI reported."""
OF_SESSION: Final = "session = (SELECT key FROM sessions WHERE id = ?)"

MOST_DAYS: Final = 3660
"""How far it goes back."""
MOST_RULES: Final = 1000
DAY_MS: Final = 86_400_000

# A session is looked up by its first entry; one that retention has removed has none.
_STARTS: Final = (
    "SELECT (SELECT at FROM events WHERE session = key ORDER BY seq LIMIT 1) AS at"
    " FROM sessions WHERE at_work OR summary IS NOT NULL"
)
_WAITS: Final = (
    "SELECT session, asked AS first, ifnull(closed, :until) AS last FROM questions"
    " WHERE asked > 0 AND NOT by_rule"
)
_TURNS: Final = "SELECT session, at - duration AS first, at AS last FROM costs WHERE duration > 0"
_DAY: Final = "date({} / 1000, 'unixepoch', 'localtime')"

_COUNTED: Final = f"""
SELECT json_group_object(day, count) FROM (
  SELECT {_DAY.format("at")} AS day, count(*) AS count FROM ({{}})
  WHERE at BETWEEN :since AND :until GROUP BY day
)"""
_JOINED: Final = f"""
WITH stretch AS (
  SELECT session, max(first, :since) AS first, min(last, :until) AS last FROM ({{}})
  WHERE last > :since
), reached AS (
  SELECT first, last, max(last) OVER (
    PARTITION BY session ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before FROM stretch WHERE last > first
), piece AS (
  SELECT max(first, ifnull(before, first)) AS first, last FROM reached
  WHERE last > ifnull(before, 0)
)
SELECT json_group_array(json_array(began, ended, firsts, lasts, pieces)) FROM (
  SELECT {_DAY.format("first")} AS began, {_DAY.format("last")} AS ended,
    sum(first) AS firsts, sum(last) AS lasts, count(*) AS pieces
  FROM piece GROUP BY began, ended
)"""
"""Of every two days, the pieces of time that begin on the one and end on the other."""

_RULES: Final = """
SELECT json_group_array(json_array(rule, answered, asked, last)) FROM (
  SELECT rule, sum(by_rule) AS answered, sum(NOT by_rule) AS asked, max(asked) AS last
  FROM questions WHERE rule IS NOT NULL AND asked >= :since
  GROUP BY rule ORDER BY last DESC LIMIT :rules
)"""
_QUESTIONS: Final = """
SELECT json_array(total(NOT by_rule), total(by_rule), total(rule IS NULL))
FROM questions WHERE asked >= :since"""
# `+`: the index by state does not have the times.
_MEDIAN: Final = """
WITH took AS (
  SELECT closed - asked AS ms FROM questions
  WHERE asked >= :since AND asked > 0 AND closed >= asked AND +state = 'answered' AND NOT by_rule
)
SELECT ms FROM took ORDER BY ms LIMIT 1 OFFSET (SELECT (count(*) - 1) / 2 FROM took)"""


class Sums:
    """What can be added up with a connection that reads; in memory there is no other."""

    def __init__(self, db: sqlite3.Connection, lock: Lock, path: Path | None) -> None:
        self._db = db
        self._lock = lock
        self._path = path

    def costs(
        self, by: str, session_id: str | None, since: int | None, day: str | None
    ) -> list[CostLine]:
        """Sums by turn, session, project, day or model, in the order of their first turn."""
        group = {
            "turn": "(SELECT id FROM sessions WHERE key = session) || '/' || seq",
            "session": "(SELECT id FROM sessions WHERE key = session)",
            "project": "project",
            "day": "day",
            "model": "model",
        }[by]
        table = "model_costs" if by == "model" else "costs"
        # A caller may name anything, also what is no text.
        name = None if session_id is None else clean_text(session_id)
        where, values = given({OF_SESSION: name, "at >= ?": since, "day = ?": day})
        with self._apart() as db:
            rows = db.execute(
                # `total` has no limit that a sum of what CLIs have said could reach.
                f"SELECT {group} AS part, total({BOUNDED_USD}), count(*), total(input),"
                f" total(output), total(cache_read), total(cache_write) FROM {table} WHERE {where}"
                " GROUP BY part ORDER BY min(rowid)",
                values,
            ).fetchall()
        return [
            CostLine(
                group=part,
                usd=usd,
                turns=turns,
                tokens=Tokens(
                    input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3]
                ),
            )
            for part, usd, turns, *counts in rows
            for tokens in [[min(int(count), MAX_WHOLE) for count in counts]]
        ]

    def activity(self, since: int, until: int) -> Activity:
        """Sums by day and by rule, as of one moment."""
        with self._apart() as db:
            return _activity(db, since, until)

    @contextmanager
    def _apart(self) -> Generator[sqlite3.Connection]:
        """A connection of its own: whoever reads a page need not wait for a sum over everything."""
        if self._path is None:
            with self._lock:
                yield self._db
            return
        try:
            with closing(connect(self._path)) as own, transaction(own, Lock(), "DEFERRED"):
                yield own
        except sqlite3.OperationalError as error:
            # No descriptor, or no room to sort in: the journal itself is none the worse for it.
            raise JournalError(f"what the journal adds up cannot be read: {error}") from error


def _activity(db: sqlite3.Connection, since: int, until: int) -> Activity:
    span = {"since": max(since, until - MOST_DAYS * DAY_MS), "until": until, "rules": MOST_RULES}
    waited = _times(db, _WAITS, span)
    busy = _times(db, f"{_WAITS} UNION ALL {_TURNS}", span)
    started: dict[str, int] = _read(db, _COUNTED.format(_STARTS), span)
    turns: dict[str, int] = _read(db, _COUNTED.format("SELECT at FROM costs"), span)
    asked, by_rules, no_rule = _read(db, _QUESTIONS, span)
    return Activity(
        days=[
            ActivityDay(
                day=day,
                sessions=started.get(day, 0),
                turns=turns.get(day, 0),
                waited_ms=waited.get(day, 0),
                worked_ms=max(busy.get(day, 0) - waited.get(day, 0), 0),
            )
            for day in sorted({*started, *turns, *busy})
        ],
        rules=[
            RuleUse(rule=rule, answered=answered, asked=passed_on, last=last)
            for rule, answered, passed_on, last in _read(db, _RULES, span)
        ],
        asked=int(asked),
        answered_by_rules=int(by_rules),
        without_rule=int(no_rule),
        median_wait_ms=_read(db, _MEDIAN, span),
    )


def _read(db: sqlite3.Connection, sql: str, span: Mapping[str, int]) -> Any:
    """The one value of a query; None for no row. As one row: each could wait for the loop."""
    row = db.execute(sql, span).fetchone()
    if row is None or not isinstance(row[0], str):
        return None if row is None else row[0]
    return msgspec.json.decode(row[0])


def _times(db: sqlite3.Connection, stretches: str, span: Mapping[str, int]) -> dict[str, int]:
    """Milliseconds by day of what the stretches of a session cover together."""
    times = defaultdict[int, int](int)
    going = defaultdict[int, int](int)
    for began, ended, firsts, lasts, pieces in _read(db, _JOINED.format(stretches), span):
        first, last = _number(began), _number(ended)
        if first == last:
            times[first] += lasts - firsts
            continue
        times[first] += _start(first + 1) * pieces - firsts
        times[last] += lasts - _start(last) * pieces
        going[first + 1] += pieces
        going[last] -= pieces
    through = 0
    for day in range(min(going, default=0), max(going, default=0)):
        through += going.get(day, 0)
        times[day] += through * (_start(day + 1) - _start(day))
    return {date.fromordinal(day).isoformat(): ms for day, ms in times.items() if ms > 0}


def _number(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _start(day: int) -> int:
    """When a day begins here: a day with a change of the clock is not 24 hours long."""
    at = date.fromordinal(day)
    return int(time.mktime((at.year, at.month, at.day, 0, 0, 0, 0, 0, -1))) * 1000
