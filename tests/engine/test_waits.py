"""Waiting for a session, as scripts do: for a question, for its end, or for what happens next."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.statuses import Status
from pilothouse.errors import UnknownSession
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, opened
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.simulated

WRITE = reply("I write.", tool("Write", file_path="a.txt", content="a"))


async def waited(it: EngineHarness, session_id: str, **wanted: object) -> Status:
    async with asyncio.timeout(DEADLINE):
        return await it.engine.wait(session_id, **{"seconds": 2 * DEADLINE, **wanted})  # type: ignore[arg-type]  # as given


async def test_it_ends_when_the_session_asks_and_when_it_is_done(house: OpenEngine) -> None:
    it = await house(WRITE, "Written.")
    session_id = await it.start()
    status = await waited(it, session_id)
    assert status.state == "awaiting_input"
    (question,) = opened(status)
    assert (await waited(it, session_id)).state == "awaiting_input"
    end = asyncio.ensure_future(waited(it, session_id, at_rest=True))
    await asyncio.sleep(0)
    await it.engine.answer(question.id, Allow())
    assert (await end).state == "done"


async def test_with_a_cursor_it_ends_at_the_next_thing_that_matters(house: OpenEngine) -> None:
    it = await house(WRITE, "Written.")
    session_id = await it.start()
    asked = await waited(it, session_id)
    (question,) = opened(asked)
    following = asyncio.ensure_future(waited(it, session_id, after=asked.cursor))
    await asyncio.sleep(0)
    await it.engine.answer(question.id, Allow())
    assert not opened(await following)
    # What has happened since ends it at once.
    assert (await waited(it, session_id, after=0)).cursor >= asked.cursor


async def test_when_the_time_is_over_it_says_how_the_session_is(house: OpenEngine) -> None:
    it = await house(WRITE, "Written.")
    session_id = await it.start()
    await it.asked(session_id)
    status = await it.engine.wait(session_id, seconds=0.01, at_rest=True)
    assert status.state == "awaiting_input"


async def test_a_session_that_nobody_knows_cannot_be_waited_for(house: OpenEngine) -> None:
    it = await house("One.")
    with pytest.raises(UnknownSession):
        await it.engine.wait("nobody")
