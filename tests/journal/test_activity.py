"""What happened, added up by day and by rule."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from pilothouse.api.questions import Question
from pilothouse.api.results import ActivityDay, RuleUse
from pilothouse.api.statuses import Tokens
from pilothouse.engine.recorder import day_of
from pilothouse.errors import JournalError
from pilothouse.journal import schema, sums
from pilothouse.journal.contract import Changes, CostRow, SessionRow
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep, question

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture(autouse=True)
def summer_ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place where 2026-10-25 has 25 hours."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def asked(
    name: str,
    session: str,
    start: int,
    end: int | None,
    by: str = "person",
    rule: str | None = None,
) -> Question:
    made = question(name, session_id=session, state="open" if end is None else "answered")
    return replace(
        made,
        opened_at=start,
        closed_at=end,
        answered_by=None if end is None else by,
        rule=rule,
    )


def turn(session: str, end: int, duration_ms: int) -> CostRow:
    return CostRow(
        session_id=session,
        project="/",
        at=end,
        day=day_of(end),
        usd=0.5,
        tokens=Tokens(),
        duration_ms=duration_ms,
    )


async def test_days_have_what_was_started_worked_and_waited_for(either: SqliteJournal) -> None:
    noon = at("2026-10-20T12:00")
    night = at("2026-10-20T23:30")
    await keep(either, drafts(1, "a", at=noon), drafts(2, "b", at=night))
    changes = Changes(
        # A turn of an hour, in which two questions overlap: 20 minutes of waiting, not 25.
        questions=[
            asked("one", "a", noon + 10 * MINUTE, noon + 25 * MINUTE),
            asked("two", "a", noon + 20 * MINUTE, noon + 30 * MINUTE),
            # At the same time in another session, past midnight.
            asked("three", "b", night, night + HOUR),
            asked("rule's", "a", noon, noon + DAY, by="policy", rule="reads"),
        ],
        costs=[turn("a", noon + HOUR, HOUR), turn("b", night + 2 * HOUR, 2 * HOUR)],
        sessions=[
            SessionRow(session_id=name, at_work=False, conversation=name, summary=b"{}")
            for name in ("a", "b")
        ],
    )
    await either.post(drafts(1, "a", at=night), changes).committed
    told = await either.sums.activity(0, noon + 9 * DAY)
    assert told.days == [
        ActivityDay(
            day="2026-10-20",
            sessions=2,
            turns=1,
            waited_ms=50 * MINUTE,
            worked_ms=40 * MINUTE,
        ),
        ActivityDay(day="2026-10-21", turns=1, waited_ms=30 * MINUTE, worked_ms=HOUR),
    ]
    assert (told.asked, told.answered_by_rules, told.without_rule) == (3, 1, 3)
    assert told.median_wait_ms == 15 * MINUTE
    assert told.rules == [RuleUse(rule="reads", answered=1, asked=0, last=noon)]


async def test_a_question_that_is_open_waits_until_now_on_days_of_any_length(
    either: SqliteJournal,
) -> None:
    changes = Changes(questions=[asked("one", "a", at("2026-10-24T18:00"), None)])
    await either.post(drafts(1, "a"), changes).committed
    told = await either.sums.activity(at("2026-10-24T20:00"), at("2026-10-26T06:00"))
    assert {each.day: each.waited_ms // HOUR for each in told.days} == {
        "2026-10-24": 4,
        "2026-10-25": 25,
        "2026-10-26": 6,
    }


async def test_rules_are_counted_by_what_they_did(either: SqliteJournal) -> None:
    changes = Changes(
        questions=[
            asked("q1", "a", 1000, 2000, by="policy", rule="reads"),
            asked("q2", "a", 3000, 4000, by="policy", rule="reads"),
            asked("q3", "a", 5000, 6000, by="me", rule="writes"),
            asked("q4", "b", 7000, None),
        ]
    )
    await either.post(drafts(1, "a"), changes).committed
    # Settled later: a row is replaced.
    later = Changes(questions=[asked("q4", "b", 7000, 8000, by="policy", rule="reads")])
    await either.post(drafts(1, "b"), later).committed
    assert (await either.sums.activity(0, 9000)).rules == [
        RuleUse(rule="reads", answered=3, asked=0, last=7000),
        RuleUse(rule="writes", answered=0, asked=1, last=5000),
    ]
    since = await either.sums.activity(4000, 9000)
    assert [(each.rule, each.answered, each.asked) for each in since.rules] == [
        ("reads", 1, 0),
        ("writes", 0, 1),
    ]


async def test_any_stretches_come_to_what_the_minutes_come_to(either: SqliteJournal) -> None:
    random = Random(7)
    begin, minutes = at("2026-10-23T00:00"), 4 * 24 * 60
    waits: dict[str, set[int]] = {"a": set(), "b": set()}
    turns: dict[str, set[int]] = {"a": set(), "b": set()}
    questions: list[Question] = []
    costs: list[CostRow] = []
    for number in range(200):
        session = random.choice("ab")
        start = random.randrange(minutes)
        end = start + random.choice([0, 1, 7, 90, 2000])
        first, last = begin + start * MINUTE, begin + end * MINUTE
        if random.random() < 0.5:
            waits[session].update(range(start, end))
            questions.append(asked(f"q{number}", session, first, last))
        else:
            turns[session].update(range(start, end))
            costs.append(turn(session, last, last - first))
    await either.post(drafts(1, "a"), Changes(questions=questions, costs=costs)).committed
    told = await either.sums.activity(begin, begin + minutes * MINUTE)
    waited, worked = dict[str, int](), dict[str, int]()
    for session in "ab":
        for minute in range(minutes):
            day = day_of(begin + minute * MINUTE)
            waited[day] = waited.get(day, 0) + (minute in waits[session])
            busy = minute in turns[session] and minute not in waits[session]
            worked[day] = worked.get(day, 0) + busy
    assert {each.day: each.waited_ms // MINUTE for each in told.days} == waited
    assert {each.day: each.worked_ms // MINUTE for each in told.days} == worked


async def test_rows_of_an_older_file_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    noon = at("2026-10-20T12:00")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:7])
        await (await SqliteJournal.open(path)).aclose()
    bodies = [
        json.dumps({"opened_at": noon, "closed_at": noon + MINUTE, "answered_by": "person"}),
        json.dumps({"opened_at": noon, "rule": "reads", "answered_by": "policy"}),
        json.dumps({"opened_at": "soon", "closed_at": [], "rule": None}),
        "no JSON",
    ]
    with closing(sqlite3.connect(path)) as db, db:
        for number, body in enumerate(bodies):
            db.execute(
                "INSERT INTO questions (id, session, state, opened, body) VALUES (?, 1, ?, 1, ?)",
                (str(number), "answered", body.encode()),
            )
        ended = json.dumps({"record": "turn.ended", "duration_ms": 5 * MINUTE}).encode()
        db.execute("INSERT INTO events VALUES (8, 1, 16, ?, ?)", (noon, ended))
        # No turn is older than its session, whatever a CLI has said.
        endless = json.dumps({"record": "turn.ended", "duration_ms": 2**53 - 1}).encode()
        db.execute("INSERT INTO events VALUES (10, 2, 16, ?, ?)", (noon + HOUR, endless))
        db.execute(
            "INSERT INTO costs VALUES (10, 2, '/', ?, '2026-10-20', 0, 1, 1, 1, 1)", (noon + HOUR,)
        )
        for seq in (8, 9):
            values = (seq, 1, "/", noon + HOUR, "2026-10-20", 0.5, 1, 1, 1, 1)
            db.execute(f"INSERT INTO costs VALUES ({', '.join('?' * 10)})", values)
    journal = await SqliteJournal.open(path)
    told = await journal.sums.activity(0, noon + DAY)
    await journal.aclose()
    [day] = told.days
    assert (day.turns, day.waited_ms, day.worked_ms) == (3, MINUTE, 5 * MINUTE)
    assert [(each.rule, each.answered) for each in told.rules] == [("reads", 1)]


@pytest.mark.parametrize("what", ["costs", "activity"])
async def test_a_sum_for_which_there_is_no_room_leaves_the_journal_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def refuse(path: Path | None) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    journal = await SqliteJournal.open(tmp_path / "journal.db")
    monkeypatch.setattr(sums, "connect", refuse)
    with pytest.raises(JournalError, match="adds up"):
        await (journal.sums.costs("day") if what == "costs" else journal.sums.activity(0, DAY))
    assert journal.failed is None
    await keep(journal, drafts(1, "one"))
    assert journal.last == 1
    await journal.aclose()
