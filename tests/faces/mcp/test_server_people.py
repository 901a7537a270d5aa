"""People before the client: what they are asked while a call waits, on the simulator."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from pilothouse import errors
from pilothouse.faces.mcp import session_wait
from pilothouse.faces.mcp.elicitation import Round
from tests.support.mcp.harness import (
    HELD,
    MODERN,
    SOON,
    TOUCH,
    McpHarness,
    OpenMcp,
    ToolCaller,
    respond,
    text_of,
)


async def allowing(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": "allow"})


async def declining(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def test_a_person_answers_in_a_form_while_the_call_waits(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client(elicitation_callback=allowing) as model:
        done = await model.call("claude_start", prompt="go", waitSeconds=50)
    assert (done["status"], done["result"]) == ("done", "Made.")
    [question] = await at.house.engine.questions(session_id=done["sessionId"], state="any")
    assert question.answered_by == "person via mcp:tests"


async def test_what_is_told_of_a_wait_grows_also_while_a_person_decides(
    desk: OpenMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_wait, "TICK_S", 0.01)
    at = await desk(TOUCH, HELD)
    seen: list[tuple[float, float | None, str | None]] = []
    told = asyncio.Event()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        told.set()

    async def deciding(context: Any, params: Any) -> types.ElicitResult:
        told.clear()
        await told.wait()
        at.house.cli.release("held")
        return await allowing(context, params)

    async with (
        asyncio.timeout(SOON),
        at.client("legacy", elicitation_callback=deciding) as model,
    ):
        given = {"prompt": "go", "waitSeconds": 50}
        await model.client.call_tool("claude_start", given, progress_callback=tell)
    assert "waits for an answer" in [each[2] for each in seen]
    times = [each[0] for each in seen]
    assert times == sorted(set(times))
    assert all(total is not None and total >= done for done, total, _ in seen)


async def test_a_person_answers_in_a_form_while_nobody_waits(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client("legacy", elicitation_callback=allowing) as model:
        session_id = await model.start()
        status = await at.house.until(session_id, "done")
    assert status.result == "Made."
    [question] = await at.house.engine.questions(session_id=session_id, state="any")
    assert question.answered_by == "person via mcp:tests"


async def test_a_declined_form_leaves_the_question_to_others(desk: OpenMcp, era: str) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client(era, elicitation_callback=declining) as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        assert asked["status"] == "awaiting_input"
        done = await respond(model, asked, "allow")
    assert done["status"] == "done"


async def test_who_is_asked_only_while_a_call_waits_is_told_so(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    async with at.client(era, elicitation_callback=declining) as model:
        started = await model.call("claude_start", prompt="go")
        assert ("note" in started) == (era == MODERN)
        await model.waited(started["sessionId"])


async def test_only_a_person_may_approve_where_the_operator_says_so(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.", answers="person")
    async with at.client() as model:
        for given in (
            {"allowedTools": ["Bash"]},
            {"permissionMode": "acceptEdits"},
            {"permissionMode": "auto"},
            {"dangerouslySkipPermissions": True},
        ):
            assert "mcp_answers" in await model.refused("claude_start", prompt="go", **given)
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        assert "A person has to answer" in asked["next"]
        refused = await model.refused(
            "claude_respond",
            sessionId=asked["sessionId"],
            id=asked["pendingQuestion"]["id"],
            answers=["allow"],
        )
        assert "mcp_answers" in refused
        widened = await model.refused(
            "claude_say", sessionId=asked["sessionId"], message="go", permissionMode="acceptEdits"
        )
        assert "mcp_answers" in widened
    async with at.client(elicitation_callback=allowing) as model:
        done = await model.waited(asked["sessionId"])
    assert done["result"] == "Made."


# Calls in rounds


async def test_a_call_that_waits_asks_at_once_what_is_open(desk: OpenMcp, era: str) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client(era) as model:
        session_id = (await model.call("claude_start", prompt="go", waitSeconds=50))["sessionId"]
        cursor = (await model.status(session_id))["cursor"]
    async with asyncio.timeout(SOON), at.client(era, elicitation_callback=allowing) as model:
        status = await model.waited(session_id, after=cursor)
    assert (status["status"], status["result"]) == ("done", "Made.")


async def raw(model: ToolCaller, tool: str, arguments: dict[str, Any], **more: Any) -> Any:
    """One round of a call, as a client sends it."""
    return await model.client.session.call_tool(tool, arguments, allow_input_required=True, **more)


async def test_a_retry_that_makes_its_own_state_is_refused(desk: OpenMcp) -> None:
    at = await desk("One.")
    answers: Any = {"q": types.ElicitResult(action="decline")}
    async with at.client() as model:
        for state in ("{}", "nonsense", None):
            result = await model.client.session.call_tool(
                "claude_start", {"prompt": "go"}, input_responses=answers, request_state=state
            )
            assert isinstance(result, types.CallToolResult)
            assert result.is_error
            assert "equestState" in text_of(result)
        assert (await model.call("claude_list"))["sessions"] == []


async def test_answers_are_taken_only_of_who_was_asked_and_to_what(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.", TOUCH, "Made.")
    given = {"prompt": "go", "waitSeconds": 50}
    allowed: Any = types.ElicitResult(action="accept", content={"answer": "allow"})
    async with at.client(elicitation_callback=declining) as person, at.client() as model:
        first = await raw(person, "claude_start", given)
        second = await raw(person, "claude_start", given)
        [one], [other] = first.input_requests, second.input_requests
        wrong = {other: allowed}
        told = await raw(
            person,
            "claude_start",
            given,
            input_responses=wrong,
            request_state=first.request_state,
        )
        assert told.structured_content["status"] == "awaiting_input"
        right = {one: allowed}
        refused = await raw(
            model,
            "claude_start",
            given,
            input_responses=right,
            request_state=first.request_state,
        )
        session_id = Round.opened(first.request_state, "claude_start").act.session_id
        assert refused.is_error
        assert f"Session {session_id} was started, do not start it again" in text_of(refused)
        assert len(await at.house.engine.questions(state="open")) == 2


async def test_what_fails_in_a_later_round_says_what_was_done(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")

    class Lost:
        """An engine that is gone once somebody has answered."""

        is_gone = False

        def __getattr__(self, name: str) -> Any:
            if self.is_gone:
                raise errors.ServerError("it went away")
            return getattr(at.house.engine, name)

    lost = Lost()

    async def answering(context: Any, params: Any) -> types.ElicitResult:
        lost.is_gone = True
        return await allowing(context, params)

    behind = McpHarness(at.house, engine=lost)
    async with behind.client(elicitation_callback=answering) as model:
        refused = await model.refused("claude_start", prompt="go", waitSeconds=50)
    [session_id] = at.house.engine.sessions
    assert refused.startswith(f"Session {session_id} was started, do not start it again")
    assert "it went away" in refused
    await behind.aclose()


async def test_an_answer_that_cannot_be_given_now_is_asked_for_once_more(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    shown: list[str] = []

    class Moving:
        def __getattr__(self, name: str) -> Any:
            return self.answered if name == "answer" else getattr(at.house.engine, name)

        async def answered(self, *given: Any, **more: Any) -> Any:
            if len(shown) < 2:
                raise errors.NotNow("the session is moving", advice="wait")
            return await at.house.engine.answer(*given, **more)

    async def answering(context: Any, params: Any) -> types.ElicitResult:
        shown.append(params.message)
        return await allowing(context, params)

    behind = McpHarness(at.house, engine=Moving())
    async with behind.client(elicitation_callback=answering) as model:
        done = await model.call("claude_start", prompt="go", waitSeconds=50)
    assert (done["status"], len(shown)) == ("done", 2)
    assert "the session is moving" in shown[1]
    await behind.aclose()
