from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, get_args

import pytest

from pilothouse.client.hooks import (
    HookContext,
    HookFailed,
    Hooks,
    add_context,
    allow_tool,
    ask_user,
    block,
    deny_tool,
)
from pilothouse.protocol.control import HookCallback
from pilothouse.protocol.hook_outputs import (
    AsyncHookOutput,
    HookAllow,
    HookOutput,
    PermissionRequestHookOutput,
    PostToolUseHookOutput,
    PreToolUseHookOutput,
)
from pilothouse.protocol.hooks import (
    HookEvent,
    HookInput,
    PermissionRequestHookInput,
    PreToolUseHookInput,
    StopHookInput,
    UserPromptSubmitHookInput,
)
from pilothouse.protocol.wire import encode_json, load
from tests.support.waiting import DEADLINE

EVENTS = get_args(HookEvent)


def callback(callback_id: str = "hook_0", *, tool_use_id: Any = None, **told: Any) -> HookCallback:
    members = {"subtype": "hook_callback", "callback_id": callback_id, "input": told}
    if tool_use_id is not None:
        members["tool_use_id"] = tool_use_id
    return load(HookCallback, encode_json(members))


async def answer_to(returned: Any, event: Any = "PreToolUse") -> dict[str, Any]:
    hooks = Hooks()

    @hooks.on(event)
    async def handle(event: Any) -> Any:
        return returned

    answer = await hooks.answer(callback(hook_event_name=event))
    json.dumps(answer)
    return answer


async def failure_of(event: Any, error: BaseException) -> dict[str, Any]:
    hooks = Hooks()

    @hooks.on(event)
    async def handle(event: Any) -> None:
        raise error

    return await hooks.answer(callback(hook_event_name=event))


# Registering


def test_the_registration_is_what_initialize_wants() -> None:
    hooks = Hooks()

    @hooks.on(PreToolUseHookInput, matcher="Bash|Write", timeout=30)
    async def check(event: PreToolUseHookInput) -> None: ...

    @hooks.on("Stop")
    async def stop(event: StopHookInput) -> None: ...

    @hooks.on("PreToolUse", matcher="*", on_failure="block")
    async def watch(event: PreToolUseHookInput) -> None: ...

    assert hooks.registration() == {
        "PreToolUse": [
            {"matcher": "Bash|Write", "hookCallbackIds": ["hook_0"], "timeout": 35},
            {"matcher": "*", "hookCallbackIds": ["hook_2"], "onFailure": "block"},
        ],
        "Stop": [{"hookCallbackIds": ["hook_1"]}],
    }
    assert hooks.registration() == hooks.registration()
    assert len(hooks) == 3


def test_no_hooks_register_nothing() -> None:
    assert Hooks().registration() == {}


@pytest.mark.parametrize("event", EVENTS)
async def test_every_event_can_be_registered_by_name(event: Any) -> None:
    hooks = Hooks()
    told: list[HookInput] = []

    @hooks.on(event)
    async def handle(event: HookInput) -> None:
        told.append(event)

    assert list(hooks.registration()) == [event]
    assert await hooks.answer(callback(hook_event_name=event, session_id="s")) == {}
    assert (told[0].hook_event_name, told[0].session_id) == (event, "s")


async def test_the_decorated_handler_is_unchanged() -> None:
    hooks = Hooks()

    @hooks.on(StopHookInput)
    async def stop(event: StopHookInput) -> HookOutput:
        return block(event.cwd)

    assert await stop(StopHookInput(cwd="here")) == block("here")


@pytest.mark.parametrize(
    ("name", "nearest"), [("PreToolUes", "PreToolUse"), ("stop", "Stop"), ("Q", None)]
)
def test_an_unknown_event_is_refused_with_the_nearest_name(name: Any, nearest: str | None) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{nearest or ''}"):
        Hooks().on(name)


@pytest.mark.parametrize("kind", [HookInput, HookOutput, int])
def test_a_class_that_is_no_input_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="not the input of a hook event"):
        Hooks().on(kind)


def test_a_matcher_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        Hooks().on("PreToolUse", matcher="Bash(")


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        Hooks().on("PreToolUse", timeout=timeout)


def test_an_unknown_way_to_fail_is_refused() -> None:
    wrong: Any = "explode"
    with pytest.raises(ValueError, match="'continue' or 'block'"):
        Hooks().on("PreToolUse", on_failure=wrong)


def test_a_plain_function_is_refused() -> None:
    def check(event: Any) -> None: ...

    register: Any = Hooks().on("PreToolUse")
    with pytest.raises(TypeError, match="make it async"):
        register(check)


async def takes_nothing() -> None: ...


async def takes_three(a: Any, b: Any, c: Any) -> None: ...


async def takes_keyword(a: Any, *, b: Any) -> None: ...


@pytest.mark.parametrize("handler", [takes_nothing, takes_three, takes_keyword])
def test_a_handler_with_other_arguments_is_refused(handler: Any) -> None:
    hooks = Hooks()
    with pytest.raises(TypeError, match=r"\(event\) or \(event, context\)"):
        hooks.on("PreToolUse")(handler)
    assert len(hooks) == 0


def test_registering_after_a_client_has_started_is_refused() -> None:
    hooks = Hooks()
    hooks.registration()

    async def late(event: Any) -> None: ...

    with pytest.raises(RuntimeError, match=r"copy\(\) them"):
        hooks.on("Stop")(late)
    more = hooks.copy()
    more.on("Stop")(late)
    assert (len(hooks), len(more)) == (0, 1)


async def test_merged_hooks_have_the_handlers_of_all() -> None:
    called: list[str] = []

    def with_handler(name: str) -> Hooks:
        hooks = Hooks()

        @hooks.on("Stop", matcher=name)
        async def handle(event: Any) -> None:
            called.append(name)

        return hooks

    first, second = with_handler("first"), with_handler("second")
    merged = Hooks.merged(first, second)
    assert [each["matcher"] for each in merged.registration()["Stop"]] == ["first", "second"]
    for callback_id in ("hook_1", "hook_0"):
        await merged.answer(callback(callback_id, hook_event_name="Stop"))
    assert called == ["second", "first"]
    assert len(first) == len(second) == 1


# Calling


async def test_a_handler_gets_the_typed_input_and_the_context() -> None:
    hooks = Hooks()
    seen: list[Any] = []

    @hooks.on(PreToolUseHookInput)
    async def check(event: PreToolUseHookInput, context: HookContext) -> None:
        seen.extend([event.tool_name, event.tool_input, event.cwd, event.extra, context])

    await hooks.answer(
        callback(
            hook_event_name="PreToolUse",
            tool_use_id="toolu_1",
            tool_name="Bash",
            tool_input={"command": "ls"},
            cwd="/project",
            novel=1,
        )
    )
    context = HookContext("hook_0", "toolu_1")
    assert seen == ["Bash", {"command": "ls"}, "/project", {"novel": 1}, context]


@pytest.mark.parametrize("told", [{}, {"hook_event_name": "Novel"}, {"tool_name": 5}])
async def test_an_input_that_does_not_fit_still_reaches_the_handler(told: Any) -> None:
    hooks = Hooks()
    seen: list[HookInput] = []

    @hooks.on(PreToolUseHookInput)
    async def check(event: PreToolUseHookInput) -> None:
        seen.append(event)

    assert await hooks.answer(callback(**told)) == {}
    assert type(seen[0]) is PreToolUseHookInput


async def test_a_default_argument_of_a_handler_is_left_alone() -> None:
    hooks = Hooks()

    @hooks.on("UserPromptSubmit")
    async def handle(event: UserPromptSubmitHookInput, prefix: str = "said: ") -> Any:
        return add_context(prefix + event.prompt)

    answer = await hooks.answer(callback(hook_event_name="UserPromptSubmit", prompt="hi"))
    assert answer["hookSpecificOutput"]["additionalContext"] == "said: hi"


async def test_a_method_can_be_a_handler() -> None:
    class Guard:
        async def check(self, event: PreToolUseHookInput) -> PreToolUseHookOutput:
            return deny_tool(event.tool_name)

    hooks = Hooks()
    hooks.on(PreToolUseHookInput)(Guard().check)
    answer = await hooks.answer(callback(tool_name="Bash"))
    assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "Bash"


# Answers


@pytest.mark.parametrize(
    ("returned", "wire"),
    [
        (None, {}),
        (HookOutput(), {}),
        ({"anything": [1]}, {"anything": [1]}),
        (
            HookOutput(continue_=False, stop_reason="enough", suppress_output=True),
            {"continue": False, "stopReason": "enough", "suppressOutput": True},
        ),
        (AsyncHookOutput(), {"async": True}),
        (block("no"), {"decision": "block", "reason": "no"}),
    ],
)
async def test_a_general_answer_is_written_as_the_cli_reads_it(returned: Any, wire: Any) -> None:
    assert await answer_to(returned) == wire


@pytest.mark.parametrize(
    ("returned", "wire"),
    [
        (deny_tool("no"), {"permissionDecision": "deny", "permissionDecisionReason": "no"}),
        (ask_user("sure?"), {"permissionDecision": "ask", "permissionDecisionReason": "sure?"}),
        (allow_tool(), {"permissionDecision": "allow"}),
        (allow_tool({"a": 1}), {"permissionDecision": "allow", "updatedInput": {"a": 1}}),
        (add_context("note"), {"additionalContext": "note"}),
        (HookOutput(hook_specific_output=deny_tool("no")), None),
    ],
)
async def test_a_verdict_on_a_tool_is_wrapped_in_the_events_own_output(
    returned: Any, wire: Any
) -> None:
    denied = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    specific = {"hookEventName": "PreToolUse", **(wire or denied)}
    assert await answer_to(returned) == {"hookSpecificOutput": specific}


async def test_a_permission_request_can_be_allowed_with_another_input() -> None:
    output = PermissionRequestHookOutput(decision=HookAllow(updated_input={"command": "ls"}))
    assert await answer_to(output, "PermissionRequest") == {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "allow", "updatedInput": {"command": "ls"}},
        }
    }


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (PreToolUseHookOutput(), "a Stop hook cannot return PreToolUseHookOutput"),
        (HookOutput(hook_specific_output=PostToolUseHookOutput()), "PostToolUseHookOutput"),
        ("yes", "a Stop hook cannot return str"),
        (StopHookInput(), "StopHookInput"),
        ({"a": object()}, "object"),
    ],
)
async def test_an_answer_the_event_does_not_have_is_a_failure(
    returned: Any, complaint: str
) -> None:
    with pytest.raises(HookFailed, match=complaint):
        await answer_to(returned, "Stop")


@pytest.mark.parametrize("event", ["SessionEnd", "CwdChanged"])
async def test_context_cannot_be_added_where_there_is_no_place_for_it(event: str) -> None:
    with pytest.raises(HookFailed, match="cannot add context"):
        await answer_to(add_context("note"), event)


# Failing


async def test_a_failing_pre_tool_use_hook_denies_the_tool() -> None:
    assert await failure_of("PreToolUse", LookupError("no list")) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "The PreToolUse hook failed: LookupError: no list",
        }
    }


async def test_a_failing_permission_request_hook_denies_the_tool() -> None:
    answer = await failure_of("PermissionRequest", LookupError("no list"))
    assert answer["hookSpecificOutput"] == {
        "hookEventName": "PermissionRequest",
        "decision": {
            "behavior": "deny",
            "message": "The PermissionRequest hook failed: LookupError: no list",
        },
    }


@pytest.mark.parametrize("returned", ["allow", True, PostToolUseHookOutput()])
async def test_a_nonsense_verdict_denies_the_tool(returned: Any) -> None:
    answer = await answer_to(returned, "PreToolUse")
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "event", [each for each in EVENTS if each not in ("PreToolUse", "PermissionRequest")]
)
async def test_any_other_failing_hook_says_that_it_failed(event: str) -> None:
    with pytest.raises(HookFailed, match=f"The {event} hook failed: LookupError: no list"):
        await failure_of(event, LookupError("no list"))


async def test_an_unknown_callback_fails() -> None:
    with pytest.raises(HookFailed, match="no hook is registered as 'gone'"):
        await Hooks().answer(callback("gone"))


async def test_a_hook_that_takes_too_long_denies_the_tool() -> None:
    hooks = Hooks()

    @hooks.on("PreToolUse", timeout=0.01)
    async def check(event: Any) -> None:
        await asyncio.Event().wait()

    output = await hooks.answer(callback("hook_0"))
    assert output["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "TimeoutError" in output["hookSpecificOutput"]["permissionDecisionReason"]


async def test_cancelling_the_call_of_a_hook_is_not_a_failure() -> None:
    hooks, started = Hooks(), asyncio.Event()

    @hooks.on("PreToolUse")
    async def check(event: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(hooks.answer(callback("hook_0")))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_hook_that_awaits_something_cancelled_denies_the_tool() -> None:
    output = await failure_of("PreToolUse", asyncio.CancelledError())
    assert output["hookSpecificOutput"]["permissionDecision"] == "deny"


# In the background


async def test_a_background_hook_is_answered_before_it_has_run() -> None:
    hooks = Hooks()
    gate, finished = asyncio.Event(), asyncio.Event()

    @hooks.on("PostToolUse", background=True)
    async def log(event: Any) -> None:
        await gate.wait()
        finished.set()

    async with asyncio.timeout(DEADLINE):
        assert await hooks.answer(callback(hook_event_name="PostToolUse")) == {"async": True}
        assert not finished.is_set()
        gate.set()
        await finished.wait()
        await hooks.aclose()


async def test_the_client_can_own_the_task_of_a_background_hook() -> None:
    hooks = Hooks()
    ran: list[str] = []

    @hooks.on("PostToolUse", background=True)
    async def log(event: HookInput) -> None:
        ran.append(event.session_id)

    async with asyncio.TaskGroup() as group:

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            group.create_task(work)

        await hooks.answer(callback(session_id="s"), spawn=spawn)
        assert ran == []
    assert ran == ["s"]


async def test_closing_ends_background_hooks() -> None:
    hooks = Hooks()
    started, cancelled = asyncio.Event(), asyncio.Event()

    @hooks.on("PostToolUse", background=True)
    async def hang(event: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with asyncio.timeout(DEADLINE):
        await hooks.answer(callback())
        await started.wait()
        await hooks.aclose()
        assert cancelled.is_set()
        await hooks.aclose()


async def test_a_failing_background_hook_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks()

    @hooks.on(PermissionRequestHookInput, background=True)
    async def fail(event: PermissionRequestHookInput) -> None:
        raise LookupError("no list")

    async with asyncio.TaskGroup() as group:
        await hooks.answer(callback(), spawn=lambda work: group.create_task(work))
    assert "the background PermissionRequest hook failed" in caplog.text
