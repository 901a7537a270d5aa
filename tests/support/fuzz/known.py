"""Lines that have once been too much for some part: each of them is tried in every run."""

from __future__ import annotations

from zlib import crc32

HALF, OTHER = rb"\ud83d", rb"\ude00"


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _init(members: bytes) -> bytes:
    return b'{"type":"system","subtype":"init",' + members + b"}"


def _result(members: bytes) -> bytes:
    return b'{"type":"result","subtype":"success",' + members + b"}"


def _asks(members: bytes) -> bytes:
    """A request for leave, with an id of its own."""
    request = b'{"subtype":"can_use_tool","tool_use_id":"t",' + members + b"}"
    name = b"known-%d" % crc32(members)
    return b'{"type":"control_request","request_id":"' + name + b'","request":' + request + b"}"


NAMES = [
    *(_init(b'"session_id":"' + each + b'"') for each in (b"../../x", rb"a\u0000b", HALF, b"..")),
    _init(b'"session_id":"/tmp/pilothouse-astray"'),
    _init(b'"session_id":"' + b"a" * 5000 + b'"'),
    _init(b'"model":"' + HALF + b'","permissionMode":"' + OTHER + b'"'),
]
TEXTS = [
    b'{"type":"system","subtype":"session_title_changed","title":"' + HALF + b'"}',
    b'{"type":"system","subtype":"api_retry","error":"' + OTHER + b'"}',
    b'{"type":"system","subtype":"task_started","task_id":"' + HALF + b'","description":"x"}',
    b'{"type":"assistant","message":{"model":"big","content":[{"type":"text","text":"'
    + HALF
    + b'"}]}}',
    b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"'
    + HALF
    + b'","name":"a"}]}}',
    b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'
    + OTHER
    + b'"}]}}',
    b'{"type":"rate_limit_event","rate_limit_info":{"status":"' + HALF + b'","' + OTHER + b'":1}}',
    b'{"type":"result","errors":"' + HALF + b'"}',
    b'{"type":"result","modelUsage":{"m":{"inputTokens":"' + HALF + b'"}}}',
    b'{"type":"' + HALF + b'"}',
    _result(b'"result":"' + HALF + b'"'),
]
NUMBERS = [
    *[_result(b'"usage":{"input_tokens":9223372036854775807}')] * 2,
    _result(b'"usage":{"input_tokens":18446744073709551616}'),
    _result(b'"total_cost_usd":-1.7e308'),
    _result(b'"total_cost_usd":1.7e308'),
    _result(b'"total_cost_usd":-Infinity'),
    _result(b'"total_cost_usd":NaN'),
    _result(b'"total_cost_usd":1' + b"0" * 4000),
    _result(b'"total_cost_usd":1' + b"0" * 10_000),
    _result(b'"model_usage_since_last_result":{"a":{"costUSD":1.7e308},"b":{"costUSD":1.7e308}}'),
    _result(
        b'"num_turns":"x","model_usage_since_last_result":{"a":{"costUSD":1' + b"0" * 19 + b"}}"
    ),
    _result(b'"modelUsage":{"a":{"contextWindow":200000}}'),
    b'{"type":"system","subtype":"compact_boundary","compact_metadata":{"post_tokens":1'
    + b"0" * 4000
    + b"}}",
    b'{"type":"system","subtype":"api_retry","retry_delay_ms":1e400}',
    b'{"type":"system","subtype":"api_retry","retry_delay_ms":NaN}',
    b'{"type":"rate_limit_event","rate_limit_info":{"resetsAt":1' + b"0" * 5000 + b"}}",
]
ASKS = [
    b'{"type":"control_request","request_id":"' + HALF + b'","request":{"subtype":"can_use_tool"}}',
    _asks(b'"tool_name":"' + HALF + b'","input":{"command":"' + OTHER + b'"}'),
    _asks(b'"tool_name":"Bash","input":"a' + HALF + b'"'),
    _asks(b'"tool_name":"Bash","input":{"command":"x","n":NaN}'),
    _asks(b'"tool_name":"Bash","input":{"command":"x","n":1' + b"0" * 400 + b"}"),
    *(
        _asks(b'"tool_name":"Bash","input":{"command":' + _nested(each) + b"}")
        for each in (300, 900, 970)
    ),
    _asks(b'"tool_name":"AskUserQuestion","input":{"questions":[{"question":"' + HALF + b'"},7]}'),
    b'{"type":"control_request","request_id":"e","request":{"subtype":"elicitation","message":"'
    + HALF
    + b'","requested_schema":{"properties":{"name":{"type":1e400}}}}}',
]
BYTES = [
    *(b'{"type":"user', b'\xef\xbb\xbf{"type":"keep_alive"}', b'{"t\xffype":"user"}', b"\xff\xfe"),
    *(_nested(5000), b'{"type":"user","x":' + _nested(1500) + b"}"),
    b'{"type":"keep_alive","uuid":' + _nested(206) + b',"uuid":1}',
]
KNOWN = [*NAMES, *TEXTS, *NUMBERS, *ASKS, *BYTES]
