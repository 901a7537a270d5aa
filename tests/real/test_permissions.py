"""Permissions: every answer there is, what the CLI makes of it, and what nobody answers."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pilothouse import (
    Allow,
    ApprovePlan,
    BypassNotAllowed,
    Choose,
    Deny,
    Hooks,
    RejectPlan,
    SessionEnded,
    Skip,
    ToolRequest,
    ToolServer,
    WithUpdates,
    ask_user,
    tool,
)
from pilothouse.client.permissions import DENIED
from pilothouse.protocol import (
    AddRules,
    HookAllow,
    PermissionRequestHookInput,
    PermissionRequestHookOutput,
    PermissionRule,
    SetMode,
    UnknownUpdate,
)
from pilothouse_sim.scenario import reply
from pilothouse_sim.scenario import tool as call
from tests.support.real.desk import Desk, OpenDesk, conversation
from tests.support.real.handlers import Handler, bash, results
from tests.support.versions import NEWEST, Since, can, newest
from tests.support.waiting import DEADLINE

TOUCH = bash("touch made")
LIST = bash("python3 -c 'import os; print(os.listdir())'")


def settings_files(it: Desk) -> dict[Path, str]:
    """Everything a CLI could have remembered a rule in."""
    found = [*it.cwd.rglob("settings*.json"), *it.home.rglob("settings*.json")]
    return {path: path.read_text() for path in found}


def project_record(it: Desk) -> dict[str, Any]:
    known = json.loads((it.home / ".claude/.claude.json").read_text())
    return known.get("projects", {}).get(str(it.cwd), {})


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_an_allowed_tool_runs_and_its_request_tells_what_it_would_do(desk: OpenDesk) -> None:
    # B1, B2
    it = await desk(reply(TOUCH), reply("Made."))
    handler = Handler(Allow())
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    [request] = handler.requests
    assert isinstance(request, ToolRequest)
    assert (request.tool_name, request.input) == ("Bash", TOUCH.input)
    assert request.tool_use_id == "toolu_scripted_0001"
    assert request.agent_id is None
    assert request.suggestions
    assert (turn.outcome, turn.text) == ("finished", "Made.")
    assert (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_a_tool_runs_with_the_input_it_was_allowed_with(desk: OpenDesk) -> None:
    # B2
    it = await desk(reply(TOUCH), reply("Made."))
    edit = Handler(lambda asked: Allow(input={**asked.input, "command": "touch edited"}))
    client = await it.client(on_permission=edit)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert (it.cwd / "edited").exists()
    assert not (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_the_model_reads_why_a_tool_was_denied_and_goes_on(desk: OpenDesk) -> None:
    # B3
    it = await desk(reply(TOUCH), reply("Then not."))
    client = await it.client(on_permission=Handler(Deny("Not on a Sunday.")))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert "Not on a Sunday." in results(it)[0]
    assert (turn.outcome, turn.text) == ("finished", "Then not.")
    assert turn.result is not None
    assert [each.tool_name for each in turn.result.permission_denials] == ["Bash"]
    assert not (it.cwd / "made").exists()


async def test_a_denial_without_a_reason_is_a_denial_still(desk: OpenDesk) -> None:
    # B3
    it = await desk(reply(TOUCH), reply("Then not."))
    client = await it.client(on_permission=Handler(Deny(" ")))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert DENIED in results(it)[0]
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_what_is_remembered_is_not_asked_again_and_leaves_no_trace_on_disk(
    desk: OpenDesk,
) -> None:
    # B8, B9
    it = await desk(
        reply(TOUCH), reply(TOUCH), reply(bash("mkdir other")), reply("All of them."), reply("Yes.")
    )
    handler = Handler(Allow(always=True), Deny("Not that one."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
        await client.ask("sure?")
    asked = [request.input["command"] for request in handler.requests]
    assert asked == ["touch made", "mkdir other"]
    assert (it.cwd / "made").exists()
    assert not (it.cwd / "other").exists()
    assert settings_files(it) == {}
    assert not project_record(it).get("allowedTools")


@pytest.mark.versions(NEWEST, "2.1.119", "2.1.37")
async def test_a_file_elsewhere_that_is_remembered_opens_its_directory(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B41
    dock = tmp_path / "dock"
    dock.mkdir()
    writes = [call("Write", file_path=str(dock / name), content="noted") for name in "ab"]
    it = await desk(*(reply(write) for write in writes), reply("Both."))
    handler = Handler(Allow(always=True), Deny("Not that one."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("note it")
    assert [request.input["file_path"] for request in handler.requests] == [str(dock / "a")]
    assert (dock / "b").read_text() == "noted"
    assert settings_files(it) == {}


async def test_a_command_elsewhere_that_is_remembered_opens_its_directory(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B41
    dock = tmp_path / "dock"
    dock.mkdir()
    touch = bash(f"touch {dock}/made")
    it = await desk(reply(touch), reply(touch), reply("Both."))
    handler = Handler(Allow(always=True), Deny("Not again."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert len(handler.requests) == 1


async def test_a_command_allowed_with_changes_is_remembered_as_changed(desk: OpenDesk) -> None:
    it = await desk(reply(TOUCH), reply(bash("touch edited")), reply(TOUCH), reply("Both."))
    edited = Allow(input={"command": "touch edited"}, always=True)
    handler = Handler(edited, Deny("Not that one."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
    asked = [request.input["command"] for request in handler.requests]
    assert asked == ["touch made", "touch made"]
    assert (it.cwd / "edited").exists()
    assert not (it.cwd / "made").exists()


async def test_a_hook_can_have_a_person_asked_about_what_is_remembered(desk: OpenDesk) -> None:
    # H3: older CLIs do not ask where a rule allows the tool.
    it = await desk(reply(LIST), reply(LIST), reply("Twice."))
    hooks = Hooks()

    @hooks.on("PreToolUse", matcher="Bash")
    async def check(event: Any) -> Any:
        return ask_user("Sure?")

    handler = Handler(Allow(always=True))
    client = await it.client(on_permission=handler, hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
    assert len(handler.requests) == (2 if can(it.version, Since.ASKS_IN_SPITE_OF_RULES) else 1)


async def test_what_is_remembered_for_the_project_is_written_to_its_settings(
    desk: OpenDesk,
) -> None:
    # B9
    it = await desk(reply(LIST), reply("Listed."))
    client = await it.client(on_permission=Handler(Allow(always="localSettings")))
    async with asyncio.timeout(DEADLINE):
        await client.ask("list it")
    written = json.loads((it.cwd / ".claude/settings.local.json").read_text())
    assert any("os.listdir" in rule for rule in written["permissions"]["allow"])


async def test_a_rule_of_ones_own_is_taken_with_the_answer(desk: OpenDesk) -> None:
    # B8
    it = await desk(reply(TOUCH), reply(bash("python3 -c 'print(6*7)'")), reply("Both."))
    rule = AddRules(rules=[PermissionRule(tool_name="Bash", rule_content="python3:*")])
    handler = Handler(WithUpdates(Allow(), updates=[rule]))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
    assert len(handler.requests) == 1
    assert results(it)[1] == "42"


async def test_a_rule_for_a_command_that_writes_holds_on_newer_clis_only(
    desk: OpenDesk,
) -> None:
    # B34
    it = await desk(reply(TOUCH), reply(bash("touch other")), reply("Both."))
    rule = AddRules(rules=[PermissionRule(tool_name="Bash", rule_content="touch:*")])
    handler = Handler(WithUpdates(Allow(), updates=[rule]))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
    suggested = [type(each) for each in handler.requests[0].suggestions]
    assert (AddRules in suggested) == can(it.version, Since.HONOURS_WRITING_RULES)
    assert len(handler.requests) == (1 if can(it.version, Since.HONOURS_WRITING_RULES) else 2)


async def test_an_answer_can_switch_the_mode_in_the_same_moment(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B10
    note = tmp_path / "project/note.txt"
    write = call("Write", file_path=str(note), content="noted")
    it = await desk(reply(TOUCH), reply(write), reply("Both."))
    handler = Handler(WithUpdates(Allow(), mode="acceptEdits"))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make them")
    assert [request.tool_name for request in handler.requests] == ["Bash"]
    assert note.read_text() == "noted"


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_two_requests_open_at_once_are_answered_in_any_order(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B11
    port, starboard = tmp_path / "port.txt", tmp_path / "starboard.txt"
    port.write_text("the port side")
    starboard.write_text("the starboard side")
    reads = [call("Read", file_path=str(path)) for path in (port, starboard)]
    it = await desk(reply(*reads), reply("One of them."))
    order: list[str] = []
    later_one_answered = asyncio.Event()

    async def later_one_first(request: ToolRequest) -> Allow | Deny:
        if request.input["file_path"] == str(port):
            await later_one_answered.wait()
            order.append("port")
            return Deny("Port is closed.")
        order.append("starboard")
        later_one_answered.set()
        return Allow()

    client = await it.client(on_permission=later_one_first)
    async with asyncio.timeout(DEADLINE):
        await client.ask("read them")
    assert order == ["starboard", "port"]
    told = results(it)
    assert "Port is closed." in told[0]
    assert "the starboard side" in told[1]


async def test_a_handler_that_raises_denies_and_says_why(desk: OpenDesk) -> None:
    # B5
    it = await desk(reply(TOUCH), reply("Then not."))
    client = await it.client(on_permission=Handler(KeyError("no such rule")))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert "KeyError: 'no such rule'" in results(it)[0]
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


async def test_a_handler_that_gave_up_denies(desk: OpenDesk) -> None:
    it = await desk(reply(TOUCH), reply("Then not."))
    client = await it.client(on_permission=Handler(asyncio.CancelledError()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert "CancelledError" in results(it)[0]
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


async def test_what_is_no_answer_to_a_tool_denies_it(desk: OpenDesk) -> None:
    # B3, B7
    wrong = [None, "yes", True, Skip(), Choose({}), ApprovePlan(), RejectPlan()]
    unwritable = Allow(input={"command": "touch made", "why": object()})
    it = await desk(*[reply(TOUCH) for _ in (*wrong, unwritable)], reply("Then not."))
    client = await it.client(on_permission=Handler(*wrong, unwritable, Allow()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    told = results(it)
    for answer, text in zip(wrong, told, strict=False):
        assert f"{type(answer).__name__} is no answer to Bash" in text
    assert "object" in told[-1]
    assert len(told) == len(wrong) + 1
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


async def test_without_any_handler_the_cli_denies_by_itself(desk: OpenDesk) -> None:
    # B16
    it = await desk(reply(TOUCH), reply("Then not."))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert turn.outcome == "finished"
    assert turn.result is not None
    assert [each.tool_name for each in turn.result.permission_denials] == ["Bash"]
    offered = conversation(it)[0].tools
    assert "Bash" in offered
    assert ("AskUserQuestion" not in offered) == can(it.version, Since.OFFERS_WHAT_IS_ANSWERED)
    assert not (it.cwd / "made").exists()


async def test_a_tool_is_denied_where_only_questions_have_a_handler(desk: OpenDesk) -> None:
    it = await desk(reply(TOUCH), reply("Then not."))
    handler = Handler(Skip())
    client = await it.client(on_question=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "Nobody here answers for Bash." in results(it)[0]
    assert handler.requests == []
    assert not (it.cwd / "made").exists()


async def test_in_dont_ask_mode_the_cli_denies_without_asking(desk: OpenDesk) -> None:
    # B18
    it = await desk(reply(TOUCH), reply("Then not."))
    handler = Handler(Allow())
    client = await it.client(on_permission=handler, permission_mode="dontAsk")
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert handler.requests == []
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


async def test_a_mode_set_while_idle_holds_for_the_next_turn(desk: OpenDesk) -> None:
    # B17, C6
    it = await desk(reply(TOUCH), reply("Made."))
    handler = Handler(Allow())
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        assert (await client.set_permission_mode("dontAsk")).mode == "dontAsk"
        await client.ask("make it")
    assert handler.requests == []
    assert not (it.cwd / "made").exists()


async def test_a_command_that_only_reads_is_not_asked_about(desk: OpenDesk) -> None:
    # B20
    it = await desk(reply(bash("ls")), reply("Seen."))
    (it.cwd / "seen.txt").write_text("")
    handler = Handler(Deny())
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("look")
    assert handler.requests == []
    assert "seen.txt" in results(it)[0]


# A tool that answers instead


@tool
async def check(tool_name: str, input: dict[str, Any], tool_use_id: str) -> str:
    """Decide whether a tool may run."""
    if "other" in input["command"]:
        return json.dumps({"behavior": "deny", "message": f"{tool_name} {tool_use_id}: no."})
    return json.dumps({"behavior": "allow", "updatedInput": input})


async def test_an_in_process_tool_can_answer_for_a_handler(desk: OpenDesk) -> None:
    # B32
    it = await desk(reply(TOUCH), reply(bash("mkdir other")), reply("One of them."))
    servers = {"door": ToolServer([check], name="door")}
    options = {"mcp_servers": servers, "permission_prompt_tool": "mcp__door__check"}
    async with asyncio.timeout(DEADLINE):
        if not can(it.version, Since.AWAITS_PROMPT_TOOL):
            # It wants the tool to be there before the first prompt, when no server is connected.
            with pytest.raises(SessionEnded, match="mcp__door__check"):
                await (await it.client(**options)).ask("make them")
            return
        client = await it.client(**options)
        await client.ask("make them")
    assert "Bash toolu_scripted_0002: no." in results(it)[1]
    assert (it.cwd / "made").exists()
    assert not (it.cwd / "other").exists()


# The gate to bypassPermissions

BYPASS = "bypassPermissions"
TO_BYPASS = SetMode(mode=BYPASS)


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_no_control_request_sets_bypass_mode_unless_it_was_opened(desk: OpenDesk) -> None:
    # B19: 2.1.37 would do it at a word.
    it = await desk(reply(TOUCH), reply("Then not."))
    handler = Handler(Deny("No."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(BypassNotAllowed):
            await client.set_permission_mode(BYPASS)
        with pytest.raises(BypassNotAllowed):
            await client.control("set_permission_mode", mode=BYPASS)
        with pytest.raises(BypassNotAllowed):
            await client.apply_settings({"permissions": {"defaultMode": BYPASS}})
        await client.ask("make it")
    assert len(handler.requests) == 1
    assert not (it.cwd / "made").exists()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(WithUpdates(Allow(), mode=BYPASS), id="mode"),
        pytest.param(WithUpdates(Allow(), updates=[TO_BYPASS]), id="update"),
        pytest.param(
            WithUpdates(Allow(), updates=[UnknownUpdate({"type": "x", "mode": BYPASS})]),
            id="unknown",
        ),
    ],
)
@pytest.mark.versions(NEWEST, "2.1.119")
async def test_no_answer_sets_bypass_mode_unless_it_was_opened(
    desk: OpenDesk, answer: Allow
) -> None:
    # B10, B19
    it = await desk(reply(TOUCH), reply(bash("mkdir other")), reply("Then not."))
    handler = Handler(answer, Deny("No."))
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "allow_bypass" in results(it)[0]
    assert len(handler.requests) == 2
    assert not (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_no_hook_sets_bypass_mode_unless_it_was_opened(desk: OpenDesk) -> None:
    # B19, H5
    it = await desk(reply(TOUCH), reply(bash("mkdir other")), reply("Then not."))
    hooks, asked = Hooks(), list[str]()

    @hooks.on("PermissionRequest")
    async def decide(event: PermissionRequestHookInput) -> PermissionRequestHookOutput | None:
        if event.tool_input["command"] != "touch made":
            return None
        return PermissionRequestHookOutput(decision=HookAllow(updated_permissions=[TO_BYPASS]))

    async def leave_the_first_to_the_hook(request: ToolRequest) -> Deny:
        asked.append(request.input["command"])
        if request.input["command"] == "touch made":
            await asyncio.Event().wait()
        return Deny("No.")

    client = await it.client(on_permission=leave_the_first_to_the_hook, hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "allow_bypass" in results(it)[0]
    assert asked[-1] == "mkdir other"
    assert not (it.cwd / "made").exists()
    assert not (it.cwd / "other").exists()


@newest
@pytest.mark.parametrize(
    "options",
    [
        {"permission_mode": BYPASS},
        {"settings": {"permissions": {"defaultMode": BYPASS}}},
        {"settings": '{"permissions": {"defaultMode": "bypassPermissions"}}'},
        {"managed_settings": {"permissions": {"defaultMode": BYPASS}}},
        {"agents": {"a": {"description": "d", "prompt": "p", "permissionMode": BYPASS}}},
        {"extra_args": {"permission-mode": BYPASS}},
        {"extra_args": {"permission-mode=bypassPermissions": None}},
        {"extra_args": {"dangerously-skip-permissions": None}},
        {"extra_args": {"--allow-dangerously-skip-permissions": None}},
        {"extra_args": {"settings": '{"permissions": {"defaultMode": "bypassPermissions"}}'}},
    ],
    ids=str,
)
async def test_no_option_starts_in_bypass_mode_unless_it_was_opened(
    desk: OpenDesk, options: dict[str, Any]
) -> None:
    # B19
    it = await desk()
    with pytest.raises(BypassNotAllowed):
        await it.client(**options)


async def test_bypass_mode_works_where_it_was_opened(desk: OpenDesk) -> None:
    # B19. The CLI lets root do so in what is declared to be a sandbox, as this is.
    it = await desk(reply(TOUCH), reply("Made."), reply(bash("mkdir other")), reply("Made too."))
    handler = Handler(Allow(), Deny())
    client = await it.client(on_permission=handler, allow_bypass=True, env={"IS_SANDBOX": "1"})
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
        assert len(handler.requests) == 1
        assert (await client.set_permission_mode(BYPASS)).mode == BYPASS
        await client.ask("make the other")
    assert len(handler.requests) == 1
    assert (it.cwd / "other").exists()


async def test_root_may_not_open_bypass_mode_outside_of_a_sandbox(desk: OpenDesk) -> None:
    # B33
    it = await desk(reply("Hello."))
    async with asyncio.timeout(DEADLINE):
        if os.geteuid() != 0:
            client = await it.client(allow_bypass=True)
            assert (await client.ask("hi")).text == "Hello."
            return
        with pytest.raises(SessionEnded, match="root") as refused:
            await it.client(allow_bypass=True)
    assert refused.value.exit_code == 1
