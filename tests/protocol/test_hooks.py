"""Hook inputs and outputs."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.protocol import hook_outputs, hooks
from pilothouse.protocol.hook_outputs import (
    AsyncHookOutput,
    HookAllow,
    HookDeny,
    HookMatcher,
    HookOutput,
    PermissionRequestHookOutput,
    PreToolUseHookOutput,
    decode_hook_output,
)
from pilothouse.protocol.hooks import (
    HookEvent,
    PermissionRequestHookInput,
    PreToolUseHookInput,
    StopHookInput,
    UnknownHookInput,
    decode_hook_input,
)
from pilothouse.protocol.permissions import SetMode
from pilothouse.protocol.wire import encode_json
from tests.support.protocol.declarations import FIELDS, undeclared, walk

EVENTS = list(FIELDS["hook_inputs"])


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_the_events_are_the_documented_ones() -> None:
    assert sorted(get_args(HookEvent)) == sorted(EVENTS)
    assert len(EVENTS) == 33


@pytest.mark.parametrize("event", EVENTS)
def test_every_documented_input_is_declared(event: str) -> None:
    given_input = decode_hook_input(raw({"hook_event_name": event, "cwd": "/w", "novelty": 1}))
    assert not isinstance(given_input, UnknownHookInput)
    assert given_input.hook_event_name == event
    assert (given_input.cwd, given_input.extra) == ("/w", {"novelty": 1})
    assert undeclared(type(given_input), FIELDS["hook_inputs"][event]) == []


@pytest.mark.parametrize("event", FIELDS["hook_outputs"])
def test_every_documented_output_is_declared(event: str) -> None:
    kind = getattr(hook_outputs, f"{event}HookOutput")
    paths = [path for path in FIELDS["hook_outputs"][event] if not path.startswith("decision.")]
    assert undeclared(kind, paths) == []


@pytest.mark.parametrize("name", ["HookOutput", "AsyncHookOutput", "HookMatcher"])
def test_every_documented_member_is_declared(name: str) -> None:
    assert undeclared(getattr(hook_outputs, name), FIELDS["shapes"][name]) == []


@pytest.mark.parametrize("name", ["BackgroundTaskSummary", "SessionCronSummary", "BatchedToolCall"])
def test_every_documented_part_is_declared(name: str) -> None:
    assert undeclared(getattr(hooks, name), FIELDS["shapes"][name]) == []


def test_an_unknown_event_is_kept_whole() -> None:
    given_input = decode_hook_input(raw({"hook_event_name": "Eclipse", "cwd": "/w", "sun": 0}))
    assert isinstance(given_input, UnknownHookInput)
    assert (given_input.hook_event_name, given_input.cwd) == ("Eclipse", "/w")
    assert given_input.data == {"hook_event_name": "Eclipse", "cwd": "/w", "sun": 0}
    assert given_input.extra == {"sun": 0}


def test_an_input_of_a_wrong_type_costs_only_its_member() -> None:
    given_input = decode_hook_input(
        raw({"hook_event_name": "PreToolUse", "tool_name": 3, "tool_input": {"a": 1}})
    )
    assert isinstance(given_input, PreToolUseHookInput)
    assert (given_input.tool_name, given_input.tool_input) == ("", {"a": 1})


def test_suggestions_of_a_permission_hook_are_typed() -> None:
    given_input = decode_hook_input(
        raw(
            {
                "hook_event_name": "PermissionRequest",
                "permission_suggestions": [{"type": "setMode", "mode": "plan"}],
            }
        )
    )
    assert isinstance(given_input, PermissionRequestHookInput)
    assert given_input.permission_suggestions == [SetMode(mode="plan")]


def test_a_stop_tells_what_still_runs() -> None:
    given_input = decode_hook_input(
        raw({"hook_event_name": "Stop", "background_tasks": [{"id": "b", "type": "shell"}]})
    )
    assert isinstance(given_input, StopHookInput)
    assert given_input.background_tasks[0].id == "b"


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=3) | st.integers()))
def test_any_object_is_an_input(members: dict[str, Any]) -> None:
    for event in ({}, {"hook_event_name": "PreToolUse"}):
        walk(decode_hook_input(raw({**members, **event})))


def test_an_empty_output_writes_nothing() -> None:
    assert encode_json(HookOutput()) == b"{}"


def test_an_output_is_written_in_the_wires_own_names() -> None:
    output = HookOutput(
        continue_=False,
        stop_reason="enough",
        hook_specific_output=PreToolUseHookOutput(
            permission_decision="deny", permission_decision_reason="no"
        ),
    )
    assert json.loads(encode_json(output)) == {
        "continue": False,
        "stopReason": "enough",
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no",
        },
    }
    assert decode_hook_output(encode_json(output)) == output


@pytest.mark.parametrize("decision", [HookAllow(updated_input={"a": 1}), HookDeny(message="no")])
def test_a_permission_hook_decides(decision: HookAllow | HookDeny) -> None:
    output = HookOutput(hook_specific_output=PermissionRequestHookOutput(decision=decision))
    assert decode_hook_output(encode_json(output)) == output


def test_an_async_output_is_told_apart() -> None:
    assert encode_json(AsyncHookOutput(async_timeout=5)) == b'{"async":true,"asyncTimeout":5}'
    assert decode_hook_output(b'{"async":true}') == AsyncHookOutput()
    assert decode_hook_output(b'{"async":false}') == HookOutput()


def test_an_output_for_an_unknown_event_is_left_out_when_read() -> None:
    output = decode_hook_output(raw({"reason": "r", "hookSpecificOutput": {"hookEventName": "X"}}))
    assert isinstance(output, HookOutput)
    assert output.reason == "r"
    assert output.hook_specific_output is msgspec.UNSET


def test_plain_members_can_be_sent_for_an_event_unknown_here() -> None:
    output = HookOutput(hook_specific_output={"hookEventName": "X", "a": 1})
    assert json.loads(encode_json(output)) == {"hookSpecificOutput": {"hookEventName": "X", "a": 1}}


def test_a_matcher_is_written_in_camel_case() -> None:
    matcher = HookMatcher(hook_callback_ids=["cb"], matcher="Bash", on_failure="block")
    assert json.loads(encode_json(matcher)) == {
        "hookCallbackIds": ["cb"],
        "matcher": "Bash",
        "onFailure": "block",
    }
