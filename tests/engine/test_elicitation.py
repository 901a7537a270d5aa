"""An MCP server of a session's asks a person for values, and gets what was answered."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.answers import Decline, Dismiss, Fill
from pilothouse.api.questions import Question
from pilothouse.errors import AnswerRefused
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.engine.mcp_servers import CLERK, server

SIGN = reply(tool("mcp__clerk__sign"))


async def asked(house: OpenEngine, **settings: Any) -> tuple[EngineHarness, Question]:
    """A session whose MCP server asks."""
    it = await house("Ready.", SIGN, "Signed.", **settings)
    session_id = await it.done(
        mcp_servers={"clerk": server(it.cwd / "clerk.py", CLERK)}, allowed_tools=["mcp__clerk"]
    )
    await it.connected(session_id, "clerk")
    await it.say(session_id, "sign it")
    return it, await it.asked(session_id)


async def test_a_form_that_is_filled_in_reaches_the_server(house: OpenEngine) -> None:
    it, question = await asked(house)
    assert (question.kind, question.server_name) == ("elicitation", "clerk")
    assert question.title == "clerk asks: Your name?"
    assert question.schema is not None
    assert question.schema["properties"]["name"]["description"] == "as in the book"
    assert [way.id for way in question.ways] == ["fill", "decline", "dismiss"]
    with pytest.raises(AnswerRefused, match="name"):
        await it.engine.answer(question.id, Fill())
    await it.engine.answer(question.id, Fill(content={"name": "Ann"}))
    assert (await it.until(question.session_id, "done")).result == "Signed."
    assert "accept: name='Ann'" in it.told()[0]


@pytest.mark.simulated
@pytest.mark.parametrize(("answer", "told"), [(Decline(), "decline"), (Dismiss(), "cancel")])
async def test_a_form_can_be_declined_and_dismissed(
    house: OpenEngine, answer: Any, told: str
) -> None:
    it, question = await asked(house)
    await it.engine.answer(question.id, answer)
    await it.until(question.session_id, "done")
    assert f"{told}: None" in it.told()[0]


@pytest.mark.simulated
async def test_a_form_that_nobody_fills_in_is_declined(house: OpenEngine) -> None:
    it, question = await asked(house, permission_timeout_ms=50)
    await it.until(question.session_id, "done")
    assert (await it.engine.question(question.id)).state == "expired"
    assert "decline: None" in it.told()[0]


@pytest.mark.simulated
async def test_an_interrupt_withdraws_the_form(house: OpenEngine) -> None:
    it, question = await asked(house)
    await it.engine.interrupt(question.session_id)
    await it.until(question.session_id, "interrupted")
    assert (await it.engine.question(question.id)).state == "withdrawn"
