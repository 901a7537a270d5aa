"""Lists come in pages: whatever a journal has gathered, no answer is of any size."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import pytest

from pilothouse.api.questions import Question, QuestionState
from pilothouse.api.requests import Ask
from pilothouse.api.statuses import Tokens
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.recorder import now_ms
from pilothouse.errors import UnknownQuestion
from pilothouse.journal.contract import Changes, CostRow, Draft
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.engine.harness import OpenEngine
from tests.support.http.serving import calling, make_app

pytestmark = pytest.mark.simulated

STATES: list[QuestionState] = ["answered", "withdrawn", "expired"]


def settled(number: int) -> Question:
    return Question(
        id=f"q-{number:05}",
        session_id="old",
        kind="tool",
        state=STATES[number % 3],
        title="Run it?",
        tool_name="Bash",
        input={"command": "make"},
    )


async def gather(engine: SessionEngine, count: int) -> list[str]:
    questions = [settled(number) for number in range(count)]
    # Not as old as they look: retention would remove them.
    drafts = [Draft("old", "noise", now_ms(), b"1")]
    await engine.journal.post(drafts, Changes(questions=questions)).committed
    return [each.id for each in questions]


async def every(engine: SessionEngine, **chosen: Any) -> list[str]:
    """All of them, a page after the other."""
    found: list[str] = []
    while page := await engine.questions(before=found[0] if found else None, **chosen):
        found = [each.id for each in page] + found
    return found


async def test_the_newest_questions_come_first_and_the_others_page_by_page(
    house: OpenEngine,
) -> None:
    it = await house()
    ids = await gather(it.engine, 2500)
    assert [each.id for each in await it.engine.questions(state="any")] == ids[-500:]
    assert [each.id for each in await it.engine.questions(state="any", limit=3)] == ids[-3:]
    older = await it.engine.questions(state="any", limit=3, before=ids[-3])
    assert [each.id for each in older] == ids[-6:-3]
    assert await every(it.engine, state="any", limit=300) == ids
    assert await every(it.engine, state="expired", limit=300) == ids[2::3]
    assert await every(it.engine, state="expired", limit=300, session_id="old") == ids[2::3]


async def test_a_page_begins_at_a_question_that_no_longer_fits(house: OpenEngine) -> None:
    it = await house()
    ids = await gather(it.engine, 12)
    found = await it.engine.questions(state="expired", limit=2, before=ids[9])
    assert [each.id for each in found] == [ids[5], ids[8]]


async def test_a_question_that_cannot_be_read_hides_no_other(house: OpenEngine) -> None:
    it = await house()
    ids = await gather(it.engine, 30)
    await it.engine.aclose()
    with closing(sqlite3.connect(it.engine.services.settings.state_dir / "journal.db")) as file:
        file.execute("UPDATE questions SET body = x'78' WHERE id = ?", (ids[25],))
        file.commit()
    journal = await SqliteJournal.open(it.engine.services.settings.state_dir / "journal.db")
    kept = [each.id for each in await journal.questions(limit=10)]
    kept = [each.id for each in await journal.questions(limit=100, before=kept[0])] + kept
    await journal.aclose()
    assert kept == ids[:25] + ids[26:]


async def test_before_the_first_question_there_is_none_and_before_no_question_neither(
    house: OpenEngine,
) -> None:
    it = await house()
    ids = await gather(it.engine, 3)
    assert await it.engine.questions(state="any", before=ids[0]) == []
    assert await it.engine.questions(before=ids[0]) == []
    assert await it.engine.questions(state="any", session_id="another", before=ids[2]) == []
    with pytest.raises(UnknownQuestion):
        await it.engine.questions(state="any", before="q-none")


async def test_ten_thousand_questions_are_no_huge_answer(house: OpenEngine) -> None:
    it = await house()
    ids = await gather(it.engine, 10_000)
    async with calling(make_app(it.engine)) as http:
        answer = await http.get("/api/questions?state=any")
        assert [each["id"] for each in answer.json()] == ids[-500:]
        assert len(answer.content) < 500_000
        page = await http.get(f"/api/questions?state=any&limit=2&before={ids[-500]}")
        assert [each["id"] for each in page.json()] == ids[-502:-500]
        await refused(http, "limit=1001", "limit=0", "limit=-1", "limit=x", "before=")


async def refused(http: httpx.AsyncClient, *queries: str) -> None:
    for query in queries:
        answer = await http.get(f"/api/questions?{query}")
        assert (query, answer.status_code) == (query, 422)


async def test_questions_that_take_an_answer_come_in_pages_too(house: OpenEngine) -> None:
    it = await house()
    asks = [
        Ask(
            tool_name="Bash",
            tool_use_id=f"u-{number}",
            input={},
            cwd=str(it.cwd),
            session_id=f"00000000-0000-4000-8000-{number:012}",
            wait_s=0,
        )
        for number in range(5)
    ]
    ids = [(await it.engine.ask(each)).question.id for each in asks]
    assert [each.id for each in await it.engine.questions()] == ids
    assert [each.id for each in await it.engine.questions(limit=2)] == ids[-2:]
    assert await every(it.engine, limit=2) == ids


async def spend(engine: SessionEngine, turns: int) -> None:
    for number in range(turns):
        row = CostRow(
            session_id="old", project="/p", at=number, day="2026-01-01", usd=1.0, tokens=Tokens()
        )
        await engine.journal.post([Draft("old", "noise", 0, b"1")], Changes(costs=[row])).committed


async def test_costs_come_in_pages_and_their_sum_is_of_all(house: OpenEngine) -> None:
    it = await house()
    await spend(it.engine, 7)
    whole = await it.engine.cost("turn")
    report = await it.engine.cost("turn", limit=3)
    assert report.lines == whole.lines[-3:]
    assert (report.total_usd, report.older, whole.older) == (7.0, 4, 0)
    older = await it.engine.cost("turn", limit=3, before=report.lines[0].group)
    assert (older.lines, older.older) == (whole.lines[1:4], 1)
    assert (await it.engine.cost("turn", before="none")).lines == []


async def test_a_dry_run_lists_no_more_than_a_thousand(house: OpenEngine) -> None:
    it = await house()
    ids = await gather(it.engine, 1200)
    ran = await it.engine.policy_dry_run('[[rule]]\ntool = "Bash"\naction = "deny"\n')
    assert (ran.examined, len(ran.differ), ran.older) == (1200, 1000, 200)
    assert [line.question_id for line in ran.differ] == ids[200:]
