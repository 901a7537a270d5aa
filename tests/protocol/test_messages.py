"""`decode`: every line that is a JSON object becomes a message, and nothing of it is lost."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.protocol import messages, system
from pilothouse.protocol.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from pilothouse.protocol.control import CanUseTool, ControlRequest
from pilothouse.protocol.messages import (
    AssistantMessage,
    ConversationResetMessage,
    Message,
    NotAMessage,
    ResultMessage,
    StreamEvent,
    UnknownMessage,
    UserMessage,
    decode,
)
from pilothouse.protocol.stream import (
    ContentBlockDelta,
    ContentBlockStart,
    MessageDelta,
    MessageStart,
    TextDelta,
    UnknownDelta,
    UnknownStreamEvent,
)
from pilothouse.protocol.wire import encode_json
from tests.support.protocol.declarations import (
    FIELDS,
    SHAPE_IDS,
    SHAPES,
    is_part_of,
    undeclared,
    walk,
)

TYPES = sorted({entry["type"] for entry in FIELDS["messages"]})
NAMES = sorted(
    {path.split(".")[0].replace("[]", "") for m in FIELDS["messages"] for path in m["fields"]}
)
SUBTYPES = sorted({entry["subtype"] or "" for entry in FIELDS["messages"]})


def line(**members: Any) -> bytes:
    return json.dumps(members).encode()


def delta(**members: Any) -> bytes:
    return line(
        type="stream_event", event={"type": "content_block_delta", "index": 3, "delta": members}
    )


@pytest.mark.parametrize("sample", SHAPES, ids=SHAPE_IDS)
def test_a_recorded_line_is_understood_whole(sample: bytes) -> None:
    message = decode(sample)
    assert "Unknown" not in type(message).__name__
    assert message.raw == sample
    assert message.extra == {}
    walk(message)


@pytest.mark.parametrize("sample", SHAPES, ids=SHAPE_IDS)
def test_a_recorded_line_encodes_to_what_it_was(sample: bytes) -> None:
    again = json.loads(encode_json(decode(sample)))
    assert is_part_of(again, json.loads(sample))


@pytest.mark.parametrize("sample", SHAPES, ids=SHAPE_IDS)
def test_a_line_that_was_read_and_not_changed_encodes_to_itself(sample: bytes) -> None:
    message = decode(sample)
    walk(message)
    assert encode_json(message) == sample


def test_what_was_changed_in_a_message_is_written() -> None:
    read = {"type": "result", "result": "old", "usage": {"input_tokens": 1, "later": 2}, "new": 3}
    message = decode(line(**read))
    assert isinstance(message, ResultMessage)
    message.result, message.usage.input_tokens, message.subtype = "mended", 5, "success"
    usage = {"input_tokens": 5, "later": 2}
    changed = {**read, "result": "mended", "usage": usage, "subtype": "success"}
    assert json.loads(encode_json(message)) == changed


def test_what_was_changed_in_a_part_that_is_read_on_demand_is_written() -> None:
    block = {"type": "text", "text": "old", "later": 1}
    message = decode(line(type="assistant", message={"content": [block, {"type": "odd", "a": 1}]}))
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.content[0], TextBlock)
    message.content[0].text = "mended"
    blocks = json.loads(encode_json(message))["message"]["content"]
    assert blocks == [{**block, "text": "mended"}, {"type": "odd", "a": 1}]


def test_a_request_that_was_changed_is_written_so() -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "later": 1}
    asked = decode(line(type="control_request", request_id="1", request=request))
    assert isinstance(asked, ControlRequest)
    assert isinstance(asked.request, CanUseTool)
    asked.request.tool_name, asked.request_id = "Read", "2"
    again = json.loads(encode_json(asked))
    assert again["request"] == {**request, "tool_name": "Read"}
    assert again["request_id"] == "2"


def test_a_piece_of_an_answer_that_was_changed_is_written_so() -> None:
    message = decode(delta(type="text_delta", text="old", later=1))
    assert isinstance(message, StreamEvent)
    assert isinstance(message.event, ContentBlockDelta)
    assert isinstance(message.event.delta, TextDelta)
    message.event.delta.text, message.parent_tool_use_id = "mended", "p"
    again = json.loads(encode_json(message))
    assert again["event"]["delta"] == {"type": "text_delta", "text": "mended", "later": 1}
    assert again["parent_tool_use_id"] == "p"


def test_a_member_that_was_taken_out_is_not_written() -> None:
    message = decode(line(type="result", subtype="success", result="old"))
    assert isinstance(message, ResultMessage)
    message.result = None
    assert json.loads(encode_json(message)) == {"type": "result", "subtype": "success"}


@pytest.mark.parametrize(
    "entry", FIELDS["messages"], ids=lambda entry: f"{entry['type']}/{entry['subtype']}"
)
def test_every_documented_member_is_declared(entry: dict[str, Any]) -> None:
    message = decode(line(type=entry["type"], subtype=entry["subtype"] or ""))
    assert not isinstance(message, UnknownMessage | system.UnknownSystemMessage)
    assert undeclared(type(message), entry["fields"]) == []
    assert message.type == entry["type"]


def test_an_unknown_type_is_kept_with_everything_it_said() -> None:
    raw = line(type="weather", subtype="rain", kind="x", mm=3, uuid="u", session_id="s")
    message = decode(raw)
    assert isinstance(message, UnknownMessage)
    assert (message.type, message.subtype, message.uuid, message.session_id) == (
        "weather",
        "rain",
        "u",
        "s",
    )
    assert message.data == json.loads(raw)
    assert message.extra == {"kind": "x", "mm": 3}


@pytest.mark.parametrize("members", [{}, {"type": 5}, {"type": None}, {"type": ["system"]}])
def test_an_object_without_a_usable_type_is_still_a_message(members: dict[str, Any]) -> None:
    message = decode(line(**members))
    assert isinstance(message, UnknownMessage)
    assert message.type == ""
    assert message.data == members


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b"[SandboxDebug] hello", "not JSON"),
        (b'{"type":"user"', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"null", "not an object"),
        (b"[1]", "not an object"),
        (b'"text"', "not an object"),
        (b"12", "not an object"),
    ],
)
def test_a_line_that_is_no_object_is_refused_with_a_reason(text: bytes, reason: str) -> None:
    with pytest.raises(NotAMessage, match=reason):
        decode(text)


def test_members_may_come_in_any_order() -> None:
    message = decode(b'{"is_error":true,"subtype":"success","result":"oops","type":"result"}')
    assert isinstance(message, ResultMessage)
    assert (message.is_error, message.result) == (True, "oops")


def test_members_not_declared_are_found_in_extra() -> None:
    message = decode(line(type="result", subtype="success", novelty={"a": 1}))
    assert message.extra == {"novelty": {"a": 1}}


def test_no_member_can_replace_what_we_keep_of_a_message() -> None:
    raw = line(
        type="assistant",
        raw="forged",
        _text="forged",
        text="forged",
        content=["forged"],
        message={"role": "assistant", "content": [{"type": "text", "text": "true"}]},
    )
    message = decode(raw)
    assert isinstance(message, AssistantMessage)
    assert message.raw == raw
    assert message.text == "true"
    assert [block.type for block in message.content] == ["text"]


def test_a_message_built_here_has_the_text_it_would_be_sent_as() -> None:
    message = ResultMessage(subtype="success", result="hi")
    again = decode(message.raw)
    assert again == message
    assert json.loads(message.raw)["is_error"] is False


def test_assistant_content_is_typed_and_read_once() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "Bash"}]
    message = decode(line(type="assistant", message={"id": "m", "content": blocks}))
    assert isinstance(message, AssistantMessage)
    text, tool = message.content
    assert isinstance(text, TextBlock)
    assert isinstance(tool, ToolUseBlock)
    assert (message.text, message.message.id, tool.name, tool.input) == ("a", "m", "Bash", {})
    assert message.content is message.content


def test_user_content_given_as_a_string_is_one_text_block() -> None:
    message = decode(line(type="user", message={"role": "user", "content": "hello"}))
    assert isinstance(message, UserMessage)
    assert message.content == [TextBlock(text="hello")]
    assert message.text == "hello"
    assert message.tool_use_result is None


def test_a_tool_result_keeps_the_tools_own_form() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}
    message = decode(
        line(type="user", message={"content": [block]}, tool_use_result={"stdout": "x"})
    )
    assert isinstance(message, UserMessage)
    (result,) = message.content
    assert isinstance(result, ToolResultBlock)
    assert (result.text, result.blocks) == ("x", [TextBlock(text="x")])
    assert message.tool_use_result == {"stdout": "x"}


def test_a_text_delta_gives_its_text() -> None:
    event = decode(delta(type="text_delta", text="Hi"))
    assert isinstance(event, StreamEvent)
    assert (event.text, event.thinking, event.partial_json) == ("Hi", None, None)


def test_a_piece_of_an_answer_is_nothing_to_the_garbage_collector() -> None:
    event = decode(delta(type="text_delta", text="Hi"))
    assert isinstance(event, StreamEvent)
    assert isinstance(event.event, ContentBlockDelta)
    members = [getattr(event, name) for name in event.__struct_fields__]
    assert not any(map(gc.is_tracked, [event, *members, event.event.delta]))


def test_the_prompts_of_a_piece_are_read_one_by_one() -> None:
    event = decode(line(type="stream_event", user_message_uuids=["a", 5, "b"]))
    assert isinstance(event, StreamEvent)
    assert event.user_message_uuids == ("a", "b")
    assert json.loads(encode_json(event))["user_message_uuids"] == ["a", 5, "b"]


def test_a_thinking_delta_gives_its_thinking() -> None:
    event = decode(delta(type="thinking_delta", thinking="hm"))
    assert isinstance(event, StreamEvent)
    assert (event.text, event.thinking, event.partial_json) == (None, "hm", None)


def test_an_input_delta_gives_its_piece_of_json() -> None:
    event = decode(delta(type="input_json_delta", partial_json='{"a'))
    assert isinstance(event, StreamEvent)
    assert (event.text, event.thinking, event.partial_json) == (None, None, '{"a')


def test_an_unknown_delta_is_kept() -> None:
    event = decode(delta(type="colour_delta", colour="red"))
    assert isinstance(event, StreamEvent)
    assert isinstance(event.event, ContentBlockDelta)
    assert event.event.index == 3
    assert isinstance(event.event.delta, UnknownDelta)
    assert event.event.delta.type == "colour_delta"
    assert event.event.delta.data == {"type": "colour_delta", "colour": "red"}
    assert json.loads(encode_json(event))["event"]["delta"] == event.event.delta


def test_an_unknown_stream_event_is_kept() -> None:
    event = decode(line(type="stream_event", session_id="s", event={"type": "new", "x": 1}))
    assert isinstance(event, StreamEvent)
    assert isinstance(event.event, UnknownStreamEvent)
    assert (event.event.type, event.event.data) == ("new", {"type": "new", "x": 1})
    assert json.loads(encode_json(event))["event"] == {"type": "new", "x": 1}
    assert event.session_id == "s"


def test_the_start_of_a_stream_gives_message_and_block() -> None:
    start = decode(
        line(type="stream_event", event={"type": "message_start", "message": {"id": "m"}})
    )
    assert isinstance(start, StreamEvent)
    assert isinstance(start.event, MessageStart)
    assert start.event.message.id == "m"
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    opened = decode(line(type="stream_event", event=block))
    assert isinstance(opened, StreamEvent)
    assert isinstance(opened.event, ContentBlockStart)
    assert isinstance(opened.event.content_block, TextBlock)


def test_the_end_of_a_stream_tells_why_and_what_it_used() -> None:
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 5},
    }
    event = decode(line(type="stream_event", event=end))
    assert isinstance(event, StreamEvent)
    assert isinstance(event.event, MessageDelta)
    assert event.event.delta.stop_reason == "end_turn"
    assert event.event.usage is not None
    assert event.event.usage.output_tokens == 5


def test_a_wrong_type_costs_only_its_own_member() -> None:
    message = decode(
        line(type="result", subtype="success", num_turns="three", total_cost_usd=1, result="ok")
    )
    assert isinstance(message, ResultMessage)
    assert (message.num_turns, message.total_cost_usd, message.result) == (0, 1, "ok")


def test_a_wrong_type_deep_inside_costs_only_its_own_member() -> None:
    message = decode(
        line(
            type="result",
            modelUsage={"m": {"inputTokens": 1, "outputTokens": "x"}, "n": {"costUSD": 2.5}},
            permission_denials=[{"tool_name": 4, "tool_use_id": "t"}, "odd"],
        )
    )
    assert isinstance(message, ResultMessage)
    assert message.model_usage["m"].input_tokens == 1
    assert message.model_usage["m"].output_tokens == 0
    assert message.model_usage["n"].cost_usd == 2.5
    assert [denial.tool_use_id for denial in message.permission_denials] == ["t"]


def test_lone_surrogates_survive() -> None:
    raw = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a\\ud83d"}]}}'
    message = decode(raw)
    assert isinstance(message, AssistantMessage)
    assert message.text == "a\ud83d"
    assert message.raw == raw


def test_a_surrogate_in_a_delta_survives() -> None:
    event = decode(delta(type="text_delta", text="\ud83d"))
    assert isinstance(event, StreamEvent)
    assert event.text == "\ud83d"


def test_invalid_utf8_is_replaced_where_it_is_read_and_kept_in_raw() -> None:
    raw = b'{"type":"conversation_reset","new_conversation_id":"a\xff","uuid":"u"}'
    message = decode(raw)
    assert isinstance(message, ConversationResetMessage)
    assert (message.new_conversation_id, message.uuid, message.raw) == ("a\ufffd", "u", raw)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 30, "9" * 5000])
def test_numbers_out_of_range_do_not_hide_a_message(number: str) -> None:
    raw = f'{{"type":"result","num_turns":{number},"result":"r","later":{number}}}'.encode()
    message = decode(raw)
    assert isinstance(message, ResultMessage)
    assert message.result == "r"
    walk(message)


def test_of_members_given_twice_the_last_counts() -> None:
    message = decode(b'{"type":"user","type":"result","result":"a","result":"b"}')
    assert isinstance(message, ResultMessage)
    assert message.result == "b"


def test_absurd_nesting_keeps_the_line_and_all_that_is_not_nested_so() -> None:
    raw = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"type":"assistant","uuid":"u"}'
    message = decode(raw)
    assert isinstance(message, AssistantMessage)
    assert (message.uuid, message.raw) == ("u", raw)
    walk(message)


def test_nobody_is_asked_for_leave_to_what_is_nested_absurdly() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    ask = b'{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls","x":%s}}' % deep
    message = decode(b'{"type":"control_request","request_id":"r","request":' + ask + b"}")
    assert isinstance(message, ControlRequest)
    assert message.request_id == "r"
    assert not isinstance(message.request, CanUseTool)


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"x":' + b"[" * 100_000])
def test_absurd_nesting_without_a_type_is_refused(raw: bytes) -> None:
    with pytest.raises(NotAMessage):
        decode(raw)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
    | st.sampled_from([*TYPES, *SUBTYPES, "text", "tool_use", "content_block_delta"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*NAMES, "type", "content", "text", "delta", "raw", "_text"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
lines = st.builds(
    lambda members, kind, subtype: {**members, **kind, **subtype},
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), json_values, max_size=6),
    st.just({}) | st.sampled_from(TYPES).map(lambda kind: {"type": kind}),
    st.just({}) | st.sampled_from(SUBTYPES).map(lambda subtype: {"subtype": subtype}),
)


@given(lines)
def test_any_object_becomes_a_message_that_can_be_looked_at(members: dict[str, Any]) -> None:
    raw = json.dumps(members).encode()
    message = decode(raw)
    assert message.raw == raw
    walk(message)


@given(lines, st.sampled_from(TYPES))
def test_a_known_type_is_never_unknown_whatever_its_members(
    members: dict[str, Any], kind: str
) -> None:
    message = decode(json.dumps({**members, "type": kind}).encode())
    assert not isinstance(message, UnknownMessage)
    assert message.type == kind


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        inner: Any = value.items()
    else:
        inner = enumerate(value) if isinstance(value, list) else ()
    return found + [path for key, each in inner for path in paths(each, (*at, key))]


@given(st.data())
def test_a_member_of_another_type_anywhere_keeps_the_class(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from(SHAPES))
    changed = json.loads(sample)
    fixed = [("type",), ("subtype",)]
    path = data.draw(st.sampled_from([each for each in paths(changed) if each not in fixed]))
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = data.draw(json_values)
    message = decode(json.dumps(changed).encode())
    assert type(message) is type(decode(sample))
    walk(message)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_message_or_refused_as_none(raw: bytes) -> None:
    try:
        message: Message = decode(raw)
    except NotAMessage:
        return
    assert message.raw == raw
    walk(message)


@pytest.mark.parametrize("depth", [50, 400, *range(880, 1020, 7), 5000])
@pytest.mark.parametrize("name", ["message", "tool_use_result", "novelty", "uuid"])
def test_nesting_of_any_depth_can_be_looked_at(name: str, depth: int) -> None:
    raw = b'{"type":"user","%s":' % name.encode() + b'{"content":[' * depth + b"]}" * depth + b"}"
    message = decode(raw)
    assert message.raw == raw
    walk(message)


def test_every_message_class_is_public() -> None:
    for kind in messages.Message.__subclasses__():
        assert not kind.__name__.startswith("_")
