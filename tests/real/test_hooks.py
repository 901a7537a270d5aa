"""Hooks: what each may decide, and what happens when one fails, hangs, or is beaten to it."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from pilothouse import (
    Allow,
    HookContext,
    Hooks,
    add_context,
    allow_tool,
    ask_user,
    block,
    deny_tool,
)
from pilothouse.protocol import (
    HookAllow,
    HookDeny,
    HookEvent,
    HookInput,
    HookOutput,
    PermissionRequestHookInput,
    PermissionRequestHookOutput,
    PostToolUseHookInput,
    PreToolUseHookInput,
    PreToolUseHookOutput,
    StopHookInput,
    UserPromptSubmitHookInput,
)
from pilothouse_sim.scenario import reply
from tests.support.real.desk import OpenDesk, conversation
from tests.support.real.handlers import Handler, Holding, bash, results
from tests.support.versions import NEWEST, Since, can
from tests.support.waiting import DEADLINE

TOUCH = bash("touch made")


def before_bash(returned: Any) -> tuple[Hooks, list[PreToolUseHookInput]]:
    """A PreToolUse hook that returns this, and what it was told."""
    hooks, told = Hooks(), list[PreToolUseHookInput]()

    @hooks.on(PreToolUseHookInput, matcher="Bash|Write")
    async def check(event: PreToolUseHookInput, context: HookContext) -> Any:
        assert context.tool_use_id == event.tool_use_id
        told.append(event)
        return returned

    return hooks, told


# PreToolUse


async def test_a_hook_is_told_about_the_tool_and_where_it_runs(desk: OpenDesk) -> None:
    # H2
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, told = before_bash(None)
    handler = Handler(Allow())
    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    [event] = told
    assert (event.tool_name, event.tool_input) == ("Bash", TOUCH.input)
    assert (event.session_id, event.cwd) == (client.session_id, str(it.cwd))
    assert event.permission_mode == "default"
    assert len(handler.requests) == 1
    assert (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_hook_lets_a_tool_run_without_a_question(desk: OpenDesk) -> None:
    # H3
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, _ = before_bash(allow_tool())
    handler = Handler(Allow())
    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert handler.requests == []
    assert (it.cwd / "made").exists()


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_a_hook_denies_a_tool_and_the_model_reads_why(desk: OpenDesk) -> None:
    # H3
    it = await desk(reply(TOUCH), reply("Then not."))
    hooks, _ = before_bash(deny_tool("Not on a Sunday."))
    handler = Handler(Allow())
    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "Not on a Sunday." in results(it)[0]
    assert handler.requests == []
    assert not (it.cwd / "made").exists()


async def test_a_hook_changes_what_a_tool_is_run_with(desk: OpenDesk) -> None:
    # H3
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, _ = before_bash(allow_tool({"command": "touch changed"}))
    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert (it.cwd / "changed").exists()
    assert not (it.cwd / "made").exists()


async def test_a_person_is_asked_about_the_input_a_hook_changed(desk: OpenDesk) -> None:
    # H3
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, _ = before_bash(PreToolUseHookOutput(updated_input={"command": "touch changed"}))
    handler = Handler(Allow())
    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert [request.input["command"] for request in handler.requests] == ["touch changed"]
    assert (it.cwd / "changed").exists()


async def test_a_hook_has_a_person_asked_about_what_is_never_asked(desk: OpenDesk) -> None:
    # H3: old CLIs do not ask about what they would allow by themselves.
    it = await desk(reply(bash("ls")), reply("Seen."))
    hooks, _ = before_bash(ask_user("Really look?"))
    handler = Handler(Allow())
    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("look")
    reasons = [request.request.decision_reason for request in handler.requests]
    assert reasons == (["Really look?"] if can(it.version, Since.ASKS_FOR_HOOKS) else [])


async def test_a_hook_for_other_tools_is_not_called(desk: OpenDesk) -> None:
    # H2
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, called = Hooks(), Handler(None)

    @hooks.on("PreToolUse", matcher="Write|mcp__.*")
    async def check(event: Any) -> Any:
        return await called(event)

    client = await it.client(hooks=hooks, on_permission=Handler(Allow()))
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert called.requests == []
    assert (it.cwd / "made").exists()


async def test_a_hook_can_end_the_turn_after_the_tool(desk: OpenDesk) -> None:
    # H3
    it = await desk(reply(TOUCH), reply("Not reached."))
    hooks, _ = before_bash(HookOutput(continue_=False, stop_reason="Enough."))
    client = await it.client(hooks=hooks, on_permission=Handler(Allow()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert turn.text != "Not reached."
    assert len(conversation(it)) == 1


# Hooks that fail


async def test_a_tool_does_not_run_when_its_hook_raises(desk: OpenDesk) -> None:
    # H3: answered with an error, every CLI would go on to ask.
    it = await desk(reply(TOUCH), reply("Then not."))
    hooks, handler = Hooks(), Handler(Allow())

    @hooks.on(PreToolUseHookInput)
    async def check(event: PreToolUseHookInput) -> None:
        raise OSError("the list of allowed files is gone")

    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert "OSError: the list of allowed files is gone" in results(it)[0]
    assert handler.requests == []
    assert turn.outcome == "finished"
    assert not (it.cwd / "made").exists()


async def test_a_tool_does_not_run_when_its_hook_takes_too_long(desk: OpenDesk) -> None:
    # H4: left to themselves the older CLIs would go on to ask.
    it = await desk(reply(TOUCH), reply("Then not."))
    hooks, held, handler = Hooks(), Holding(), Handler(Allow())

    @hooks.on("PreToolUse", timeout=0.2)
    async def check(event: Any) -> Any:
        return await held(event)

    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert held.cancelled.is_set()
    assert "TimeoutError" in results(it)[0]
    assert handler.requests == []
    assert not (it.cwd / "made").exists()


async def test_an_interrupt_cancels_the_hook_that_is_being_waited_for(desk: OpenDesk) -> None:
    # B14
    it = await desk(reply(TOUCH), reply("Here again."))
    hooks, held = Hooks(), Holding()

    @hooks.on("PreToolUse")
    async def check(event: Any) -> Any:
        return await held(event)

    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("make it")
        await held.began.wait()
        waiting = client.waiting_on
        assert waiting is not None
        assert waiting.what == "hook"
        await client.interrupt()
        await held.cancelled.wait()
        assert (await prompt).outcome == "interrupted"
    assert not (it.cwd / "made").exists()


async def test_a_hook_that_decides_nothing_may_fail_and_the_turn_goes_on(desk: OpenDesk) -> None:
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, failed = Hooks(), asyncio.Event()

    @hooks.on(PostToolUseHookInput)
    async def note(event: PostToolUseHookInput) -> None:
        failed.set()
        raise OSError("the log is full")

    client = await it.client(hooks=hooks, on_permission=Handler(Allow()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert failed.is_set()
    assert (turn.outcome, turn.text) == ("finished", "Made.")


# PermissionRequest


async def test_a_permission_hook_that_is_faster_withdraws_the_question(desk: OpenDesk) -> None:
    # H5: 2.1.37 does not ask before the hook has answered, and not at all if it decides.
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, held = Hooks(), Holding()

    @hooks.on(PermissionRequestHookInput)
    async def decide(event: PermissionRequestHookInput) -> PermissionRequestHookOutput:
        if can(it.version, Since.ASKS_BESIDE_HOOKS):
            await held.began.wait()
        return PermissionRequestHookOutput(decision=HookAllow())

    client = await it.client(hooks=hooks, on_permission=held)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
        if can(it.version, Since.ASKS_BESIDE_HOOKS):
            await held.cancelled.wait()
    assert held.began.is_set() == can(it.version, Since.ASKS_BESIDE_HOOKS)
    assert turn.text == "Made."
    assert (it.cwd / "made").exists()


async def test_a_person_who_is_faster_than_a_permission_hook_decides(desk: OpenDesk) -> None:
    # H5: on 2.1.37 the hook comes first, so there it leaves the decision to the person.
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, held, handler = Hooks(), Holding(), Handler(Allow())

    @hooks.on("PermissionRequest")
    async def decide(event: Any) -> Any:
        return await held() if can(it.version, Since.ASKS_BESIDE_HOOKS) else None

    client = await it.client(hooks=hooks, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert len(handler.requests) == 1
    assert turn.text == "Made."
    assert (it.cwd / "made").exists()


async def test_a_permission_hook_denies_and_the_model_reads_why(desk: OpenDesk) -> None:
    # H5
    it = await desk(reply(TOUCH), reply("Then not."))
    hooks = Hooks()

    @hooks.on(PermissionRequestHookInput)
    async def decide(event: PermissionRequestHookInput) -> PermissionRequestHookOutput:
        return PermissionRequestHookOutput(decision=HookDeny(message="Not on a Sunday."))

    client = await it.client(hooks=hooks, on_permission=Holding())
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "Not on a Sunday." in results(it)[0]
    assert not (it.cwd / "made").exists()


async def test_a_permission_hook_that_raises_denies(desk: OpenDesk) -> None:
    # H5
    it = await desk(reply(TOUCH), reply("Then not."))
    hooks = Hooks()

    @hooks.on(PermissionRequestHookInput)
    async def decide(event: PermissionRequestHookInput) -> None:
        raise LookupError("no such rule")

    client = await it.client(hooks=hooks, on_permission=Holding())
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert "LookupError: no such rule" in results(it)[0]
    assert not (it.cwd / "made").exists()


# The turn


async def test_a_stop_hook_sends_the_model_back_to_work(desk: OpenDesk) -> None:
    # H6
    it = await desk(reply("Done."), reply("Now with tests."))
    hooks, active = Hooks(), list[bool]()

    @hooks.on(StopHookInput)
    async def stop(event: StopHookInput) -> Any:
        active.append(event.stop_hook_active)
        return None if event.stop_hook_active else block("And the tests?")

    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("write it")
    assert active == [False, True]
    assert "And the tests?" in conversation(it)[1].last
    assert turn.text == "Now with tests."


async def test_a_prompt_hook_adds_what_the_model_should_know(desk: OpenDesk) -> None:
    # H6
    it = await desk(reply("It is high tide."))
    hooks, prompts = Hooks(), list[str]()

    @hooks.on(UserPromptSubmitHookInput)
    async def tide(event: UserPromptSubmitHookInput) -> Any:
        prompts.append(event.prompt)
        return add_context("The tide is high.")

    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        await client.ask("how is the tide?")
    assert prompts == ["how is the tide?"]
    assert "The tide is high." in str(conversation(it)[0].body["messages"])


async def test_a_prompt_hook_keeps_a_prompt_from_the_model(desk: OpenDesk) -> None:
    # H6
    it = await desk(reply("Not reached."), reply("Hello."))
    hooks = Hooks()

    @hooks.on(UserPromptSubmitHookInput)
    async def guard(event: UserPromptSubmitHookInput) -> Any:
        return block("No secrets here.") if "secret" in event.prompt else None

    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("the secret is 42")
        assert turn.outcome in ("finished", "failed")
        assert conversation(it) == []


async def test_a_hook_after_a_tool_reads_its_result_and_adds_to_it(desk: OpenDesk) -> None:
    # H6
    it = await desk(reply(bash("echo ahoy")), reply("Heard."))
    hooks, responses = Hooks(), list[Any]()

    @hooks.on(PostToolUseHookInput, matcher="Bash")
    async def note(event: PostToolUseHookInput) -> Any:
        responses.append(event.tool_response)
        return add_context("That was a greeting.")

    client = await it.client(hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        await client.ask("greet")
    [response] = responses
    assert response["stdout"] == "ahoy"
    assert "That was a greeting." in str(conversation(it)[1].body["messages"])


async def test_a_background_hook_holds_nothing_up(desk: OpenDesk) -> None:
    # H4
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, held = Hooks(), Holding()

    @hooks.on("PreToolUse", background=True)
    async def watch(event: Any) -> Any:
        return await held(event)

    client = await it.client(hooks=hooks, on_permission=Handler(Allow()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
        assert turn.text == "Made."
        assert held.began.is_set()
        await client.aclose()
    assert held.cancelled.is_set()
    assert (it.cwd / "made").exists()


async def test_all_events_can_be_registered_at_once(desk: OpenDesk) -> None:
    # H6, H11, H12: the older CLIs know but some of them.
    it = await desk(reply(TOUCH), reply("Made."))
    hooks, called = Hooks(), list[str]()

    async def note(event: HookInput) -> None:
        called.append(event.hook_event_name)

    events = get_args(HookEvent)
    assert len(events) == 33
    for event in events:
        hooks.on(event)(note)
    client = await it.client(hooks=hooks, on_permission=Handler(Allow()))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    assert turn.text == "Made."
    batch = ["PostToolBatch"] if can(it.version, Since.CALLS_BATCH_HOOK) else []
    shown = ["MessageDisplay"] if can(it.version, Since.CALLS_DISPLAY_HOOK) else []
    before = ["UserPromptSubmit", "PreToolUse", "PermissionRequest"]
    assert called == [*before, "PostToolUse", *batch, *shown, "Stop"]
