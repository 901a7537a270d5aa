"""Hooks of the simulator: which are meant, what they may decide, commands that are hooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import reply, tool
from pilothouse_sim.simulator.hooks.outputs import Fired, Heard
from pilothouse_sim.simulator.hooks.table import HookTable, matches
from tests.support.sim.client import Message, sim_client

TOUCH = tool("Bash", command="touch made", description="Make it")
LS = tool("Bash", command="ls", description="Look")


def on(*events: str, **more: Any) -> dict[str, Any]:
    return {event: [{"hookCallbackIds": [event], **more}] for event in events}


def said(**outputs: Any) -> Callable[[Message], Any]:
    return lambda request: outputs.get(request["callback_id"], {})


def before(decision: str, **more: Any) -> Message:
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return {"hookSpecificOutput": output}


def deny(_: Message) -> Message:
    return {"behavior": "deny", "message": "No."}


def commands(**hooks: str) -> str:
    table = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in hooks.items()
    }
    return f"--settings={json.dumps({'hooks': table})}"


# Which are meant


@pytest.mark.parametrize(
    ("matcher", "is_meant"),
    [
        ("", True),
        ("*", True),
        ("Bash", True),
        ("Bash|Write", True),
        ("Write, Bash", True),
        ("B.*", True),
        ("^Ba", True),
        ("Bas", False),
        ("bash", False),
        ("Read", False),
        ("Bash(", False),
    ],
)
def test_a_matcher_is_a_list_of_names_or_a_pattern(matcher: str, is_meant: bool) -> None:
    # H2
    assert matches(matcher, "Bash") == is_meant


def test_registering_again_replaces_callbacks_and_leaves_commands() -> None:
    command = {"hooks": [{"type": "command", "command": "true"}, {"type": "prompt"}]}
    table = HookTable({"Stop": [command]})
    table.register({"Stop": [{"hookCallbackIds": ["first"]}]})
    assert len(table.find("Stop", None)) == 2
    table.register({})
    assert len(table.find("Stop", None)) == 1


def test_the_strictest_word_counts() -> None:
    heard = [Heard(output=before("allow")), Heard(output=before("deny")), Heard()]
    ruling = Fired(heard).ruling
    assert ruling is not None
    assert ruling.behavior == "deny"


# What they may decide


async def test_a_hook_lets_a_tool_run_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H3
    answers = {"hook_callback": said(PreToolUse=before("allow"))}
    scene = reply(TOUCH), reply("Made.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        await client.ask("Make it.")
    assert client.requests("can_use_tool") == []
    assert (tmp_path / "project" / "made").exists()


async def test_a_hook_denies_a_tool_and_the_model_reads_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H3
    decision = before("deny", permissionDecisionReason="Not on a Sunday.")
    answers = {"hook_callback": said(PreToolUse=decision)}
    scene = reply(TOUCH), reply("Not made.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        result = await client.ask("Make it.")
    assert client.results() == ["PreToolUse:Bash hook error: Not on a Sunday."]
    assert len(result["permission_denials"]) == 1
    assert not (tmp_path / "project" / "made").exists()


async def test_a_hook_has_the_user_asked_about_what_is_always_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H3
    decision = before("ask", permissionDecisionReason="Really look?")
    answers = {"hook_callback": said(PreToolUse=decision), "can_use_tool": deny}
    async with sim_client(
        tmp_path, monkeypatch, reply(LS), reply("No."), answers=answers
    ) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        await client.ask("Look.")
    [asked] = client.requests("can_use_tool")
    assert (asked["decision_reason"], asked["decision_reason_type"]) == ("Really look?", "hook")


async def test_a_hook_that_does_not_answer_in_time_keeps_the_tool_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H4
    scene = reply(TOUCH), reply("Not made.")
    async with sim_client(tmp_path, monkeypatch, *scene) as client:
        await client.control("initialize", hooks=on("PreToolUse", timeout=0.05))
        await client.ask("Make it.")
    assert "control_cancel_request" in client.kinds()
    assert client.results()[0].startswith("PreToolUse hook did not respond before its timeout")
    assert not (tmp_path / "project" / "made").exists()


async def test_a_hook_that_fails_is_told_of_and_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H4
    answers = {"hook_callback": lambda _: OSError("It broke."), "can_use_tool": deny}
    scene = reply(TOUCH), reply("Not made.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        await client.ask("Make it.")
    assert len(client.requests("can_use_tool")) == 1
    tags = [line.get("tag") for line in client.lines if line.get("subtype") == "informational"]
    assert tags == ["hook_callback_failed"]


async def test_a_deferred_call_ends_the_turn_and_is_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"hook_callback": said(PreToolUse=before("defer"))}
    scene = reply(TOUCH), reply("Not reached.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        result = await client.ask("Make it.")
    assert result["terminal_reason"] == "tool_deferred"
    assert result["deferred_tool_use"]["name"] == "Bash"
    assert client.results() == []


async def test_the_hook_and_the_user_are_asked_at_once_and_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H5
    output = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    answers = {"hook_callback": said(PermissionRequest={"hookSpecificOutput": output})}
    scene = reply(TOUCH), reply("Made.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PermissionRequest"))
        await client.ask("Make it.")
    assert len(client.requests("can_use_tool")) == 1
    assert "control_cancel_request" in client.kinds()
    assert (tmp_path / "project" / "made").exists()


async def test_a_prompt_that_a_hook_blocks_never_reaches_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H6
    answers = {"hook_callback": said(UserPromptSubmit={"decision": "block", "reason": "No."})}
    async with sim_client(tmp_path, monkeypatch, reply("Hello."), answers=answers) as client:
        await client.control("initialize", hooks=on("UserPromptSubmit"))
        result = await client.ask("Say hello.")
    words = "UserPromptSubmit operation blocked by hook:\nNo.\n\nOriginal prompt: Say hello."
    assert (result["result"], result["num_turns"]) == (words, 0)
    assert "assistant" not in client.kinds()


async def test_a_stop_hook_sends_the_model_back_to_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H6
    def once(request: Message) -> Message:
        again = request["input"]["stop_hook_active"]
        return {} if again else {"decision": "block", "reason": "Look again."}

    scene = reply("First."), reply("Second.")
    answers = {"hook_callback": once}
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("Stop"))
        result = await client.ask("Go.")
    assert result["result"] == "Second."
    assert "system/notification" in client.kinds()
    assert client.hooks() == ["Stop", "Stop"]


async def test_a_hook_ends_the_turn_after_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"hook_callback": said(PostToolUse={"continue": False})}
    scene = reply("Looking.", LS), reply("Not reached.")
    async with sim_client(tmp_path, monkeypatch, *scene, answers=answers) as client:
        await client.control("initialize", hooks=on("PostToolUse", "PostToolBatch", "Stop"))
        result = await client.ask("Look.")
    assert (result["terminal_reason"], result["result"]) == ("hook_stopped", "")
    assert client.hooks() == ["PostToolUse"]


async def test_an_interrupt_withdraws_the_hook_that_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # B14
    async with sim_client(tmp_path, monkeypatch, reply(TOUCH)) as client:
        await client.control("initialize", hooks=on("PreToolUse"))
        asking = asyncio.create_task(client.ask("Make it."))
        await client.until(lambda _: client.hooks() == ["PreToolUse"])
        await client.control("interrupt")
        result = await asking
    assert "control_cancel_request" in client.kinds()
    assert result["terminal_reason"] == "aborted_tools"


# Commands


async def test_a_command_is_told_on_stdin_and_objects_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "cat > told.json; echo 'Not here.' >&2; exit 2"
    flags = (commands(PreToolUse=command), "--include-hook-events")
    scene = reply(TOUCH), reply("Not made.")
    async with sim_client(tmp_path, monkeypatch, *scene, flags=flags) as client:
        await client.ask("Make it.")
    told = json.loads((tmp_path / "project" / "told.json").read_text())
    assert (told["hook_event_name"], told["tool_name"]) == ("PreToolUse", "Bash")
    assert client.results() == [f"PreToolUse:Bash hook error: [{command}]: Not here.\n"]
    shown = [line for line in client.lines if line.get("subtype") == "hook_response"]
    assert [(line["exit_code"], line["outcome"]) for line in shown] == [(2, "error")]


async def test_a_command_decides_with_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = (commands(PreToolUse=f"echo '{json.dumps(before('allow'))}'"),)
    scene = reply(TOUCH), reply("Made.")
    async with sim_client(tmp_path, monkeypatch, *scene, flags=flags) as client:
        await client.ask("Make it.")
    assert client.requests("can_use_tool") == []
    assert (tmp_path / "project" / "made").exists()


async def test_commands_at_the_start_and_the_end_of_a_session_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = (commands(SessionStart="echo begun", SessionEnd="touch ended"),)
    async with sim_client(tmp_path, monkeypatch, reply("Hello."), flags=flags) as client:
        await client.ask("Say hello.")
    assert client.kinds()[:2] == ["system/hook_started", "system/hook_response"]
    assert (tmp_path / "project" / "ended").exists()
