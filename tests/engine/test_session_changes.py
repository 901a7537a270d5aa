"""The list while sessions work: rows that change, a few times a second, lead every reader to the
same list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.engine import Engine
from pilothouse.api.questions import Question
from pilothouse.api.statuses import Listed, SessionChanges
from pilothouse.engine import session_changes
from pilothouse.errors import JournalError
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.simulated

LONG = " ".join(f"word{number}" for number in range(400))
WRITE = tool("Write", file_path="a.txt", content="a")
Changes = AsyncGenerator[SessionChanges]


class Reader:
    """What a page has of the list: rows, questions, and a cursor."""

    def __init__(self) -> None:
        self.cursor = 0
        self.rows: dict[str, Listed] = {}
        self.questions: dict[str, Question] = {}
        self.seen: list[SessionChanges] = []

    async def list(self, engine: Engine) -> None:
        listing = await engine.list(limit=1000)
        self.rows = {each.session_id: each for each in listing.sessions}
        self.cursor = listing.cursor

    async def take(self, changes: Changes) -> SessionChanges:
        told = await anext(changes)
        self.seen.append(told)
        self.cursor = told.cursor
        self.rows |= {each.session_id: each for each in told.changed}
        self.questions |= {each.id: each for each in told.questions}
        for each in told.removed:
            self.rows.pop(each, None)
        return told

    async def follow(self, engine: Engine, cursor: int) -> None:
        """Take in changes up to this cursor."""
        async with (
            asyncio.timeout(DEADLINE),
            aclosing(engine.follow_sessions(self.cursor)) as changes,
        ):
            while self.cursor < cursor:
                await self.take(changes)

    async def check(self, engine: Engine) -> None:
        """It has what one has who lists everything now."""
        other = Reader()
        await other.list(engine)
        assert self.rows == other.rows


async def end_of(it: EngineHarness) -> int:
    """The newest entry that is no piece of a message."""
    return [each.seq for each in await it.events() if each.kind != "partial"][-1]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_changes, "PAUSE_S", 0.01)


async def test_changes_lead_from_one_list_to_the_next(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    first = await it.done()
    reader = Reader()
    await reader.list(it.engine)
    following = asyncio.ensure_future(reader.follow(it.engine, reader.cursor + 1))
    await asyncio.sleep(0)
    second = await it.done()
    await it.say(first, "more")
    await it.until(first, "done")
    await following
    await it.engine.stop(first)
    await reader.follow(it.engine, await end_of(it))
    assert set(reader.rows) == {first, second}
    await reader.check(it.engine)


async def test_a_question_comes_with_its_row_and_again_when_it_is_answered(
    house: OpenEngine,
) -> None:
    it = await house(reply("I write.", WRITE), "One.")
    session_id = await it.start()
    question = await it.asked(session_id)
    reader = Reader()
    await reader.follow(it.engine, await end_of(it))
    assert reader.questions == {question.id: question}
    assert reader.rows[session_id].questions == 1
    await it.engine.answer(question.id, Allow(), by="somebody")
    await it.until(session_id, "done")
    await reader.follow(it.engine, await end_of(it))
    settled = reader.questions[question.id]
    assert (settled.state, settled.answered_by) == ("answered", "somebody")
    assert reader.rows[session_id].questions == 0


async def test_a_session_that_streams_gives_few_rows(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_changes, "PAUSE_S", 3600.0)
    it = await house(LONG)
    reader = Reader()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions()) as changes:
        first = asyncio.ensure_future(reader.take(changes))
        await asyncio.sleep(0)
        session_id = await it.done()
        # The first at once; the second not before the pause is over.
        assert [each.session_id for each in (await first).changed] == [session_id]
        second = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        assert not second.done()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def test_a_slow_reader_gets_all_that_happened_at_once(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    session_id = await it.start()
    reader = Reader()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(0)) as slow:
        await reader.take(slow)
        await it.until(session_id, "done")
        others = [await it.done() for _ in range(2)]
        end = await end_of(it)
        told = await reader.take(slow)
        assert (told.cursor >= end, len(reader.seen)) == (True, 2)
        assert {each.session_id for each in told.changed} == {session_id, *others}
    await reader.check(it.engine)


async def test_changes_go_on_after_a_restart(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    resting, spoken = await it.done(), await it.done()
    await it.engine.stop(resting)
    reader = Reader()
    await reader.list(it.engine)
    await it.say(spoken, "more")
    await it.until(spoken, "done")
    await it.close()
    await it.open()
    await reader.follow(it.engine, await end_of(it))
    assert resting not in {each.session_id for told in reader.seen for each in told.changed}
    await reader.check(it.engine)


async def test_whoever_has_missed_too_much_lists_again(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await house("One.", "Two.")
    monkeypatch.setattr(session_changes, "MOST", 1)
    await it.done()
    await it.done()
    reader = Reader()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(0)) as changes:
        told = await reader.take(changes)
    assert (told.reset, told.changed) == (True, [])
    assert told.cursor >= await end_of(it) - 1


async def test_what_rules_have_answered_is_no_news_for_people(house: OpenEngine) -> None:
    rule = '[[rule]]\nname = "all"\ntool = "Write"\naction = "allow"\n'
    it = await house(reply("I write.", WRITE), "One.")
    await it.engine.save_policy(rule)
    await it.done()
    reader = Reader()
    await reader.follow(it.engine, await end_of(it))
    assert [each.questions for each in reader.seen] == [[]] * len(reader.seen)
    assert len(await it.engine.questions(state="any")) == 1


async def test_whoever_has_missed_too_many_questions_lists_again(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await house(reply("I write.", WRITE), reply("And again.", WRITE), "One.")
    monkeypatch.setattr(session_changes, "MOST", 1)
    session_id = await it.start()
    for _ in range(2):
        await it.answer(session_id, Allow())
    await it.until(session_id, "done")
    reader = Reader()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(0)) as changes:
        told = await reader.take(changes)
    assert (told.reset, told.questions) == (True, [])


async def test_a_session_that_rests_while_its_row_is_looked_up_is_not_gone(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await house("One.")
    session_id = await it.done()
    journal = it.engine._recovery._services.journal
    sessions = it.engine._recovery._sessions.all
    touched = journal.touched

    async def forgetting(*given: Any, **named: Any) -> Any:
        told = await touched(*given, **named)
        sessions.pop(session_id, None)
        return told

    monkeypatch.setattr(journal, "touched", forgetting)
    kept = sessions[session_id]
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(0)) as changes:
        told = await anext(changes)
    sessions[session_id] = kept
    assert ([each.session_id for each in told.changed], told.removed) == ([session_id], [])


async def test_a_machine_that_goes_and_comes_back_is_told(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_changes, "LOOK_AGAIN_S", 0.01)
    it = await house("One.")
    session_id = await it.done()
    route = it.engine._recovery._sessions.all[session_id].cli.route
    last = await end_of(it)
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(last)) as changes:
        for is_there in (False, True):
            coming = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            route.connected = is_there
            [row] = (await coming).changed
            assert (row.waiting_on is None) is is_there


async def test_a_cursor_of_another_journal_is_told_and_goes_on_from_the_end(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    reader = Reader()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow_sessions(10**9)) as changes:
        told = await reader.take(changes)
        assert (told.reset, told.cursor) == (True, 0)
        session_id = await it.start()
        told = await reader.take(changes)
        assert [each.session_id for each in told.changed] == [session_id]
        await it.until(session_id, "done")


async def test_sessions_that_retention_removes_are_told_by_a_reset(house: OpenEngine) -> None:
    it = await house("One.", retention_days=1)
    session_id = await it.done()
    await it.engine.stop(session_id)
    reader = Reader()
    await reader.list(it.engine)
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(it.engine.follow_sessions(reader.cursor)) as changes,
    ):
        told = asyncio.ensure_future(reader.take(changes))
        await asyncio.sleep(0)
        clock = it.engine._recovery._services.recorder
        clock.clock = lambda: 10**14
        assert await it.engine.retain()
        assert (await told).reset
    # One who was away meanwhile is told as well.
    async with aclosing(it.engine.follow_sessions(reader.cursor)) as changes:
        assert (await anext(changes)).reset


async def test_who_follows_when_the_engine_ends_is_told(house: OpenEngine) -> None:
    it = await house()
    following = asyncio.ensure_future(anext(it.engine.follow_sessions()))
    await asyncio.sleep(0)
    await it.close()
    with pytest.raises(JournalError):
        await following
