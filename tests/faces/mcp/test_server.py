"""The tools on the simulator, as the official client uses them in both eras."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from pilothouse.api.questions import Question
from pilothouse.faces.mcp import permission
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import run_bare_cli
from tests.support.mcp.harness import HELD, SOON, TOUCH, McpHarness, OpenMcp, respond, text_of
from tests.support.waiting import DEADLINE

ASKS = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "toolu_1"}
PLAN = "# Plan\n\n1. Look\n2. Leap\n"
WRITE_PLAN = reply(tool("Write", file_path="{{plan_file}}", content=PLAN))
EXIT = reply(tool("ExitPlanMode"))
WRITE_NOTE = reply(tool("Write", file_path="{{cwd}}/note.txt", content="noted"))
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "Like a rose"},
        {"label": "Blue, deep", "description": "Like the sea"},
    ],
    "multiSelect": False,
}
SAILS = {
    "question": "Which sails?",
    "header": "Sails",
    "options": [{"label": "Jib", "description": ""}, {"label": "Main", "description": ""}],
    "multiSelect": True,
}


# Flows


async def test_a_session_is_started_and_followed_to_its_end(desk: OpenMcp, era: str) -> None:
    at = await desk("Hello there.")
    async with at.client(era) as model:
        started = await model.call("claude_start", prompt="go")
        assert {"sessionId", "status", "cursor", "next"} <= set(started)
        status = await model.waited(started["sessionId"])
        assert (status["status"], status["result"]) == ("done", "Hello there.")
        assert status["recentOutput"] == ["Hello there."]
        assert (status["turnCount"], status["toolUseEvents"]) == (1, [])
        assert (status["costUsd"] >= 0, status["tokens"]["output"] >= 0) == (True, True)
        later = await model.status(started["sessionId"], after=status["cursor"])
        assert (later["recentOutput"], later["status"]) == ([], "done")


async def test_a_text_is_told_while_it_is_written(desk: OpenMcp) -> None:
    at = await desk(HELD)
    async with at.client() as model:
        started = await model.call("claude_start", prompt="go")
        session_id = started["sessionId"]
        await at.house.until_written(session_id, "One")
        status = await model.status(session_id)
        assert (status["status"], status["recentOutput"]) == ("active", ["One"])
        transcript = await model.transcript(session_id)
        assert transcript.endswith("## Claude\n\nOne\n\n_(still writing)_\n")
        at.house.cli.release("held")
        done = await model.waited(session_id, after=status["cursor"])
        assert done["recentOutput"] == ["One and two."]
        assert "One and two.\n\n_The turn ended" in await model.transcript(session_id)


async def test_a_tool_is_approved_by_polling(desk: OpenMcp, era: str) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client(era) as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        assert asked["status"] == "awaiting_input"
        question = asked["pendingQuestion"]
        assert (question["type"], question["toolName"]) == ("tool_approval", "Bash")
        assert question["questions"][0]["options"] == ["allow", "deny", "always"]
        assert "touch made" in question["questions"][0]["question"]
        assert asked["pendingQuestions"] == [question]
        text = await model.text("claude_status", sessionId=asked["sessionId"])
        assert "touch made" in text
        assert f'claude_respond({{"sessionId":"{asked["sessionId"]}"' in text
        done = await respond(model, asked, "allow")
    assert (done["status"], done["result"]) == ("done", "Made.")
    [used] = done["toolUseEvents"]
    assert (used["toolName"], used["status"]) == ("Bash", "completed")
    assert (at.house.cwd / "made").exists()


async def test_a_tool_runs_with_the_input_it_was_given(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        edited = asked["pendingQuestion"]["input"] | {"command": "touch edited"}
        await respond(model, asked, "allow", updatedInput=edited)
    assert [each.name for each in at.house.cwd.iterdir()] == ["edited"]


async def test_a_plan_is_made_approved_and_implemented(desk: OpenMcp) -> None:
    at = await desk(WRITE_PLAN, EXIT, WRITE_NOTE, "Leapt.")
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        question = asked["pendingQuestion"]
        [one] = question["questions"]
        assert question["type"] == "plan_approval"
        assert one["question"].startswith("Claude has completed a plan:\n\n# Plan")
        assert one["options"] == [
            "approve",
            "reject",
            "approve_accept_edits",
            "approve_and_compact",
            "revise",
            "clear_context",
        ]
        done = await respond(model, asked, "approve_accept_edits")
    assert (done["status"], done["result"]) == ("done", "Leapt.")
    assert done["permissionMode"] == "acceptEdits"
    assert (at.house.cwd / "note.txt").read_text() == "noted"


async def test_an_approved_plan_is_implemented_with_questions_about_edits(desk: OpenMcp) -> None:
    at = await desk(WRITE_PLAN, EXIT, WRITE_NOTE, "Leapt.", "As you like.")
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        asked = await respond(model, asked, "approve")
        assert asked["pendingQuestion"]["toolName"] == "Write"
        done = await respond(model, asked, "deny: not there")
    assert done["toolUseEvents"][-1]["status"] == "denied"
    assert "not there" in at.house.told()[-1]


async def test_a_plan_is_implemented_as_edited(desk: OpenMcp) -> None:
    at = await desk(WRITE_PLAN, EXIT, "Leapt.")
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        await respond(model, asked, "approve_accept_edits", plan="# Plan\n\n1. Look twice\n")
    assert "1. Look twice" in at.house.heard()


async def test_a_denial_ends_the_turn_where_that_is_wanted(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Never said.", strict=False)
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        done = await respond(model, asked, "deny_and_stop: not on a Friday")
    assert done["status"] == "interrupted"
    assert done["recentOutput"] == []


async def test_a_rule_is_written_where_the_answer_says(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        refused = await model.refused(
            "claude_respond",
            sessionId=asked["sessionId"],
            id=asked["pendingQuestion"]["id"],
            answers=["always: nowhere"],
        )
        assert "always: projectSettings" in refused
        await respond(model, asked, "always: projectSettings")
    kept = json.loads((at.house.cwd / ".claude/settings.json").read_text())
    assert kept["permissions"]["allow"] == ["Bash(touch made *)"]


async def test_notes_reach_the_model_with_the_answers(desk: OpenMcp) -> None:
    at = await desk(reply(tool("AskUserQuestion", questions=[COLOUR])), "So be it.")
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        await respond(model, asked, "Red", notes={"Which colour?": "a dark one"})
    assert "a dark one" in at.house.told()[-1]


async def test_a_plan_goes_on_in_a_new_session(desk: OpenMcp) -> None:
    at = await desk(WRITE_PLAN, EXIT, "Leapt.", strict=False)
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        ended = await respond(model, asked, "clear_context")
        assert ended["sessionId"] == asked["sessionId"]
        assert ended["newSessionId"] in ended["next"]
        done = await model.waited(ended["newSessionId"])
    assert (done["status"], done["parentSessionId"]) == ("done", asked["sessionId"])


async def test_the_models_questions_are_answered(desk: OpenMcp) -> None:
    at = await desk(reply(tool("AskUserQuestion", questions=[COLOUR, SAILS])), "So be it.")
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        assert asked["pendingQuestion"]["type"] == "question"
        colour, sails = asked["pendingQuestion"]["questions"]
        assert colour == {
            "question": "Which colour?",
            "options": ["Red", "Blue, deep"],
            "header": "Colour",
            "descriptions": ["Like a rose", "Like the sea"],
            "multiSelect": False,
        }
        assert sails["multiSelect"]
        done = await respond(model, asked, "blue, Deep", "main, jib")
    assert done["status"] == "done"
    assert '"Which colour?"="Blue, deep"' in at.house.told()[-1]
    assert "Main, Jib" in at.house.told()[-1]


async def test_a_session_at_rest_is_resumed_switched_forked_and_listed(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.", "Three.")
    async with at.client() as model:
        session_id = await model.start("Begin here", waitSeconds=50)
        await at.house.engine.stop(session_id)
        said = await model.call(
            "claude_say",
            sessionId=session_id,
            message="and?",
            permissionMode="plan",
            waitSeconds=50,
        )
        assert (said["resumed"], said["result"], said["permissionMode"]) == (True, "Two.", "plan")
        assert said["recentOutput"] == ["Two."]
        forked = await model.call(
            "claude_say", sessionId=session_id, message="or?", fork=True, waitSeconds=50
        )
        assert forked["parentSessionId"] == session_id != forked["sessionId"]
        assert (forked["result"], "resumed" in forked) == ("Three.", False)
        told = await model.call("claude_list")
        assert {each["sessionId"] for each in told["sessions"]} >= {
            session_id,
            forked["sessionId"],
        }
        first = next(each for each in told["sessions"] if each["sessionId"] == session_id)
        assert first["projectDirectory"] == str(at.house.cwd)
        assert (first["isActive"], first["activeStatus"]) == (True, "done")
        assert first["timestamp"].endswith("+00:00")
        nowhere = await model.call("claude_list", workingDirectory="/nowhere", limit=1)
        assert nowhere["sessions"] == []


async def test_a_session_that_a_person_began_goes_on(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.")
    session_id = await run_bare_cli(at.house, "a question of old")
    async with at.client() as model:
        [listed] = (await model.call("claude_list"))["sessions"]
        assert (listed["sessionId"], listed["displayText"]) == (session_id, "a question of old")
        assert (listed["isActive"], "activeStatus" in listed) == (False, False)
        status = await model.status(session_id)
        assert (status["status"], status["title"]) == ("done", "a question of old")
        assert (status["onDisk"], status["recentOutput"]) == (True, ["One."])
        assert "\n\na question of old\n\n## Claude\n\nOne.\n" in await model.transcript(session_id)
        said = await model.call("claude_say", sessionId=session_id, message="go on", waitSeconds=50)
    assert (said["sessionId"], said["result"], said["resumed"]) == (session_id, "Two.", True)


async def test_a_turn_is_interrupted_and_the_session_goes_on(desk: OpenMcp) -> None:
    at = await desk(HELD, "Here again.")
    async with at.client() as model:
        session_id = await model.start()
        await at.house.cli.reached("held")
        await at.house.when(session_id, lambda status: status.live and not status.queued)
        stopped = await model.call("claude_interrupt", sessionId=session_id)
        assert stopped["status"] == "interrupted"
        again = await model.call(
            "claude_say", sessionId=session_id, message="hello?", waitSeconds=50
        )
        assert (again["status"], again["result"]) == ("done", "Here again.")
        idle = await model.call("claude_interrupt", sessionId=session_id)
        assert idle["status"] == "done"


async def test_a_session_that_asks_is_interrupted(desk: OpenMcp) -> None:
    at = await desk(TOUCH, "Made.")
    async with at.client() as model:
        asked = await model.call("claude_start", prompt="go", waitSeconds=50)
        stopped = await model.call("claude_interrupt", sessionId=asked["sessionId"])
    assert (stopped["status"], "pendingQuestion" in stopped) == ("interrupted", False)
    assert not (at.house.cwd / "made").exists()


# Refusals


async def test_a_session_too_many_is_refused_with_what_to_do(desk: OpenMcp) -> None:
    at = await desk(HELD, max_sessions=1)
    async with at.client() as model:
        session_id = await model.start()
        await at.house.cli.reached("held")
        refused = await model.refused("claude_start", prompt="me, too")
        assert "1 sessions run" in refused
        assert "claude_list" in refused
        at.house.cli.release("held")
        await model.waited(session_id)


async def test_bypass_needs_the_operator(desk: OpenMcp) -> None:
    at = await desk("One.")
    async with at.client() as model:
        for given in (
            {"dangerouslySkipPermissions": True},
            {"permissionMode": "bypassPermissions"},
        ):
            refused = await model.refused("claude_start", prompt="go", **given)
            assert "PILOTHOUSE_ALLOW_BYPASS" in refused
        assert (await model.call("claude_list"))["sessions"] == []


# Calls


async def test_a_cancelled_call_ends_the_wait_and_nothing_else(desk: OpenMcp, era: str) -> None:
    at = await desk(HELD)
    async with at.client(era) as model:
        session_id = await model.start()
        await at.house.cli.reached("held")
        told = asyncio.Event()

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told.set()

        waiting = asyncio.create_task(
            model.client.call_tool(
                "claude_status",
                {"sessionId": session_id, "waitSeconds": 50},
                progress_callback=tell,
            )
        )
        await asyncio.wait_for(told.wait(), DEADLINE)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await model.status(session_id))["status"] == "active"
        at.house.cli.release("held")
        assert (await model.waited(session_id))["result"] == "One and two."


async def test_a_cursor_that_the_journal_has_not_reached_is_the_last_one(
    desk: OpenMcp, era: str
) -> None:
    at = await desk(HELD)
    async with asyncio.timeout(SOON), at.client(era) as model:
        session_id = await model.start()
        await at.house.cli.reached("held")
        told = asyncio.Event()

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told.set()

        given = {"sessionId": session_id, "after": 1 << 40, "waitSeconds": 50}
        waiting = asyncio.create_task(
            model.client.call_tool("claude_status", given, progress_callback=tell)
        )
        await told.wait()
        at.house.cli.release("held")
        status = (await waiting).structured_content
    assert status is not None
    assert (status["status"], status["recentOutput"]) == ("done", ["One and two."])


async def test_only_resources_change(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    async with at.client("legacy" if era == "legacy" else "auto") as model:
        able = model.client.server_capabilities
    assert able.tools is not None
    assert able.prompts is not None
    assert able.resources is not None
    assert (able.tools.list_changed, able.prompts.list_changed) == (False, False)
    assert able.resources.list_changed


async def test_an_unknown_tool_is_an_error_of_the_protocol(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    async with at.client(era) as model:
        with pytest.raises(MCPError, match="Unknown tool: claude_stop") as caught:
            await model.client.call_tool("claude_stop", {})
    assert caught.value.error.code == types.INVALID_PARAMS


async def test_a_fault_of_ours_is_a_tool_error_and_no_more(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")

    class Faulty:
        async def list(self, **more: Any) -> Any:
            raise RuntimeError("secret detail")

    broken = McpHarness(at.house, engine=Faulty())
    async with broken.client(era) as model:
        refused = await model.refused("claude_list")
    assert refused == "claude_list has failed inside Pilothouse; its log says why"
    await broken.aclose()


async def test_only_claude_code_is_told_of_the_permission_tool(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    names: dict[str, list[str]] = {}
    for name in ("someone", "claude-code"):
        async with at.client(era, name=name) as model:
            names[name] = [each.name for each in (await model.client.list_tools()).tools]
    assert len(names["someone"]) == 7
    assert [*names["someone"], "permission_check"] == names["claude-code"]


async def test_a_permission_server_has_nothing_else(desk: OpenMcp, era: str) -> None:
    whole = await desk("One.")
    at = McpHarness(whole.house, permission_check_only=True)
    async with at.client(era) as model:
        assert [each.name for each in (await model.client.list_tools()).tools] == [
            "permission_check"
        ]
        with pytest.raises(MCPError):
            await model.client.call_tool("claude_list", {})
    await at.aclose()


async def test_a_cli_of_somebody_else_asks_through_it(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    beside = McpHarness(at.house)
    async with beside.client(era, name="claude-code") as cli, at.client() as model:
        asking = asyncio.create_task(cli.client.call_tool("permission_check", ASKS))
        question = await opened(at)
        status = await model.status(question.session_id)
        assert (status["status"], status["foreign"]) == ("awaiting_input", True)
        await model.call(
            "claude_respond", sessionId=question.session_id, id=question.id, answers=["allow"]
        )
        told = json.loads(text_of(await asyncio.wait_for(asking, DEADLINE)))
    assert told == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    await beside.aclose()


@pytest.mark.parametrize("is_taken", [False, True])
async def test_what_a_cli_asks_is_not_its_own_to_decide(
    desk: OpenMcp, era: str, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await desk(TOUCH, "Made.")
    engines_own = await whole.house.start()
    if is_taken:
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", engines_own)
    at = McpHarness(whole.house)
    async with at.client(era, name="claude-code") as cli:
        asking = asyncio.create_task(cli.client.call_tool("permission_check", ASKS))
        question = await opened(at, foreign=True)
        refused = await cli.refused(
            "claude_respond", sessionId=question.session_id, id=question.id, answers=["allow"]
        )
        assert "not its own to decide" in refused
        own = await opened(at, foreign=False)
        arguments = {"sessionId": engines_own, "id": own.id, "answers": ["deny"]}
        told = await cli.client.call_tool("claude_respond", arguments)
        # A session's shell started it: it decides as little of what that session asks.
        assert bool(told.is_error) is is_taken
        assert (await at.house.engine.question(question.id)).state == "open"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await at.aclose()


async def test_a_cli_named_by_its_conversation_decides_as_little(
    desk: OpenMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await desk("Hello.", TOUCH, "Made.")
    async with whole.client() as model:
        session_id = await model.start(waitSeconds=50)
        for message in ("/clear", "again"):
            await model.call("claude_say", sessionId=session_id, message=message, waitSeconds=50)
    conversation = whole.house.engine.sessions[session_id].view.claude_session_id
    assert conversation not in (None, session_id)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", conversation)
    at = McpHarness(whole.house)
    async with at.client() as model:
        asked = await model.status(session_id)
        refused = await model.refused(
            "claude_respond",
            sessionId=conversation,
            id=asked["pendingQuestion"]["id"],
            answers=["allow"],
        )
    assert "not its own to decide" in refused
    await at.aclose()


@pytest.mark.parametrize("error", [RuntimeError("oh"), ExceptionGroup("oh", [OSError("no")])])
async def test_a_permission_that_cannot_be_checked_is_a_no(
    desk: OpenMcp, era: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await desk("One.")

    async def fail(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(permission, "check", fail)
    async with at.client(era, name="claude-code") as cli:
        told = await cli.client.call_tool("permission_check", ASKS)
    assert json.loads(text_of(told))["behavior"] == "deny"
    assert not told.is_error


async def test_a_permission_for_what_no_json_has_is_a_no(desk: OpenMcp, era: str) -> None:
    at = await desk("One.")
    asks = {**ASKS, "input": {"command": "echo \ud800"}}
    async with asyncio.timeout(SOON), at.client(era, name="claude-code") as cli:
        told = await cli.client.call_tool("permission_check", asks)
    assert json.loads(text_of(told))["behavior"] == "deny"


async def test_over_http_nobody_is_told_of_the_permission_tool(desk: OpenMcp, era: str) -> None:
    whole = await desk("One.")
    at = McpHarness(whole.house, default_cwd=None)
    async with at.client(era, name="claude-code") as cli:
        names = [each.name for each in (await cli.client.list_tools()).tools]
    assert (len(names), "permission_check" in names) == (7, False)
    await at.aclose()


async def opened(at: McpHarness, *, foreign: bool = True) -> Question:
    """The question of a session that nobody here has started."""
    async with asyncio.timeout(SOON), aclosing(at.house.engine.watch(0)) as batches:
        async for _ in batches:
            for each in await at.house.engine.questions(state="open"):
                if each.foreign == foreign:
                    return each
    raise AssertionError("the events ended")
