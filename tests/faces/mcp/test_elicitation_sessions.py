"""Sessions on the simulator whose questions a person answers in forms, in both eras of MCP."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from pilothouse.api.answers import Deny
from pilothouse_sim.scenario import reply, tool
from tests.support.mcp.harness import McpHarness, OpenMcp

DEADLINE = 30.0
MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
ASK = reply(
    tool(
        "AskUserQuestion",
        questions=[
            {
                "question": "Which sails?",
                "header": "Sails",
                "options": [
                    {"label": "Main", "description": "The big one"},
                    {"label": "Jib, small", "description": "The other"},
                ],
                "multiSelect": True,
            }
        ],
    )
)


def filled(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


class Person:
    """Does the same with every form, and remembers them."""

    def __init__(self, does: types.ElicitResult | None) -> None:
        self.forms: list[Any] = []
        self.saw = asyncio.Event()
        self.lost = asyncio.Event()
        self._does = does

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.forms.append(params)
        self.saw.set()
        try:
            # Nobody sets it: such a wait has no value, and only its end by force counts.
            return self._does or await asyncio.Event().wait()  # type: ignore[return-value]
        except asyncio.CancelledError:
            self.lost.set()
            raise


async def ended(desk: McpHarness, person: Person, mode: str) -> dict[str, Any]:
    """The status after the session's end, with every question answered in a form."""
    async with desk.client(mode, elicitation_callback=person) as model:
        status = await model.call("claude_start", prompt="go", waitSeconds=50)
        while status["status"] != "done":
            status = await model.waited(status["sessionId"], after=status["cursor"])
        return status


@MODES
async def test_a_tool_is_allowed_in_a_form(desk: OpenMcp, mode: str) -> None:
    at, person = await desk(TOUCH, "Made."), Person(filled(answer="allow"))
    status = await ended(at, person, mode)
    assert status["result"] == "Made."
    assert (at.house.cwd / "made").exists()
    assert len(person.forms) == 1
    assert "touch made" in person.forms[0].message
    [question] = await at.house.engine.questions(state="any")
    assert question.answered_by == "person via mcp:tests"


@MODES
async def test_one_call_waits_on_while_a_person_decides(desk: OpenMcp, mode: str) -> None:
    at, person = await desk(TOUCH, "Made."), Person(filled(answer="allow"))
    async with at.client(mode, elicitation_callback=person) as model:
        status = await model.call("claude_start", prompt="go", waitSeconds=50)
    assert status["status"] == "done"
    assert status["result"] == "Made."


async def test_who_does_not_wait_is_told_when_a_person_is_asked(desk: OpenMcp) -> None:
    at, person = await desk("Hello."), Person(None)
    async with at.client("2026-07-28", elicitation_callback=person) as model:
        told = await model.call("claude_start", prompt="go")
        assert "only while a call waits" in told["note"]
        assert "note" not in await model.call("claude_start", prompt="go", waitSeconds=50)


@MODES
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_call_that_waits_tells_of_a_question_whose_form_was_closed(
    desk: OpenMcp, mode: str, action: Any
) -> None:
    at, person = await desk(TOUCH, "Made."), Person(types.ElicitResult(action=action))
    async with at.client(mode, elicitation_callback=person) as model:
        call = model.call("claude_start", prompt="go", waitSeconds=50)
        status = await asyncio.wait_for(call, DEADLINE)
        assert status["status"] == "awaiting_input"
        assert status["pendingQuestion"]["type"] == "tool_approval"
        assert "closed it without an answer" in status["note"]
        assert "claude_respond" not in status["next"]
        later = await model.status(status["sessionId"])
    assert "note" not in later


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_waits_for_an_answer_learns_that_its_form_was_closed(
    desk: OpenMcp, action: Any
) -> None:
    held = asyncio.Event()

    async def closing(context: Any, params: Any) -> types.ElicitResult:
        await held.wait()
        return types.ElicitResult(action=action)

    at = await desk(TOUCH, "Made.")
    async with at.client("legacy", elicitation_callback=closing) as model:
        session_id = await model.start()
        cursor = (await at.house.until(session_id, "awaiting_input")).cursor
        waiting = asyncio.create_task(model.waited(session_id, after=cursor))
        held.set()
        status = await asyncio.wait_for(waiting, DEADLINE)
    assert (status["status"], "closed it" in status["note"]) == ("awaiting_input", True)


@MODES
async def test_who_answers_a_question_whose_cli_has_died_resumes_the_session(
    desk: OpenMcp, mode: str
) -> None:
    at, person = await desk(TOUCH, TOUCH, "Made."), Person(filled(answer="allow"))
    async with at.client(mode) as model:
        session_id = (await model.call("claude_start", prompt="go", waitSeconds=50))["sessionId"]
    await at.house.engine.sessions[session_id].cli.close("the test", decidable=True)
    async with (
        asyncio.timeout(DEADLINE),
        at.client(mode, elicitation_callback=person) as model,
    ):
        status = await model.waited(session_id)
        while status["status"] != "done":
            status = await model.waited(session_id, after=status["cursor"])
    assert (at.house.cwd / "made").exists()
    assert "touch made" in person.forms[0].message


@MODES
async def test_a_session_named_by_its_conversation_is_the_same_session(
    desk: OpenMcp, mode: str
) -> None:
    at, person = await desk("Hello.", TOUCH, "Made."), Person(filled(answer="allow"))
    async with asyncio.timeout(DEADLINE), at.client(mode, elicitation_callback=person) as model:
        session_id = (await model.call("claude_start", prompt="go", waitSeconds=50))["sessionId"]
        await model.call("claude_say", sessionId=session_id, message="/clear", waitSeconds=50)
        conversation = at.house.engine.sessions[session_id].view.claude_session_id
        assert conversation not in (None, session_id)
        await model.status(conversation)
        await model.status(session_id)
        status = await model.call(
            "claude_say", sessionId=conversation, message="again", waitSeconds=50
        )
    assert (status["status"], status["sessionId"]) == ("done", session_id)
    assert len(person.forms) == 1


async def test_a_form_of_a_session_named_in_two_ways_is_one_form(desk: OpenMcp) -> None:
    at, person = await desk("Hello.", TOUCH, "Made."), Person(None)
    async with asyncio.timeout(DEADLINE), at.client("legacy") as model:
        session_id = (await model.call("claude_start", prompt="go", waitSeconds=50))["sessionId"]
        await model.call("claude_say", sessionId=session_id, message="/clear", waitSeconds=50)
        await model.call("claude_say", sessionId=session_id, message="again", waitSeconds=50)
        conversation = at.house.engine.sessions[session_id].view.claude_session_id
    async with (
        asyncio.timeout(DEADLINE),
        at.client("legacy", elicitation_callback=person) as model,
    ):
        await model.status(conversation)
        await model.status(session_id)
        await person.saw.wait()
        await at.house.answer(session_id, Deny(reason="no"))
        await person.lost.wait()
        await model.waited(session_id)
    assert len(person.forms) == 1


@MODES
async def test_several_choices_and_own_words_reach_the_model(desk: OpenMcp, mode: str) -> None:
    at = await desk(ASK, "Set.")
    person = Person(filled(q1=["Jib, small", "Main"], q1_other="Spinnaker"))
    status = await ended(at, person, mode)
    assert status["result"] == "Set."
    assert "Jib, small, Main, Spinnaker" in at.house.told()[-1]


@MODES
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_dismissed_form_leaves_the_question_to_the_model(
    desk: OpenMcp, mode: str, action: Any
) -> None:
    at, person = await desk(TOUCH, "Not made."), Person(types.ElicitResult(action=action))
    async with at.client(mode, elicitation_callback=person) as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        assert asked["status"] == "awaiting_input"
        session_id, question = asked["sessionId"], asked["pendingQuestion"]
        done = await model.call(
            "claude_respond",
            sessionId=session_id,
            id=question["id"],
            answers=["deny: no"],
            waitSeconds=50,
        )
        assert done["status"] == "done"
    assert not (at.house.cwd / "made").exists()


async def test_what_is_answered_in_another_face_leaves_the_screen(desk: OpenMcp) -> None:
    at, person = await desk(TOUCH, "Not made."), Person(None)
    async with at.client("legacy", elicitation_callback=person) as model:
        session_id = await model.start()
        async with asyncio.timeout(DEADLINE):
            await person.saw.wait()
            await at.house.answer(session_id, Deny(reason="no"))
            await person.lost.wait()
        status = await model.waited(session_id)
    assert (status["status"], len(person.forms)) == ("done", 1)


async def test_a_client_that_goes_leaves_its_question_to_the_next(desk: OpenMcp) -> None:
    at, gone, person = await desk(TOUCH, "Made."), Person(None), Person(filled(answer="allow"))
    async with at.client("legacy", elicitation_callback=gone) as model:
        session_id = await model.start()
        async with asyncio.timeout(DEADLINE):
            await gone.saw.wait()
    async with at.client("legacy", elicitation_callback=person) as model:
        status = await model.status(session_id)
        while status["status"] != "done":
            status = await model.waited(session_id, after=status["cursor"])
    assert (at.house.cwd / "made").exists()
