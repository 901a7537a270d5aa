from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse_sim.scenario import (
    Gate,
    Pause,
    Raw,
    Reply,
    Text,
    Thinking,
    ToolCall,
    gate,
    reply,
    text,
    thinking,
    tool,
)
from pilothouse_sim.speech import Ids, speak, spoken

TEXTS = st.builds(Text, text=st.text(max_size=12), chunk=st.integers(0, 4))
THOUGHTS = st.builds(Thinking, thinking=st.text(max_size=12), chunk=st.integers(0, 4))
CALLS = st.builds(
    ToolCall,
    name=st.just("Bash"),
    input=st.dictionaries(st.text(max_size=4), st.text(max_size=6), max_size=3),
    chunk=st.integers(0, 4),
)
WAITS = st.builds(Gate, st.just("g")) | st.builds(Pause, st.just(0.0))
REPLIES = st.builds(Reply, steps=st.lists(TEXTS | THOUGHTS | CALLS | WAITS, max_size=6).map(tuple))


def assemble(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Puts a stream together the way a client of the API does."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                add(blocks[event["index"]], event["delta"])
            case _:
                pass
    for block in blocks:
        written = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written)
    return blocks


def add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["json"] += delta["partial_json"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case kind:
            key = kind.removesuffix("_delta")
            block[key] += delta[key]


def stream(said: Reply) -> list[dict[str, Any]]:
    events = speak(said, model="m", ids=Ids())
    return [event for event in events if isinstance(event, dict)]


def joined(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring texts as one, as the stream has them."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        if out and out[-1]["type"] == block["type"] == "text":
            out[-1] = {"type": "text", "text": out[-1]["text"] + block["text"]}
        else:
            out.append(block)
    return out


@given(REPLIES)
def test_a_stream_adds_up_to_the_whole_message(said: Reply) -> None:
    events = stream(said)
    whole = spoken(said, model="m", ids=Ids())
    assert assemble(events) == joined(whole["content"])
    assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"]


@given(REPLIES)
def test_every_block_is_closed_before_the_next_one_opens(said: Reply) -> None:
    kinds = [event["type"] for event in stream(said)]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    opened = 0
    for kind in kinds:
        opened += {"content_block_start": 1, "content_block_stop": -1}.get(kind, 0)
        assert opened in (0, 1)
    assert opened == 0


def test_a_gate_between_two_texts_holds_one_block_open() -> None:
    events = list(speak(reply("Hel", gate("mid"), "lo"), model="m", ids=Ids()))
    kinds = [event if isinstance(event, Gate | Pause) else event["type"] for event in events]
    assert kinds[1:6] == [
        "content_block_start",
        "content_block_delta",
        Gate("mid"),
        "content_block_delta",
        "content_block_stop",
    ]


def test_a_delay_falls_between_the_deltas() -> None:
    events = list(speak(reply(text("abc", chunk=1, delay=0.5)), model="m", ids=Ids()))
    assert [event for event in events if isinstance(event, Pause)] == [Pause(0.5), Pause(0.5)]


def test_thinking_ends_with_its_signature() -> None:
    deltas = [event["delta"] for event in stream(reply(thinking("Hm."))) if "delta" in event]
    assert [delta.get("type") for delta in deltas[:2]] == ["thinking_delta", "signature_delta"]


def test_tool_calls_get_ids_unless_they_bring_one() -> None:
    said = reply(tool("Bash", command="ls"), ToolCall(name="Bash", id="mine"), tool("Bash"))
    found = [block["id"] for block in assemble(stream(said))]
    assert found[1] == "mine"
    assert len(set(found)) == 3


def test_raw_events_pass_unchanged() -> None:
    assert {"type": "ping"} in stream(reply(Raw({"type": "ping"})))
