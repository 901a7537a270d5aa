"""Turns a reply into the events of the Messages API's stream, or into one whole message. Pure."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse_sim.scenario import Gate, Pause, Raw, Text, Thinking, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse_sim.scenario import Reply, Step

__all__ = ["Event", "Ids", "speak", "spoken"]

Event = dict[str, Any]


class Ids:
    """Numbers messages and tool calls, so that a run's ids are the same every time."""

    def __init__(self, messages: int = 0, tools: int = 0) -> None:
        self._messages = count(messages + 1)
        self._tools = count(tools + 1)

    def message(self) -> str:
        """An id for the next message."""
        return f"msg_scripted_{next(self._messages):04}"

    def tool(self) -> str:
        """An id for the next tool call."""
        return f"toolu_scripted_{next(self._tools):04}"


def speak(reply: Reply, *, model: str, ids: Ids) -> Iterator[Event | Gate | Pause]:
    """The events of one streamed message, with the waits between them.

    Texts that follow each other form one block, also across a gate or a pause: this is how a
    stream is held in the middle of a sentence.
    """
    yield {"type": "message_start", "message": _envelope(reply, model, ids.message())}
    yield from _Blocks(ids).walk(reply.steps)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stopped_by, "stop_sequence": None},
        "usage": {"output_tokens": reply.usage.output_tokens},
    }
    yield {"type": "message_stop"}


def spoken(reply: Reply, *, model: str, ids: Ids) -> Event:
    """The same message in one piece, for calls that do not stream."""
    content = [block for step in reply.steps if (block := _whole(step, ids)) is not None]
    message = _envelope(reply, model, ids.message())
    usage = msgspec.to_builtins(reply.usage)
    return message | {"content": content, "stop_reason": reply.stopped_by, "usage": usage}


class _Blocks:
    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._index = -1
        self._in_text = False

    def walk(self, steps: tuple[Step, ...]) -> Iterator[Event | Gate | Pause]:
        for step in steps:
            match step:
                case Gate() | Pause():
                    yield step
                case Raw():
                    yield step.event
                case Text():
                    yield from self._text(step)
                case Thinking() | ToolCall():
                    yield from self._end_text()
                    yield from self._block(step)
        yield from self._end_text()

    def _text(self, step: Text) -> Iterator[Event | Pause]:
        if not self._in_text:
            self._in_text = True
            yield self._start({"type": "text", "text": ""})
        for number, piece in enumerate(step.pieces()):
            if number and step.delay:
                yield Pause(step.delay)
            yield self._delta({"type": "text_delta", "text": piece})

    def _end_text(self) -> Iterator[Event]:
        if self._in_text:
            self._in_text = False
            yield self._stop()

    def _block(self, step: Thinking | ToolCall) -> Iterator[Event]:
        if isinstance(step, Thinking):
            yield self._start({"type": "thinking", "thinking": "", "signature": ""})
            for piece in step.pieces():
                yield self._delta({"type": "thinking_delta", "thinking": piece})
            yield self._delta({"type": "signature_delta", "signature": step.signature})
        else:
            yield self._start(_tool_use(step, {}, self._ids))
            for piece in step.pieces():
                yield self._delta({"type": "input_json_delta", "partial_json": piece})
        yield self._stop()

    def _start(self, block: Event) -> Event:
        self._index += 1
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: Event) -> Event:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop(self) -> Event:
        return {"type": "content_block_stop", "index": self._index}


def _envelope(reply: Reply, model: str, message_id: str) -> Event:
    usage = msgspec.to_builtins(reply.usage)
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 1},
    }


def _whole(step: Step, ids: Ids) -> Event | None:
    match step:
        case Text():
            return {"type": "text", "text": "".join(step.pieces())}
        case Thinking():
            return {"type": "thinking", "thinking": step.thinking, "signature": step.signature}
        case ToolCall():
            return _tool_use(step, step.input, ids)
        case Gate() | Pause() | Raw():
            return None


def _tool_use(call: ToolCall, arguments: Event, ids: Ids) -> Event:
    own = call.id or ids.tool()
    return {"type": "tool_use", "id": own, "name": call.name, "input": arguments}
