"""Control requests of a client to real CLIs: each typed method, what older CLIs lack, refusals.

`CALLS` has one call for every method of `Controls`, and `ANSWERED_SINCE` says which CLI is the
first to answer it; a new method without a row there fails here.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import convert

from pilothouse import (
    Client,
    ControlError,
    ControlTimeout,
    InitMessage,
    ResultMessage,
    StreamEvent,
    ToolServer,
    Unsupported,
)
from pilothouse import (
    tool as in_process_tool,
)
from pilothouse.client.controls import Controls
from pilothouse.client.versions import ANSWERED_BY_ALL, Features, Version, parse_version
from pilothouse.protocol import (
    CommandLifecycleMessage,
    ControlRequest,
    ForkConversation,
    Initialize,
    McpMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
)
from pilothouse.protocol.host_requests import CLIENT_REQUESTS
from pilothouse_sim.scenario import Branch, ModelRequest, Reply, When, computed, gate, reply, tool
from tests.support.places import PROGRAMS
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.turns import HeldCommand, allow, next_of, unread
from tests.support.versions import EVERY, NEWEST, Since, before, can, since
from tests.support.waiting import DEADLINE

NOBODY = "00000000-0000-4000-8000-000000000000"
PARROT = {
    "type": "stdio",
    "command": sys.executable,
    "args": [str(PROGRAMS / "parrot.py")],
}

Call = Callable[[Client], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "apply_settings": lambda it: it.apply_settings({}),
    "background_tasks": lambda it: it.background_tasks(),
    "binary_version": lambda it: it.binary_version(),
    "cancel_prompt": lambda it: it.cancel_prompt(NOBODY),
    "channel_enable": lambda it: it.channel_enable("parrot"),
    "chrome_browsers": lambda it: it.chrome_browsers(),
    "chrome_dialog": lambda it: it.chrome_dialog(),
    "context_usage": lambda it: it.context_usage(),
    "control": lambda it: it.control("no_such_control"),
    "export_conversation": lambda it: it.export_conversation(),
    "file_suggestions": lambda it: it.file_suggestions("a"),
    "generate_session_title": lambda it: it.generate_session_title("a bug"),
    "hooks_listing": lambda it: it.hooks_listing(),
    "interrupt": lambda it: it.interrupt(),
    "mcp_authenticate": lambda it: it.mcp_authenticate("parrot"),
    "mcp_call": lambda it: it.mcp_call("mcp__parrot__shout", {"words": "hi"}),
    "mcp_clear_auth": lambda it: it.mcp_clear_auth("parrot"),
    "mcp_message": lambda it: it.mcp_message("nobody", {"jsonrpc": "2.0", "method": "x"}),
    "mcp_oauth_callback_url": lambda it: it.mcp_oauth_callback_url("parrot", "http://127.0.0.1/"),
    "mcp_read_resource": lambda it: it.mcp_read_resource("parrot", "ui://feather"),
    "mcp_reconnect": lambda it: it.mcp_reconnect("parrot"),
    "mcp_set_servers": lambda it: it.mcp_set_servers({}),
    "mcp_status": lambda it: it.mcp_status(),
    "mcp_toggle": lambda it: it.mcp_toggle("parrot", enabled=True),
    "memory_dialog": lambda it: it.memory_dialog(),
    "models": lambda it: it.models(),
    "pause_prompt_suggestions": lambda it: it.pause_prompt_suggestions(paused=True),
    "permission_rules": lambda it: it.permission_rules(),
    "plan": lambda it: it.plan(),
    "rate_message": lambda it: it.rate_message(NOBODY, "positive"),
    "read_file": lambda it: it.read_file("notes.txt"),
    "register_repo_root": lambda it: it.register_repo_root(str(it.options.cwd)),
    "reload_output_styles": lambda it: it.reload_output_styles(),
    "reload_plugins": lambda it: it.reload_plugins(),
    "reload_skills": lambda it: it.reload_skills(),
    "rename_session": lambda it: it.rename_session("a title"),
    "rewind_files": lambda it: it.rewind_files(NOBODY, dry_run=True),
    "sandbox_dialog": lambda it: it.sandbox_dialog(),
    "seed_read_state": lambda it: it.seed_read_state("notes.txt", 1.0),
    "select_chrome_browser": lambda it: it.select_chrome_browser("nobody"),
    "session_cost": lambda it: it.session_cost(),
    "set_cwd": lambda it: it.set_cwd(str(it.options.cwd)),
    "set_has_subscribers": lambda it: it.set_has_subscribers(True),
    "set_max_thinking_tokens": lambda it: it.set_max_thinking_tokens(1000),
    "set_mcp_permission_mode": lambda it: it.set_mcp_permission_mode("parrot", None),
    "set_model": lambda it: it.set_model("haiku"),
    "set_permission_mode": lambda it: it.set_permission_mode("plan"),
    "settings": lambda it: it.settings(),
    "side_question": lambda it: it.side_question("why?"),
    "skills_dialog": lambda it: it.skills_dialog(),
    "status": lambda it: it.status(),
    "stop_task": lambda it: it.stop_task("nobody"),
    "task_output": lambda it: it.task_output("nobody"),
    "update_settings": lambda it: it.update_settings("userSettings", {}),
    "usage": lambda it: it.usage(),
    "workspace_diff": lambda it: it.workspace_diff(),
    # The last: it ends the session.
    "end_session": lambda it: it.end_session(),
}

ANSWERED_SINCE = {
    "2.1.37": {
        "interrupt",
        "mcp_message",
        "mcp_reconnect",
        "mcp_set_servers",
        "mcp_status",
        "mcp_toggle",
        "rewind_files",
        "set_max_thinking_tokens",
        "set_model",
        "set_permission_mode",
    },
    "2.1.59": {
        "apply_settings",
        "mcp_authenticate",
        "mcp_clear_auth",
        "stop_task",
    },
    "2.1.92": {
        "cancel_prompt",
        "channel_enable",
        "context_usage",
        "end_session",
        "generate_session_title",
        "mcp_oauth_callback_url",
        "reload_plugins",
        "seed_read_state",
        "settings",
        "side_question",
    },
    "2.1.119": {
        "binary_version",
        "mcp_call",
        "rate_message",
        "read_file",
        "session_cost",
    },
    "2.1.139": {
        "background_tasks",
        "file_suggestions",
    },
    "2.1.176": {
        "register_repo_root",
        "reload_skills",
        "rename_session",
        "usage",
    },
    "2.1.235": {
        "models",
        "plan",
        "set_cwd",
        "set_mcp_permission_mode",
        "workspace_diff",
    },
    "2.1.325": {
        "chrome_browsers",
        "chrome_dialog",
        "export_conversation",
        "hooks_listing",
        "mcp_read_resource",
        "memory_dialog",
        "pause_prompt_suggestions",
        "permission_rules",
        "reload_output_styles",
        "sandbox_dialog",
        "select_chrome_browser",
        "set_has_subscribers",
        "skills_dialog",
        "status",
        "task_output",
        "update_settings",
    },
}
"""The methods, under the first CLI of those that were tried which answers them."""


def answered_by(version: str) -> set[str]:
    """The methods that the CLI of this version answers."""
    return {
        name
        for first, names in ANSWERED_SINCE.items()
        if numbers(first) <= numbers(version)
        for name in names
    }


def numbers(version: str) -> Version:
    parsed = parse_version(version)
    assert parsed is not None
    return parsed


def answering(*names: str) -> pytest.MarkDecorator:
    """Run a test on the CLIs that answer these methods."""
    able = [version for version in EVERY if answered_by(version).issuperset(names)]
    return pytest.mark.parametrize("version", able, indirect=True)


LOGIN = "a login to the account: for the person at a terminal, with `claude auth login`"
SERVICE = "does nothing without the real service, so no test can show what it does"
WITHOUT_METHOD = {
    "claim_session": "accepted only by a CLI started with --await-claim, as a spare",
    "claude_authenticate": LOGIN,
    "claude_oauth_callback": LOGIN,
    "claude_oauth_wait_for_completion": LOGIN,
    "fork_conversation": "refused unless the session is remotely controlled",
    "initialize": "the client sends it when it connects",
    "remote_control": SERVICE,
    "set_chrome_browser_hints": "accepted only in a session hosted remotely",
    "set_color": "not known over stdio",
    "submit_feedback": SERVICE,
    "submit_survey_feedback": SERVICE,
    "ultrareview_launch": SERVICE,
}
"""The requests that have a class and no method of `Controls`, and why."""


async def test_every_request_has_a_method_or_a_reason_to_have_none() -> None:
    sent: set[str] = set()

    class Noted(Client):
        async def request(self, request: Any, **_: Any) -> Any:
            sent.add(request.subtype)
            return convert({}, request.reply)

    client = Noted()
    for call in CALLS.values():
        await call(client)
    assert sent - {"no_such_control"} == set(CLIENT_REQUESTS) - set(WITHOUT_METHOD)
    assert set(WITHOUT_METHOD) <= set(CLIENT_REQUESTS)


def test_every_method_has_its_row() -> None:
    methods = {
        name
        for name, value in vars(Controls).items()
        if inspect.iscoroutinefunction(value) and name != "request"
    }
    assert methods == set(CALLS)
    assert [name for name in sorted(methods) if not getattr(Controls, name).__doc__] == []


async def test_a_cli_answers_what_it_knows_and_the_rest_is_unsupported(
    desk: OpenDesk, version: str
) -> None:
    # C13, C15
    it = await desk(reply("to the side"), reply('{"title": "A title"}'), reply("again"))
    client = await it.client(mcp_servers={"parrot": PARROT})
    known = {name for name, call in CALLS.items() if await _knows(client, call)}
    assert known == answered_by(version)


async def _knows(client: Client, call: Call) -> bool:
    async with asyncio.timeout(DEADLINE):
        try:
            await call(client)
        except Unsupported:
            return False
        except ControlError as error:
            # It knows the request and says what is wrong with it.
            return bool(error.message)
    return True


@before(Since.ANSWERS_UNKNOWN)
async def test_the_controls_every_cli_answers_are_answered_by_the_oldest(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    answered = {"interrupt": {}, "mcp_status": {}, "mcp_set_servers": {"servers": {}}}
    async with asyncio.timeout(DEADLINE):
        for subtype, fields in answered.items():
            assert subtype in ANSWERED_BY_ALL
            await client.control(subtype, **fields)


# Unknown, refused, unanswered


async def test_an_unknown_control_is_told_apart_from_a_refused_one(
    desk: OpenDesk, version: str
) -> None:
    # C13: the newest have a code for it, older ones only the words, the oldest no answer at all.
    it = await desk(reply("still here"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(Unsupported) as caught:
            await client.control("no_such_control")
        assert caught.value.subtype == "no_such_control"
        expected = "unsupported_request" if can(version, Since.GIVES_ERROR_CODES) else None
        assert caught.value.error_code == expected
        assert (await client.ask("hi")).text == "still here"


@before(Since.ANSWERS_UNKNOWN)
async def test_a_control_the_cli_leaves_unanswered_times_out_and_the_session_goes_on(
    desk: OpenDesk,
) -> None:
    # C13
    it = await desk(reply("still here"))
    client = await it.client(deadlines={"other_unknown": 0.2})
    client.features = Features()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ControlTimeout) as caught:
            await client.control("no_such_control", deadline=0.2)
        assert (caught.value.subtype, caught.value.seconds) == ("no_such_control", 0.2)
        with pytest.raises(ControlTimeout):
            await client.control("other_unknown")
        assert (await client.ask("hi")).text == "still here"


async def test_a_second_initialize_is_refused_by_older_clis_only(
    desk: OpenDesk, version: str
) -> None:
    # C1
    it = await desk(reply("still here"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        if can(version, Since.INITIALIZES_AGAIN):
            greeting = await client.request(Initialize())
            is_told = can(version, Since.TELLS_ITS_VERSION)
            assert greeting.claude_code_version == (version if is_told else None)
        else:
            with pytest.raises(ControlError, match="Already initialized"):
                await client.request(Initialize())
        assert (await client.ask("hi")).text == "still here"


@since(Since.REFUSES_BY_SESSION)
async def test_what_has_no_method_because_of_the_session_is_refused(desk: OpenDesk) -> None:
    it = await desk(reply("still here"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(Unsupported):
            await client.control("set_color", color="red")
        with pytest.raises(ControlError, match="--await-claim"):
            await client.control("claim_session")
        with pytest.raises(ControlError, match="remote-hosted session"):
            await client.control("set_chrome_browser_hints")
        assert (await client.ask("hi")).text == "still here"


@answering("binary_version")
async def test_control_sends_any_request_and_gives_its_answer_as_it_is(
    desk: OpenDesk, version: str
) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        answer = await client.control("get_binary_version")
    assert answer["version"] == version


# The turn


async def test_an_interrupt_says_which_prompts_are_still_queued(
    desk: OpenDesk, version: str
) -> None:
    # C9: older CLIs give an empty receipt. The queued prompt runs on every one.
    it = await desk(reply("one", gate("held"), "two"), reply("next"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("first")
        await it.model.reached("held")
        second = await client.say("second")
        receipt = await client.interrupt()
        is_told = can(version, Since.TELLS_WHAT_IS_QUEUED)
        assert receipt.still_queued == ([second.uuid] if is_told else [])
        assert (await first).outcome == "interrupted"
        assert (await second).text == "next"


@answering("side_question")
async def test_a_side_question_leaves_no_trace_in_the_conversation(desk: OpenDesk) -> None:
    it = await desk(reply("hello"), reply("because"), reply("more"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        answer = await client.side_question("why is the sky blue?")
        assert answer.response == "because"
        assert (await client.ask("go on")).text == "more"
    *_, side, last = _asked(it)
    assert "sky" in json.dumps(side.body["messages"])
    assert "sky" not in json.dumps(last.body["messages"])


# Modes and models


async def test_the_permission_mode_changes_at_once(desk: OpenDesk, version: str) -> None:
    # C6: 2.1.37 answers twice; the second answer is nobody's.
    it = await desk(reply(tool("Write", file_path="made", content="x")), reply("done"))
    asked: list[str] = []

    async def refuse(request: Any) -> Any:
        asked.append(request.tool_name)
        raise AssertionError("acceptEdits asks nobody")

    client = await it.client(on_permission=refuse)
    async with asyncio.timeout(DEADLINE):
        assert (await client.set_permission_mode("acceptEdits")).mode == "acceptEdits"
        prompt = await client.say("write it")
        init = await next_of(client, InitMessage)
        assert init.permission_mode == "acceptEdits"
        assert (await prompt).outcome == "finished"
    assert (it.cwd / "made").read_text() == "x"
    assert asked == []


async def test_a_mode_that_is_none_is_refused_by_newer_clis_only(
    desk: OpenDesk, version: str
) -> None:
    # C6
    it = await desk()
    client = await it.client()
    bogus: Any = "bogus"
    async with asyncio.timeout(DEADLINE):
        if can(version, Since.KNOWS_MODES):
            with pytest.raises(ControlError) as caught:
                await client.set_permission_mode(bogus)
            expected = "invalid_mode" if can(version, Since.GIVES_ERROR_CODES) else None
            assert caught.value.error_code == expected
            assert "must be one of" in caught.value.message
        else:
            assert (await client.set_permission_mode(bogus)).mode == "bogus"


@answering("set_mcp_permission_mode")
async def test_a_permission_mode_for_one_mcp_server_warns_of_an_unknown_one(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client(mcp_servers={"parrot": PARROT})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        assert (await client.set_mcp_permission_mode("parrot", "auto")).warning is None
        assert (await client.set_mcp_permission_mode("parrot", None)).warning is None
        warned = await client.set_mcp_permission_mode("nobody", "auto")
        assert warned.warning is not None
        assert "nobody" in warned.warning


async def test_the_model_changes_for_the_next_turn(desk: OpenDesk, version: str) -> None:
    # C7: older CLIs do not say which model the name stands for.
    it = await desk(reply("one"), reply("two"), reply("three"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("first")
        chosen = await client.set_model("haiku")
        await client.ask("second")
        await client.set_model(None)
        await client.ask("third")
    first, second, third = (request.model for request in _asked(it))
    assert "haiku" in second
    assert "haiku" not in first
    assert third == first
    assert chosen.model == (second if can(version, Since.RESOLVES_MODELS) else None)


async def test_the_thinking_budget_changes_for_the_next_turn(desk: OpenDesk) -> None:
    # C8: a model that thinks as it sees fit has no budget; this one has.
    it = await desk(reply("one"), reply("two"))
    client = await it.client(model="claude-sonnet-4-5")
    async with asyncio.timeout(DEADLINE):
        await client.set_max_thinking_tokens(5000)
        await client.ask("first")
        await client.set_max_thinking_tokens(0)
        await client.ask("second")
    first, second = (request.body.get("thinking") for request in _asked(it))
    assert first is not None
    assert (first["type"], first["budget_tokens"]) == ("enabled", 5000)
    assert second in (None, {"type": "disabled"})


@answering("models")
async def test_the_models_there_are_can_be_listed(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        models = await client.models()
    assert {"default", "haiku"} <= {model.value for model in models}
    assert all(model.display_name for model in models)


# Settings and rules


@answering("settings")
async def test_the_settings_in_force_can_be_read(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client(settings={"env": {"FLAVOUR": "salty"}})
    async with asyncio.timeout(DEADLINE):
        report = await client.settings()
    assert report.effective["env"] == {"FLAVOUR": "salty"}
    assert report.sources


@answering("apply_settings")
async def test_settings_applied_to_the_process_hold_from_the_next_turn(desk: OpenDesk) -> None:
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("first")
        await client.apply_settings({"model": "haiku"})
        await client.ask("second")
    first, second = _asked(it)
    assert "haiku" in second.model
    assert "haiku" not in first.model
    assert list(it.cwd.iterdir()) == []


@answering("update_settings")
async def test_update_settings_writes_a_file_and_only_some_keys(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.update_settings("localSettings", {"outputStyle": "Concise"})
        with pytest.raises(ControlError, match="keys not allowed: env"):
            await client.update_settings("localSettings", {"env": {"A": "b"}})
    written = json.loads((it.cwd / ".claude/settings.local.json").read_text())
    assert written == {"outputStyle": "Concise"}


@answering("permission_rules")
async def test_the_permission_rules_can_be_listed(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client(allowed_tools=["Bash(touch:*)"], disallowed_tools=["WebFetch"])
    async with asyncio.timeout(DEADLINE):
        rules = (await client.permission_rules()).state.rules
    found = {(rule.behavior, rule.rule) for rule in rules}
    assert {("allow", "Bash(touch:*)"), ("deny", "WebFetch")} <= found


@answering("hooks_listing")
async def test_the_hooks_of_the_settings_can_be_listed(desk: OpenDesk) -> None:
    it = await desk()
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
    client = await it.client(settings={"hooks": {"PreToolUse": [hook]}})
    async with asyncio.timeout(DEADLINE):
        listing = await client.hooks_listing()
    [found] = listing.hooks
    assert (found.event, found.matcher, found.type) == ("PreToolUse", "Bash", "command")


# MCP servers


async def test_the_status_of_mcp_servers_names_their_tools(desk: OpenDesk) -> None:
    # C10
    it = await desk(reply("hello"))
    client = await it.client(mcp_servers={"parrot": PARROT})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        [parrot] = (await client.mcp_status()).servers
    assert (parrot.name, parrot.status) == ("parrot", "connected")
    assert [each.name for each in parrot.tools] == ["shout"]


async def test_mcp_servers_can_be_set_while_the_session_runs(desk: OpenDesk) -> None:
    # C10
    it = await desk(reply(tool("mcp__late__shout", words="ahoy")), reply("done"))
    client = await it.client(on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        broken = {"type": "stdio", "command": "/no/such/program", "args": []}
        result = await client.mcp_set_servers({"late": PARROT, "broken": broken})
        assert sorted(result.added) == ["broken", "late"]
        assert list(result.errors) == ["broken"]
        assert (await client.ask("shout")).outcome == "finished"
        removed = await client.mcp_set_servers({})
        assert sorted(removed.removed) == ["broken", "late"]
    assert "AHOY" in _asked(it)[-1].last


async def test_newer_clis_start_no_server_that_is_set_without_arguments(
    desk: OpenDesk,
) -> None:
    # C18
    it = await desk()
    parrot = it.cwd / "parrot"
    parrot.write_text(f"#!/bin/sh\nexec {sys.executable} {PARROT['args'][0]}\n")
    parrot.chmod(0o755)
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        bare = {"type": "stdio", "command": str(parrot)}
        refused = await client.mcp_set_servers({"late": bare})
        is_refused = can(it.version, Since.WANTS_ARGUMENTS)
        assert list(refused.errors) == (["late"] if is_refused else [])
        whole = await client.mcp_set_servers({"other": {**bare, "args": []}})
        assert whole.errors == {}


async def test_an_mcp_server_can_be_turned_off_and_on_and_connected_again(desk: OpenDesk) -> None:
    # C10
    it = await desk(reply("hello"))
    client = await it.client(mcp_servers={"parrot": PARROT})

    async def status() -> str:
        [parrot] = (await client.mcp_status()).servers
        return parrot.status

    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        await client.mcp_toggle("parrot", enabled=False)
        assert await status() == "disabled"
        await client.mcp_toggle("parrot", enabled=True)
        assert await status() == "connected"
        await client.mcp_reconnect("parrot")
        assert await status() == "connected"


async def test_an_mcp_server_nobody_configured_is_not_found(desk: OpenDesk) -> None:
    # C10
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ControlError, match="Server not found: nobody"):
            await client.mcp_reconnect("nobody")
        with pytest.raises(ControlError, match="Server not found: nobody"):
            await client.mcp_toggle("nobody", enabled=True)


async def test_a_message_of_an_in_process_server_reaches_the_cli(
    desk: OpenDesk, version: str
) -> None:
    # C11, C19: told that the tools changed, newer CLIs ask for them again; older ones take it.
    it = await desk(reply("hello"), reply("again"))

    @in_process_tool
    async def wave() -> str:
        """Waves."""
        return "o/"

    server = ToolServer([wave], name="flags")
    client = await it.client(mcp_servers={"flags": server})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        await unread(client)
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await client.mcp_message("flags", notice)
        if can(version, Since.LISTS_TOOLS_AGAIN):
            while _mcp_method(await next_of(client, ControlRequest)) != "tools/list":
                pass
        again = await (await client.say("hi again"))
        asked = [event for event in await unread(client) if isinstance(event, ControlRequest)]
    assert again.text == "again"
    assert "tools/list" not in map(_mcp_method, asked)


def _mcp_method(asked: ControlRequest) -> str | None:
    request: Any = asked.request
    return request.message.get("method") if isinstance(request, McpMessage) else None


@answering("mcp_call")
async def test_a_tool_of_an_mcp_server_can_be_called_without_the_model(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client(mcp_servers={"parrot": PARROT})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        result = await client.mcp_call("mcp__parrot__shout", {"words": "land"})
    assert result.content == [{"type": "text", "text": "LAND"}]
    assert len(_asked(it)) == 1


@answering("mcp_read_resource")
async def test_a_resource_of_an_mcp_server_can_be_read(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client(mcp_servers={"parrot": PARROT})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        [part] = (await client.mcp_read_resource("parrot", "ui://feather")).contents
        assert (part.uri, part.text) == ("ui://feather", "green")
        with pytest.raises(ControlError, match="ui://"):
            await client.mcp_read_resource("parrot", "file:///etc/hostname")


@answering("mcp_authenticate", "mcp_oauth_callback_url", "mcp_clear_auth")
async def test_a_login_to_an_mcp_server_is_handed_over_and_cleared(
    desk: OpenDesk, version: str
) -> None:
    it = await desk()
    async with asyncio.timeout(DEADLINE), _guarded_server() as (url, paths):
        client = await it.client(mcp_servers={"guarded": {"type": "http", "url": f"{url}/mcp"}})
        begun = await client.mcp_authenticate("guarded")
        assert begun.requires_user_action
        asked = urlsplit(begun.auth_url or "")
        assert f"{asked.scheme}://{asked.netloc}{asked.path}" == f"{url}/authorize"
        query = parse_qs(asked.query)
        state, [back] = query["state"][0], query["redirect_uri"]
        # Older CLIs give the URL alone.
        assert begun.state == (state if can(version, Since.GIVES_LOGIN_STATE) else None)
        await client.mcp_oauth_callback_url("guarded", f"{back}?code=yes&state={state}")
        while await paths.get() != "/token":
            pass
        await client.mcp_clear_auth("guarded")
        with pytest.raises(ControlError, match="Server not found"):
            await client.mcp_clear_auth("nobody")


@asynccontextmanager
async def _guarded_server() -> AsyncIterator[tuple[str, asyncio.Queue[str]]]:
    """An MCP server which lets nobody in, with what a login to it needs."""
    paths: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)^content-length: (\d+)", head, re.MULTILINE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        path = head.split()[1]
        status, answer = _login_answer(url, path, body)
        data = json.dumps(answer).encode()
        headers = f"content-type: application/json\r\ncontent-length: {len(data)}"
        writer.write(f"HTTP/1.1 {status} x\r\n{headers}\r\nconnection: close\r\n\r\n".encode())
        writer.write(data)
        await writer.drain()
        writer.close()
        paths.put_nowait(path)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield url, paths


def _login_answer(url: str, path: str, body: bytes) -> tuple[int, Any]:
    if "oauth-protected-resource" in path:
        return 200, {"resource": f"{url}/mcp", "authorization_servers": [url]}
    if "oauth-authorization-server" in path:
        ends = {"authorization": "authorize", "token": "token", "registration": "register"}
        return 200, {
            "issuer": url,
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            **{f"{name}_endpoint": f"{url}/{end}" for name, end in ends.items()},
        }
    if path == "/register":
        return 201, {**json.loads(body), "client_id": "tests"}
    if path == "/token":
        return 200, {"access_token": "let-me-in", "token_type": "Bearer"}
    return (401, {}) if path == "/mcp" else (404, {})


# Figures


@answering("context_usage")
async def test_the_context_window_is_accounted_for(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        usage = await client.context_usage()
    assert "System prompt" in {category.name for category in usage.categories}
    assert 0 < usage.total_tokens <= usage.max_tokens


@answering("usage")
async def test_the_usage_counts_the_tokens_of_the_session(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
        usage = await client.usage()
    assert usage.session.total_cost_usd == pytest.approx(turn.cost_usd)
    [of_model] = usage.session.model_usage.values()
    assert (of_model.input_tokens, of_model.output_tokens) == (100, 5)


@answering("session_cost")
async def test_the_cost_of_the_session_is_told_in_words(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
        cost = await client.session_cost()
    assert f"${turn.cost_usd:.4f}" in cost.text


@answering("binary_version")
async def test_the_version_of_the_cli_can_be_asked(desk: OpenDesk, version: str) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert (await client.binary_version()).version == version


@answering("status")
async def test_the_status_page_names_the_session(desk: OpenDesk, version: str) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        status = await client.status()
    rows = {row["label"]: row.get("value") for part in status.sections for row in part["rows"]}
    assert (rows["Version"], rows["Session ID"]) == (version, client.session_id)


# Files


async def test_files_are_rewound_to_a_prompt_first_on_trial_then_for_real(desk: OpenDesk) -> None:
    # C12
    it = await desk(
        reply(tool("Write", file_path="FIRST", content="one\n")),
        reply("made"),
        reply(tool("Edit", file_path="FIRST", old_string="one", new_string="two")),
        reply("changed"),
    )
    path = it.cwd / "FIRST"
    client = await it.client(enable_file_checkpointing=True, permission_mode="acceptEdits")
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
        second = await client.say("change it")
        await second
        assert path.read_text() == "two\n"
        trial = await client.rewind_files(second.uuid, dry_run=True)
        assert (trial.can_rewind, trial.files_changed) == (True, [str(path)])
        assert (trial.insertions, trial.deletions) == (1, 1)
        assert path.read_text() == "two\n"
        assert (await client.rewind_files(second.uuid)).can_rewind
    assert path.read_text() == "one\n"


async def test_files_are_not_rewound_to_a_prompt_nobody_sent(desk: OpenDesk) -> None:
    # C12
    it = await desk(reply("hello"))
    client = await it.client(enable_file_checkpointing=True)
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        trial = await client.rewind_files(NOBODY, dry_run=True)
        assert (trial.can_rewind, trial.error) == (
            False,
            "No file checkpoint found for this message.",
        )
        with pytest.raises(ControlError, match="No file checkpoint found"):
            await client.rewind_files(NOBODY)


async def test_files_are_not_rewound_where_checkpoints_are_off(desk: OpenDesk) -> None:
    # C12
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await prompt
        trial = await client.rewind_files(prompt.uuid, dry_run=True)
        assert (trial.can_rewind, trial.error) == (False, "File rewinding is not enabled.")
        with pytest.raises(ControlError, match="File rewinding is not enabled"):
            await client.rewind_files(prompt.uuid)


@answering("read_file")
async def test_a_file_can_be_read_through_the_cli(desk: OpenDesk, version: str) -> None:
    # Older CLIs know no encoding but text, and say what the file system says.
    it = await desk()
    (it.cwd / "notes.txt").write_text("hello\n")
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        whole = await client.read_file("notes.txt")
        part = await client.read_file("notes.txt", max_bytes=3, encoding="base64")
        with pytest.raises(ControlError, match=r"read denied|ENOENT"):
            await client.read_file("nothing.txt")
    assert (whole.contents, whole.abs_path) == ("hello\n", str(it.cwd / "notes.txt"))
    assert part.truncated
    is_encoded = can(version, Since.ENCODES_FILES)
    assert part.contents == (base64.b64encode(b"hel").decode() if is_encoded else "hel")


@answering("seed_read_state")
async def test_a_file_seeded_as_read_can_be_edited_at_once(desk: OpenDesk, version: str) -> None:
    # Newer CLIs edit what they have not read, too.
    edit = tool("Edit", file_path="notes.txt", old_string="hello", new_string="goodbye")
    it = await desk(reply(edit), reply("no"), reply(edit), reply("yes"))
    path = it.cwd / "notes.txt"
    path.write_text("hello\n")
    client = await it.client(permission_mode="acceptEdits")
    async with asyncio.timeout(DEADLINE):
        await client.ask("edit it")
        assert path.read_text() == ("goodbye\n" if can(version, Since.EDITS_UNREAD) else "hello\n")
        path.write_text("hello\n")
        await client.seed_read_state(str(path), int(path.stat().st_mtime * 1000))
        await client.ask("edit it now")
    assert path.read_text() == "goodbye\n"


@answering("file_suggestions")
async def test_file_names_are_completed(desk: OpenDesk) -> None:
    it = await desk()
    (it.cwd / "anchor.txt").write_text("x")
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        # The first question starts the indexing.
        while not (found := await client.file_suggestions("anch")).suggestions:
            pass
    assert found.suggestions[0]["path"] == "anchor.txt"
    assert found.cwd == (str(it.cwd) if can(it.version, Since.TELLS_WHERE) else "")


@answering("workspace_diff")
async def test_the_changes_of_the_workspace_are_shown_where_it_is_a_repository(
    desk: OpenDesk,
) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        is_told = can(it.version, Since.SAYS_WHY_NO_DIFF)
        reason = {"noDiffReason": "no-repository"} if is_told else {}
        assert await client.workspace_diff() == {"diff": None, **reason}
        git = await asyncio.create_subprocess_exec("git", "init", "-q", str(it.cwd))
        assert await git.wait() == 0
        (it.cwd / "new.txt").write_text("x\n")
        changed = await client.workspace_diff()
    if can(it.version, Since.NOTICES_REPOSITORIES):
        assert changed["diff"]["stats"]["filesCount"] == 1
    else:
        assert changed == {"diff": None}


@answering("set_cwd")
async def test_the_working_directory_changes_once_it_is_trusted(desk: OpenDesk) -> None:
    # C17
    it = await desk(reply("hello"), reply(tool("Bash", command="pwd")), reply("there"))
    other = it.cwd.with_name("other")
    other.mkdir()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await prompt
        await client.wait_idle()
        refused = await client.set_cwd(str(other))
        await unread(client)
        assert (refused.status, refused.directory) == ("needs_trust", str(other))
        # The CLI runs a command of its own for it, whose result is not that of the next prompt.
        moved = await client.set_cwd(str(other), trusted_directory=refused.directory)
        assert (moved.status, moved.changed, moved.cwd) == ("ok", True, str(other))
        result = await next_of(client, ResultMessage)
        life = await next_of(client, CommandLifecycleMessage)
        assert (result.num_turns, life.state) == (0, "completed")
        assert life.command_uuid not in ("", prompt.uuid)
        await client.ask("where are we?")
    assert str(other) in _asked(it)[-1].last


@answering("register_repo_root")
async def test_a_directory_can_be_added_only_below_what_the_session_has(desk: OpenDesk) -> None:
    it = await desk()
    below = it.cwd / "below"
    below.mkdir()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.register_repo_root(str(below), reload_skills=True)
        with pytest.raises(ControlError, match="not a subdirectory"):
            await client.register_repo_root(str(it.home))


# Background work


@answering("background_tasks", "stop_task")
async def test_a_running_tool_moves_to_the_background_is_read_and_stopped(desk: OpenDesk) -> None:
    held = HeldCommand()
    async with held.serving():
        call = tool("Bash", command=f"echo ready; {held.command}", description="wait")
        it = await desk(reply(call), reply("meanwhile"), reply("it is over"))
        client = await it.client(allowed_tools=["Bash"])
        async with asyncio.timeout(DEADLINE):
            prompt = await client.say("wait")
            await held.running.wait()
            if not can(it.version, Since.NAMES_RUNNING_TOOLS):
                assert await client.background_tasks() == {}
                held.release()
                assert (await prompt).text == "meanwhile"
                told = await unread(client)
                assert not any(isinstance(event, TaskStartedMessage) for event in told)
                return
            started = await next_of(client, TaskStartedMessage)
            moved = await client.background_tasks(started.tool_use_id)
            assert moved == {"backgrounded": True}
            assert (await prompt).text == "meanwhile"
            assert list(client.turns.tasks) == [started.task_id]
            if "task_output" in answered_by(it.version):
                output = await client.task_output(started.task_id)
                assert output.output.startswith("ready\n")
            await client.stop_task(started.task_id)
            await held.ended.wait()
            await next_of(client, TaskNotificationMessage)
            assert client.turns.tasks == {}


@answering("stop_task")
@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_background_task_can_be_stopped(desk: OpenDesk) -> None:
    held = HeldCommand()
    async with held.serving():
        call = tool("Bash", command=held.command, description="wait", run_in_background=True)
        it = await desk(reply(call), reply("meanwhile"), reply("it is over"))
        client = await it.client(allowed_tools=["Bash"])
        async with asyncio.timeout(DEADLINE):
            prompt = await client.say("wait")
            started = await next_of(client, TaskStartedMessage)
            await held.running.wait()
            assert (await prompt).text == "meanwhile"
            await client.stop_task(started.task_id)
            await held.ended.wait()


@answering("stop_task")
@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_task_that_does_not_exist_is_stopped_already_on_newer_clis_only(
    desk: OpenDesk,
) -> None:
    # C15
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        if can(it.version, Since.STOPS_WHAT_IS_GONE):
            await client.stop_task("nobody")
        else:
            with pytest.raises(ControlError, match="No task found"):
                await client.stop_task("nobody")


@answering("background_tasks")
async def test_nothing_is_moved_to_the_background_where_nothing_runs(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert await client.background_tasks() == {}


@answering("task_output")
async def test_a_task_that_does_not_exist_has_no_output(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ControlError, match="no shell or Monitor task"):
            await client.task_output("nobody")


# The conversation


@answering("rename_session")
async def test_a_session_gets_a_title_of_the_persons(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        await client.rename_session("The grand tour")
        await client.aclose()
    [transcript] = (it.home / ".claude/projects").rglob(f"{client.session_id}.jsonl")
    assert '"customTitle":"The grand tour"' in transcript.read_text()


@answering("generate_session_title")
async def test_a_title_is_made_by_a_model(desk: OpenDesk) -> None:
    # No reply of the script is taken for it; a branch has the model's words.
    own = When(prompt_contains="the sail is torn")
    named = Branch(when=own, replies=(reply('{"title": "Mend the sail"}'),))
    it = await desk(branches=[named])
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        title = await client.generate_session_title("the sail is torn")
    assert title.title == "Mend the sail"
    assert "the sail is torn" in it.model.requests[-1].last


@since(Since.REFUSES_BY_SESSION)
async def test_a_conversation_is_not_forked_over_pipes(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        answer = await client.request(ForkConversation(title="another way"))
    assert (answer.forked, answer.session_id, answer.error) == (False, None, "unsupported")


@answering("plan")
async def test_the_plan_of_a_session_can_be_read(desk: OpenDesk) -> None:
    def write_plan(request: ModelRequest) -> Reply:
        [path] = set(re.findall(r"/[^\s\"\\]+/plans/[\w-]+\.md", json.dumps(request.body)))
        return reply(tool("Write", file_path=path, content="# To the north"))

    it = await desk(computed(write_plan), reply("planned"))
    client = await it.client(permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        assert not (await client.plan()).exists
        await client.ask("where to?")
        plan = await client.plan()
    assert (plan.exists, plan.content) == (True, "# To the north")
    assert plan.path in [str(path) for path in (it.home / ".claude/plans").iterdir()]


@answering("export_conversation")
async def test_a_conversation_can_be_exported_as_text(desk: OpenDesk) -> None:
    it = await desk(reply("north by northwest"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("which course?")
        exported = await client.export_conversation()
    assert "which course?" in exported.text
    assert "north by northwest" in exported.text
    assert exported.default_filename.endswith(".txt")


# Plugins, skills, styles


@answering("reload_plugins")
async def test_plugins_are_loaded_again(desk: OpenDesk) -> None:
    it = await desk()
    plugin = it.home / "plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / "commands").mkdir()
    about = {"name": "rig", "description": "rigging", "version": "1.0.0"}
    (plugin / ".claude-plugin/plugin.json").write_text(json.dumps(about))
    (plugin / "commands/one.md").write_text("one")
    client = await it.client(plugin_dirs=[plugin])
    (plugin / "commands/two.md").write_text("two")
    async with asyncio.timeout(DEADLINE):
        loaded = await client.reload_plugins()
    assert "rig" in {each.name for each in loaded.plugins}
    assert {"rig:one", "rig:two"} <= {command.name for command in loaded.commands}


@answering("reload_skills")
async def test_skills_are_loaded_again(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    skill = it.home / ".claude/skills/splice"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: splice\ndescription: joins ropes\n---\nJoin.\n")
    async with asyncio.timeout(DEADLINE):
        loaded = await client.reload_skills()
    assert "splice" in {each.name for each in loaded.skills}


@answering("reload_output_styles")
async def test_output_styles_are_loaded_again(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    styles = it.home / ".claude/output-styles"
    styles.mkdir(parents=True)
    (styles / "pirate.md").write_text("---\nname: Pirate\ndescription: arr\n---\nArr.\n")
    async with asyncio.timeout(DEADLINE):
        loaded = await client.reload_output_styles()
    assert {"default", "Pirate"} <= set(loaded.available_output_styles)


# What the CLI's own dialogs show


@answering("memory_dialog")
async def test_the_memory_dialog_names_the_files_with_instructions(desk: OpenDesk) -> None:
    it = await desk()
    (it.cwd / "CLAUDE.md").write_text("Be brief.")
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        shown = await client.memory_dialog()
    there = {file["path"]: file["exists"] for file in shown.files}
    assert there == {
        str(it.home / ".claude/CLAUDE.md"): False,
        str(it.cwd / "CLAUDE.md"): True,
    }
    assert shown.auto_memory["enabled"]
    assert shown.extra == {}


@answering("skills_dialog")
async def test_the_skills_dialog_names_source_and_state(desk: OpenDesk) -> None:
    it = await desk()
    skill = it.home / ".claude/skills/knots"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: knots\ndescription: ties knots\n---\nTie.\n")
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        [shown] = (await client.skills_dialog()).skills
    assert (shown["name"], shown["source"], shown["state"]) == ("knots", "user", "on")


@answering("sandbox_dialog")
async def test_the_sandbox_dialog_shows_the_settings_in_force(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client(settings={"sandbox": {"excludedCommands": ["make *"]}})
    async with asyncio.timeout(DEADLINE):
        shown = await client.sandbox_dialog()
    assert (shown.enabled, shown.mode) == (False, "disabled")
    assert shown.excluded_commands == ["make *"]
    assert shown.extra == {}


@answering("chrome_browsers", "chrome_dialog", "select_chrome_browser")
async def test_there_are_no_browsers_without_the_extension(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        shown = await client.chrome_dialog()
        assert (shown.connected, shown.extra) == (False, {})
        with pytest.raises(ControlError, match="not connected in this session"):
            await client.chrome_browsers()
        with pytest.raises(ControlError, match="not connected in this session"):
            await client.select_chrome_browser("nobody")


# What the CLI spends effort on for us


@answering("set_has_subscribers")
async def test_saying_that_nobody_watches_loses_no_message(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client(include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        for watched in (True, None, False):
            await client.set_has_subscribers(watched)
        await client.say("hi")
        assert await next_of(client, StreamEvent)


@answering("pause_prompt_suggestions")
async def test_prompt_suggestions_pause_and_go_on(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.pause_prompt_suggestions(paused=True)
        await client.pause_prompt_suggestions(paused=False)
        assert (await client.ask("hi")).text == "hello"


# Without an answer


@pytest.mark.parametrize("turns_before", [0, 1])
async def test_the_environment_of_the_tools_changes_where_the_cli_applies_it(
    desk: OpenDesk, version: str, turns_before: int
) -> None:
    # G8: newer CLIs take the message in silence and do nothing.
    show = reply(tool("Bash", command='printf "%s" "$FLAVOUR" > seen', description="show"))
    it = await desk(*[reply("hello")] * turns_before, show, reply("done"))
    client = await it.client(on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        for _ in range(turns_before):
            await client.ask("hi")
        if can(version, Since.KEEPS_ITS_ENVIRONMENT):
            with pytest.raises(Unsupported, match=r"Options\.env"):
                await client.update_environment({"FLAVOUR": "salty"})
            return
        await client.update_environment({"FLAVOUR": "salty"})
        await client.ask("show me")
    assert (it.cwd / "seen").read_text() == "salty"


async def test_a_sign_of_life_is_taken_in_silence(desk: OpenDesk) -> None:
    # G7
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        for _ in range(3):
            client.keep_alive()
        assert (await client.ask("hi")).text == "hello"


def _asked(it: Desk) -> list[ModelRequest]:
    """What the model was asked for the conversation, without the CLI's own asides."""
    return [request for request in it.model.requests if not request.is_aside]
