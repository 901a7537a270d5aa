"""Control requests, responses and what they carry, both ways."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse import protocol
from pilothouse.protocol.control import (
    CanUseTool,
    CLIRequest,
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    Elicitation,
    HookCallback,
    UiRequest,
    UnknownRequest,
    decode_client_request,
    decode_inbound,
    decode_pending_requests,
    encode_request,
    read_reply,
)
from pilothouse.protocol.control_replies import InitializeResult, InterruptReceipt, ModelSet
from pilothouse.protocol.control_requests import (
    AgentDefinition,
    GetContextUsage,
    GetMcpStatus,
    Initialize,
    Interrupt,
    McpCall,
    McpCallInput,
    McpMessage,
    McpSetServers,
    McpToggle,
    RenameSession,
    SetModel,
    SetPermissionMode,
    StopTask,
)
from pilothouse.protocol.hook_outputs import HookMatcher
from pilothouse.protocol.hooks import PreToolUseHookInput
from pilothouse.protocol.host_requests import CLIENT_REQUESTS
from pilothouse.protocol.mcp_servers import McpSdkServer, McpStdioServer
from pilothouse.protocol.messages import decode
from pilothouse.protocol.permissions import SetMode
from pilothouse.protocol.reports import ContextUsage
from pilothouse.protocol.wire import encode_json
from tests.support.protocol.declarations import FIELDS, undeclared, walk


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def asked(**request: Any) -> ControlRequest:
    message = decode(raw({"type": "control_request", "request_id": "r", "request": request}))
    assert isinstance(message, ControlRequest)
    return message


def answered(**body: Any) -> ControlResponse:
    message = decode(raw({"type": "control_response", "response": body}))
    assert isinstance(message, ControlResponse)
    return message


# What the CLI asks


@pytest.mark.parametrize("subtype", FIELDS["cli_requests"])
def test_every_documented_question_is_declared(subtype: str) -> None:
    request = asked(subtype=subtype, novelty=1).request
    assert not isinstance(request, UnknownRequest)
    assert request.subtype == subtype
    assert undeclared(type(request), FIELDS["cli_requests"][subtype]) == []
    assert request.extra == {"novelty": 1}


def test_a_permission_request_is_typed() -> None:
    request = asked(
        subtype="can_use_tool",
        tool_name="Bash",
        input={"command": "ls"},
        permission_suggestions=[{"type": "setMode", "mode": "plan", "destination": "session"}],
    ).request
    assert isinstance(request, CanUseTool)
    assert (request.tool_name, request.input) == ("Bash", {"command": "ls"})
    assert request.permission_suggestions == [SetMode(mode="plan")]


def test_a_hook_call_carries_the_input_of_its_event() -> None:
    request = asked(
        subtype="hook_callback",
        callback_id="cb",
        input={"hook_event_name": "PreToolUse", "tool_name": "Bash"},
    ).request
    assert isinstance(request, HookCallback)
    assert isinstance(request.input, PreToolUseHookInput)
    assert (request.callback_id, request.input.tool_name) == ("cb", "Bash")


def test_an_mcp_message_is_carried_as_it_is() -> None:
    message = {"method": "tools/list", "jsonrpc": "2.0", "id": 0}
    request = asked(subtype="mcp_message", server_name="calc", message=message).request
    assert isinstance(request, McpMessage)
    assert (request.server_name, request.message) == ("calc", message)


def test_an_elicitation_keeps_the_order_of_its_form() -> None:
    request = asked(subtype="elicitation", message="Name?", property_order=["b", "a"]).request
    assert isinstance(request, Elicitation)
    assert request.property_order == ["b", "a"]


def test_a_request_of_the_hosts_screen_is_recognised_as_such() -> None:
    request = asked(subtype="ui_copy", text="x").request
    assert isinstance(request, UiRequest)
    assert request.data == {"subtype": "ui_copy", "text": "x"}


def test_an_unknown_question_is_kept_whole() -> None:
    request = asked(subtype="sing", song="la", kind="k").request
    assert isinstance(request, UnknownRequest)
    assert request.subtype == "sing"
    assert request.data == {"subtype": "sing", "song": "la", "kind": "k"}
    assert request.extra == {"song": "la", "kind": "k"}


@pytest.mark.parametrize("body", [{}, {"request": None}, {"request": 4}, {"request": {}}])
def test_a_request_without_a_body_is_unknown(body: dict[str, Any]) -> None:
    message = decode(raw({"type": "control_request", "request_id": "r", **body}))
    assert isinstance(message, ControlRequest)
    assert message.request_id == "r"
    assert isinstance(message.request, UnknownRequest)
    assert isinstance(message.client_request, UnknownRequest)


@given(
    st.sampled_from(sorted(FIELDS["cli_requests"])),
    st.dictionaries(
        st.sampled_from(["input", "message", "permission_suggestions", "tool_name", "payload"]),
        st.none() | st.text(max_size=3) | st.integers() | st.lists(st.none(), max_size=2),
    ),
)
def test_a_known_question_is_never_unknown_whatever_its_members(
    subtype: str, members: dict[str, Any]
) -> None:
    message = asked(**{**members, "subtype": subtype})
    assert not isinstance(message.request, UnknownRequest)
    walk(message)


def test_a_withdrawal_names_its_request() -> None:
    message = decode(b'{"type":"control_cancel_request","request_id":"r"}')
    assert isinstance(message, ControlCancelRequest)
    assert message.request_id == "r"


# What a client asks


@pytest.mark.parametrize("subtype", FIELDS["client_requests"])
def test_every_documented_request_is_declared(subtype: str) -> None:
    kind = CLIENT_REQUESTS[subtype]
    assert undeclared(kind, FIELDS["client_requests"][subtype]) == []


def test_no_request_is_known_that_is_not_documented() -> None:
    assert set(CLIENT_REQUESTS) == set(FIELDS["client_requests"])


@pytest.mark.parametrize("subtype", FIELDS["client_requests"])
def test_a_request_is_read_back_by_a_cli(subtype: str) -> None:
    request = decode_client_request(raw({"subtype": subtype}))
    assert type(request) is CLIENT_REQUESTS[subtype]
    assert request.subtype == subtype
    assert asked(subtype=subtype).client_request == request
    walk(request)


@pytest.mark.parametrize("subtype", FIELDS["replies"])
def test_every_documented_reply_is_declared(subtype: str) -> None:
    reply = CLIENT_REQUESTS[subtype].reply
    assert undeclared(reply, FIELDS["replies"][subtype]) == []


@pytest.mark.parametrize("name", FIELDS["shapes"])
def test_every_documented_shape_is_declared(name: str) -> None:
    assert undeclared(getattr(protocol, name), FIELDS["shapes"][name]) == []


def test_what_is_not_set_is_not_written() -> None:
    assert encode_request(GetContextUsage()) == {"subtype": "get_context_usage"}
    assert encode_request(Interrupt()) == {"subtype": "interrupt"}
    assert encode_request(GetContextUsage(detail="full")) == {
        "subtype": "get_context_usage",
        "detail": "full",
    }


def test_none_is_written_as_null() -> None:
    assert encode_request(SetModel(model=None)) == {"subtype": "set_model", "model": None}
    assert encode_request(Initialize(hooks=None)) == {"subtype": "initialize", "hooks": None}


def test_falsehood_is_written() -> None:
    assert encode_request(McpToggle("calc", enabled=False)) == {
        "subtype": "mcp_toggle",
        "serverName": "calc",
        "enabled": False,
    }


def test_names_are_those_of_the_wire() -> None:
    assert encode_request(GetMcpStatus(live_reply=True)) == {
        "subtype": "mcp_status",
        "liveReply": True,
    }
    assert encode_request(RenameSession("t", session_id="s")) == {
        "subtype": "rename_session",
        "title": "t",
        "session_id": "s",
    }


def test_initialize_carries_hooks_and_agents() -> None:
    request = Initialize(
        hooks={"PreToolUse": [HookMatcher(["cb"], matcher="Bash")]},
        agents={"rev": AgentDefinition("reviews", "Review.", max_turns=3)},
        sdk_mcp_servers=["calc"],
        json_schema={"type": "object"},
    )
    assert encode_request(request) == {
        "subtype": "initialize",
        "hooks": {"PreToolUse": [{"hookCallbackIds": ["cb"], "matcher": "Bash"}]},
        "agents": {"rev": {"description": "reviews", "prompt": "Review.", "maxTurns": 3}},
        "sdkMcpServers": ["calc"],
        "jsonSchema": {"type": "object"},
    }
    assert decode_client_request(encode_json(request)) == request


def test_servers_may_be_structs_or_plain_members() -> None:
    request = McpSetServers(
        {"a": McpStdioServer("run"), "b": McpSdkServer("b"), "c": {"type": "http", "url": "u"}}
    )
    assert encode_request(request)["servers"] == {
        "a": {"command": "run", "type": "stdio"},
        "b": {"name": "b", "type": "sdk"},
        "c": {"type": "http", "url": "u"},
    }


def test_files_for_an_mcp_call_are_named() -> None:
    request = McpCall("mcp__s__t", input_files=[McpCallInput("a", "/lane/a")])
    assert encode_request(request)["input_files"] == [{"name": "a", "lane_path": "/lane/a"}]


def test_a_request_which_lacks_a_member_is_still_what_it_is() -> None:
    request = decode_client_request(b'{"subtype":"set_permission_mode"}')
    assert isinstance(request, SetPermissionMode)


def test_a_mode_unheard_of_reaches_the_cli() -> None:
    request = decode_client_request(b'{"subtype":"set_permission_mode","mode":"bogus"}')
    assert isinstance(request, SetPermissionMode)
    assert str(request.mode) == "bogus"


def test_an_unknown_request_is_kept_whole() -> None:
    request = decode_client_request(b'{"subtype":"sing","song":"la"}')
    assert isinstance(request, UnknownRequest)
    assert request.data == {"subtype": "sing", "song": "la"}


# Answers


def test_a_reply_has_the_type_its_request_promises() -> None:
    response = answered(
        subtype="success", request_id="r", response={"still_queued": ["u"], "novelty": 1}
    )
    receipt = read_reply(Interrupt(), response)
    assert isinstance(receipt, InterruptReceipt)
    assert (receipt.still_queued, receipt.cancelled) == (["u"], [])
    assert receipt.extra == {"novelty": 1}
    assert json.loads(receipt.raw) == {"still_queued": ["u"], "novelty": 1}


def test_a_reply_without_a_body_is_an_empty_one() -> None:
    assert read_reply(SetModel("x"), answered(subtype="success", request_id="r")) == ModelSet()


def test_a_large_report_is_typed_all_through() -> None:
    usage = read_reply(
        GetContextUsage(),
        answered(
            subtype="success",
            request_id="r",
            response={
                "totalTokens": 7,
                "percentage": 1,
                "gridRows": [[{"color": "red", "isFilled": True}]],
                "messageBreakdown": {"toolCallsByType": [{"name": "Bash", "callTokens": 2}]},
            },
        ),
    )
    assert isinstance(usage, ContextUsage)
    assert (usage.total_tokens, usage.grid_rows[0][0].is_filled) == (7, True)
    assert usage.message_breakdown is not None
    assert usage.message_breakdown.tool_calls_by_type[0].call_tokens == 2


def test_the_recorded_answer_to_initialize_is_understood_whole() -> None:
    from tests.support.protocol.declarations import SHAPES

    (sample,) = [each for each in SHAPES if b'"hook_on_failure_supported"' in each]
    response = decode(sample)
    assert isinstance(response, ControlResponse)
    reply = read_reply(Initialize(), response)
    assert isinstance(reply, InitializeResult)
    assert reply.extra == {}
    assert reply.commands[0].name == "deep-research"
    assert reply.account.api_key_source == "ANTHROPIC_API_KEY"
    assert response.response["pid"] == reply.pid


def test_an_error_tells_why() -> None:
    response = answered(subtype="error", request_id="r", error="no", error_code="invalid_mode")
    assert (response.subtype, response.request_id, response.error, response.error_code) == (
        "error",
        "r",
        "no",
        "invalid_mode",
    )
    assert response.response == {}


def test_questions_still_open_are_read_from_an_answer() -> None:
    def pending(number: int, subtype: str) -> dict[str, Any]:
        return {
            "type": "control_request",
            "request_id": f"p{number}",
            "request": {"subtype": subtype},
        }

    response = answered(
        subtype="success",
        request_id="r",
        pending_permission_requests=[pending(1, "can_use_tool"), {"type": "control_request"}, 3],
        pending_user_dialog_requests=[pending(2, "request_user_dialog")],
        pending_elicitation_requests=[pending(3, "elicitation")],
    )
    found = decode_pending_requests(response)
    assert [(each.request_id, each.request.subtype) for each in found] == [
        ("p1", "can_use_tool"),
        ("p2", "request_user_dialog"),
        ("p3", "elicitation"),
    ]


@pytest.mark.parametrize("body", [None, 3, {}, {"response": 4}, {"pending_permission_requests": 1}])
def test_an_odd_answer_is_an_answer(body: Any) -> None:
    message = decode(raw({"type": "control_response", "response": body}))
    assert isinstance(message, ControlResponse)
    walk(message)
    assert decode_pending_requests(message) == []


def test_a_request_knows_its_reply() -> None:
    assert StopTask.reply.__name__ == "Empty"
    assert GetContextUsage.reply is ContextUsage


def test_no_question_of_the_clis_is_a_request_of_the_clients_but_mcp_messages() -> None:
    shared = set(FIELDS["cli_requests"]) & set(FIELDS["client_requests"])
    assert shared == {"mcp_message"}
    assert not issubclass(McpMessage, CLIRequest)
    assert isinstance(decode_inbound(b'{"subtype":"mcp_message"}'), msgspec.Struct)
