"""The connection: events do not depend on cuts, nothing raises, each ask is answered once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.protocol import (
    Connection,
    ControlResponse,
    Event,
    IllegalSend,
    Initialize,
    Interrupt,
    LineRejected,
    Message,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    ResultMessage,
    Role,
    SetPermissionMode,
    StreamEnded,
    UserMessage,
)
from pilothouse.protocol.wire import encode

STREAMS = sorted((Path(__file__).parents[1] / "data/streams").glob("*/*.jsonl"))


def client() -> Connection:
    numbers = itertools.count(1)
    return Connection(Role.CLIENT, new_request_id=lambda: f"r{next(numbers)}")


def received(connection: Connection, *chunks: bytes) -> list[Event]:
    for chunk in chunks:
        connection.receive_data(chunk)
    return connection.events()


def raws(events: list[Event]) -> list[Any]:
    """Events in a form that can be compared: their kind and the bytes they came from."""
    return [(type(event).__name__, _raw(event)) for event in events]


def _raw(event: Event) -> bytes:
    match event:
        case Message():
            return event.raw
        case RequestReceived() | RequestCancelled():
            return event.message.raw
        case ResponseReceived():
            return event.response.raw
        case LineRejected():
            return event.line
        case StreamEnded():
            return b""


def permission(request_id: str = "c1") -> bytes:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
    return encode({"type": "control_request", "request_id": request_id, "request": request})


def response(request_id: str, **body: Any) -> bytes:
    return encode(
        {"type": "control_response", "response": {"request_id": request_id, **body}},
    )


# Cutting


def all_at_once(stream: bytes) -> list[Any]:
    connection = client()
    connection.receive_data(stream)
    connection.receive_eof()
    return raws(connection.events())


@given(st.sampled_from(STREAMS), st.data())
def test_events_do_not_depend_on_where_the_stream_is_cut(path: Path, data: st.DataObject) -> None:
    stream = path.read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=60).map(sorted))
    connection = client()
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        connection.receive_data(stream[start:end])
    connection.receive_eof()
    assert raws(connection.events()) == all_at_once(stream)


NOISE = st.lists(
    st.sampled_from(
        [
            b'{"type":"keep_alive"}',
            b'{"type":"control_cancel_request","request_id":"x"}',
            b'{"type":"new"}',
            b"\n",
            b" ",
            b"\r",
            b"\r\n",
            b"{",
            b"}",
            b"[debug]",
            b"\xff",
        ]
    ),
    max_size=14,
).map(b"".join)


@given(NOISE, st.none() | st.integers(1, 60), st.data())
def test_events_of_a_noisy_stream_do_not_depend_on_its_cuts_either(
    stream: bytes, limit: int | None, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    whole, cut = (Connection(Role.CLIENT, max_line=limit) for _ in range(2))
    whole.receive_data(stream)
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        cut.receive_data(stream[start:end])
    for connection in (whole, cut):
        connection.receive_eof()
    apart, together = cut.events(), whole.events()
    assert [name for name, _ in raws(together)] == [name for name, _ in raws(apart)]
    assert [sizes(together), sizes(apart)] == [sizes(apart)] * 2


def sizes(events: list[Any]) -> list[int]:
    return [event.size for event in events if isinstance(event, LineRejected)]


def test_two_objects_on_one_line_are_no_two_messages() -> None:
    line = b'{"type":"keep_alive"}{"type":"control_cancel_request","request_id":"x"}'
    assert received(client(), line + b"\n \n") == [LineRejected("not JSON", line)]


def test_a_stream_fed_byte_by_byte_gives_the_same_events() -> None:
    stream = min(STREAMS, key=lambda path: path.stat().st_size).read_bytes()
    connection = client()
    for index in range(len(stream)):
        connection.receive_data(stream[index : index + 1])
    connection.receive_eof()
    assert raws(connection.events()) == all_at_once(stream)


@pytest.mark.parametrize("path", STREAMS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_recorded_line_comes_out_as_it_went_in(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    connection = client()
    connection.receive_data(path.read_bytes())
    events = connection.events()
    assert [_raw(event) for event in events] == lines
    assert not any(isinstance(event, LineRejected) for event in events)


# Lines


def test_crlf_line_ends_are_taken_off() -> None:
    (event,) = received(client(), b'{"type":"keep_alive"}\r', b"\n")
    assert isinstance(event, Message)
    assert event.raw == b'{"type":"keep_alive"}'


def test_a_last_line_without_a_newline_counts() -> None:
    connection = client()
    connection.receive_data(b'{"type":"keep_alive"}')
    assert connection.events() == []
    connection.receive_eof()
    assert [name for name, _ in raws(connection.events())] == ["KeepAliveMessage", "StreamEnded"]


def test_the_end_is_told_once() -> None:
    connection = client()
    connection.receive_eof()
    connection.receive_eof()
    assert raws(connection.events()) == [("StreamEnded", b"")]
    assert connection.ended


@pytest.mark.parametrize("line", [b"", b"   ", b"\t", b"\r"])
def test_blank_lines_are_no_events(line: bytes) -> None:
    assert received(client(), line + b"\n") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[SandboxDebug] starting", "not JSON"),
        (b'{"type":', "not JSON"),
        (b"null", "not an object"),
        (b"[1]", "not an object"),
        (b"17", "not an object"),
    ],
)
def test_noise_is_rejected_and_the_stream_goes_on(line: bytes, reason: str) -> None:
    noise, message = received(client(), line + b'\n{"type":"keep_alive"}\n')
    assert noise == LineRejected(reason, line)
    assert isinstance(message, Message)


def test_a_line_over_the_limit_is_rejected_and_the_stream_goes_on() -> None:
    connection = Connection(Role.CLIENT, max_line=50)
    long = b'{"type":"user","x":"' + b"a" * 5000 + b'"}'
    chunks = [
        long[:30],
        long[30:4000],
        long[4000:] + b'\n{"type":"keep_',
        b'alive"}\n' + long,
        b"\n",
    ]
    first, message, last = received(connection, *chunks)
    assert isinstance(first, LineRejected)
    assert isinstance(last, LineRejected)
    assert first.reason == last.reason == "longer than 50 bytes"
    assert first.size == last.size == len(long)
    assert long.startswith(first.line)
    assert isinstance(message, Message)


def test_a_line_of_exactly_the_limit_passes() -> None:
    line = b'{"type":"keep_alive"}'
    connection = Connection(Role.CLIENT, max_line=len(line))
    assert isinstance(received(connection, line[:5], line[5:] + b"\n")[0], Message)


@given(st.lists(st.binary(max_size=200), max_size=20), st.none() | st.integers(1, 100))
def test_no_bytes_make_it_raise(chunks: list[bytes], limit: int | None) -> None:
    connection = Connection(Role.CLIENT, max_line=limit)
    for chunk in chunks:
        connection.receive_data(chunk)
    connection.receive_eof()
    assert isinstance(connection.events()[-1], StreamEnded)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
TYPES = [
    "control_request",
    "control_response",
    "control_cancel_request",
    "result",
    "system",
    "user",
]
CONTROL = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "request_id": st.sampled_from(["r1", "c1", "", 3, None]),
        "request": JSON | st.fixed_dictionaries({"subtype": st.sampled_from(["can_use_tool", 1])}),
        "response": JSON
        | st.fixed_dictionaries(
            {"subtype": st.sampled_from(["success", "error", None]), "request_id": JSON},
            optional={"response": JSON, "pending_permission_requests": JSON, "error": JSON},
        ),
    },
)


@given(st.sampled_from(list(Role)), st.lists(CONTROL, max_size=12))
def test_no_control_messages_make_it_raise(role: Role, messages: list[dict[str, Any]]) -> None:
    connection = Connection(role, new_request_id=lambda: "r1")
    connection.send_request(Interrupt())
    for message in messages:
        connection.receive_data(json.dumps(message).encode() + b"\n")
        for event in connection.events():
            if isinstance(event, RequestReceived):
                assert connection.send_response(event.request_id)
                assert not connection.send_response(event.request_id)
    for line in connection.data_to_send().splitlines():
        assert isinstance(json.loads(line), dict)


# Requests of ours


def test_a_response_is_matched_to_its_request() -> None:
    connection = client()
    first = connection.send_request(Initialize())
    second = connection.send_request(SetPermissionMode("plan"))
    (event,) = received(connection, response(second, subtype="success", response={"mode": "plan"}))
    assert isinstance(event, ResponseReceived)
    assert event.request == SetPermissionMode("plan")
    assert list(connection.pending) == [first]


def test_a_second_response_is_a_plain_message() -> None:
    # 2.1.37 answers set_permission_mode twice.
    connection = client()
    request_id = connection.send_request(SetPermissionMode("plan"))
    line = response(request_id, subtype="success")
    first, second = received(connection, line, line)
    assert isinstance(first, ResponseReceived)
    assert isinstance(second, ControlResponse)


def test_the_echo_of_our_own_response_is_a_plain_message() -> None:
    connection = client()
    received(connection, permission())
    connection.send_response("c1", {"behavior": "allow"})
    (echo,) = received(connection, connection.data_to_send())
    assert isinstance(echo, ControlResponse)


def test_an_answer_to_a_forgotten_request_is_a_plain_message() -> None:
    connection = client()
    request_id = connection.send_request(Interrupt())
    connection.forget(request_id)
    assert isinstance(received(connection, response(request_id))[0], ControlResponse)


def test_requests_are_served_while_ours_is_pending() -> None:
    connection = client()
    request_id = connection.send_request(Initialize())
    connection.data_to_send()
    (asked,) = received(connection, permission())
    assert isinstance(asked, RequestReceived)
    assert connection.send_response("c1", {"behavior": "allow", "updatedInput": {}})
    assert json.loads(connection.data_to_send())["response"]["request_id"] == "c1"
    assert list(connection.pending) == [request_id]


# Requests of the peer's


def test_each_request_is_answered_at_most_once() -> None:
    connection = client()
    received(connection, permission())
    assert connection.send_error("c1", "no")
    assert not connection.send_response("c1", {"behavior": "allow"})
    assert len(connection.data_to_send().splitlines()) == 1


def test_a_withdrawn_request_gets_no_answer() -> None:
    connection = client()
    asked, cancelled = received(
        connection, permission(), encode({"type": "control_cancel_request", "request_id": "c1"})
    )
    assert isinstance(asked, RequestReceived)
    assert isinstance(cancelled, RequestCancelled)
    assert not connection.send_response("c1", {})
    assert connection.data_to_send() == b""


def test_an_unknown_id_gets_no_answer() -> None:
    connection = client()
    assert not connection.send_response("nobody asked", {})
    assert connection.data_to_send() == b""


def test_several_requests_may_be_open_and_answered_in_any_order() -> None:
    connection = client()
    received(connection, permission("a"), permission("b"))
    assert list(connection.asked) == ["a", "b"]
    assert connection.send_response("b", {})
    assert connection.send_response("a", {})


def test_a_repeated_request_is_reported_once() -> None:
    first, second = received(client(), permission("a"), permission("a"))
    assert isinstance(first, RequestReceived)
    assert not isinstance(second, RequestReceived)


def test_a_repeated_initialize_brings_back_what_is_still_asked() -> None:
    connection = client()
    request_id = connection.send_request(Initialize())
    pending = json.loads(permission("open"))
    answered, asked = received(
        connection,
        response(request_id, subtype="success", response={}, pending_permission_requests=[pending]),
    )
    assert isinstance(answered, ResponseReceived)
    assert isinstance(asked, RequestReceived)
    assert connection.send_response("open", {"behavior": "deny", "message": "no"})


def test_nothing_is_answered_after_the_end() -> None:
    connection = client()
    received(connection, permission())
    connection.receive_eof()
    assert not connection.send_response("c1", {})


# What a client never writes


def test_a_client_never_writes_a_cancel_request() -> None:
    # 2.1.37 exits when it reads one.
    connection = client()
    request_id = connection.send_request(Interrupt())
    connection.data_to_send()
    with pytest.raises(IllegalSend):
        connection.send_cancel(request_id)
    assert connection.data_to_send() == b""


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "assistant"},
        {"type": "control_cancel_request", "request_id": "x"},
        {"type": "user"},
        {"type": "user", "message": "hi"},
        {"type": "user", "message": {"role": "assistant", "content": "hi"}},
        {"type": "user", "message": {"role": "user"}},
    ],
)
def test_a_client_writes_nothing_that_ends_a_cli(message: dict[str, Any]) -> None:
    connection = client()
    with pytest.raises(IllegalSend):
        connection.send_message(message)
    assert connection.data_to_send() == b""


@given(JSON)
def test_what_is_written_is_one_json_object_on_one_line(value: Any) -> None:
    connection = client()
    connection.send_message({"type": "user", "message": {"role": "user", "content": [value]}})
    data = connection.data_to_send()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert isinstance(json.loads(data), dict)


def test_a_lone_surrogate_is_written_escaped() -> None:
    connection = client()
    connection.send_message({"type": "user", "message": {"role": "user", "content": "\ud83d"}})
    assert b"\\ud83d" in connection.data_to_send()


# The other role


def test_two_connections_understand_each_other() -> None:
    ours, theirs = client(), Connection(Role.CLI)
    request_id = ours.send_request(SetPermissionMode("acceptEdits"))
    ours.send_message({"type": "user", "message": {"role": "user", "content": "hi"}})
    asked, prompt = received(theirs, ours.data_to_send())
    assert isinstance(asked, RequestReceived)
    assert asked.message.client_request == SetPermissionMode("acceptEdits")
    assert isinstance(prompt, UserMessage)
    theirs.send_response(asked.request_id, {"mode": "acceptEdits"})
    theirs.send_message({"type": "result", "subtype": "success", "result": "done"})
    answered, result = received(ours, theirs.data_to_send())
    assert isinstance(answered, ResponseReceived)
    assert answered.request_id == request_id
    assert isinstance(result, ResultMessage)


def test_a_cli_withdraws_its_request_at_the_client() -> None:
    ours, theirs = client(), Connection(Role.CLI)
    request_id = theirs.send_request(Interrupt())
    theirs.send_cancel(request_id)
    asked, cancelled = received(ours, theirs.data_to_send())
    assert isinstance(asked, RequestReceived)
    assert isinstance(cancelled, RequestCancelled)
    assert not theirs.pending
