"""Writes one reply of the model as the CLI does: stream events, and a line per finished block."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse_sim.simulator.ledger import Spent
from pilothouse_sim.simulator.synthetic import tell_refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_use import ToolParts, ToolUses

__all__ = ["ReplyWriter", "SpokenReply"]

Block = dict[str, Any]


class SpokenReply(msgspec.Struct, kw_only=True):
    """A reply as it was passed on: whole, or up to where it broke off."""

    id: str = ""
    blocks: list[Block] = []
    stop_reason: str | None = None
    usage: dict[str, Any] = {}
    is_cut: bool = False
    """Whether the stream broke off after these blocks."""


class ReplyWriter:
    """Passes on one reply, and begins the calls in it."""

    def __init__(
        self,
        state: SessionState,
        parts: ToolParts,
        conversation: ModelConversation,
        tally: Tally,
        uses: ToolUses,
    ) -> None:
        self._state = state
        self._parts = parts
        self._conversation = conversation
        self._tally = tally
        self._uses = uses
        self._outlet = state.outlet
        self._started = time.monotonic()
        self._message: dict[str, Any] = {}
        self._open: Block | None = None
        self._json = ""
        self._thinking_since = 0.0
        self.spoken = SpokenReply(blocks=[])

    async def pass_on(self, events: AsyncIterator[dict[str, Any]]) -> SpokenReply:
        """Write everything and return what was said."""
        async for event in events:
            if event["type"] == "content_block_stop" and self._open is not None:
                await self._show(self._open)
            getattr(self, f"_on_{event['type']}", self._stream)(event)
        return self.spoken

    async def pass_on_whole(self, message: dict[str, Any]) -> SpokenReply:
        """Write a reply that came in one piece: no events, only its lines."""
        spent = Spent()
        spent.add(message["usage"])
        self._message = message | {"usage": spent.as_usage()}
        self.spoken = SpokenReply(
            id=message["id"],
            blocks=[],
            stop_reason=message["stop_reason"],
            usage=dict(message["usage"]),
        )
        for block in message["content"]:
            await self._show(block)
            if block["type"] == "tool_use":
                self._amend_call(block)
            self._write_block(block)
        return self.spoken

    async def _show(self, block: Block) -> None:
        if block["type"] == "text" and block["text"] and self._conversation.is_main:
            await self._parts.hooks.shown(block["text"])

    def break_off(self) -> None:
        """Close a reply that is interrupted: what was said so far is a line of its own."""
        index = len(self.spoken.blocks)
        if self._open is not None:
            block = self._finish_block()
            if block.get("text") or block["type"] != "text":
                self._write_block(block, aborted=True)
        self._conversation.say_interrupted("[Request interrupted by user]")
        if self._message and self._conversation.partial:
            self._stream({"type": "content_block_stop", "index": index})
            self._stream({"type": "message_delta", **_broken_off(self._message["usage"])})
            self._stream({"type": "message_stop"}, **self._abandoned(index + 1))

    def abandon(self) -> None:
        """Close a reply whose connection broke: nothing of it counts but the events."""
        if self._message and self._conversation.partial:
            index = len(self.spoken.blocks)
            if self._open is not None and not index:
                self._stream({"type": "content_block_stop", "index": index})
            self._stream({"type": "message_stop"}, **self._abandoned(index))

    def _abandoned(self, index: int) -> dict[str, Any]:
        return {"abandoned_blocks": {"api_message_id": self.spoken.id, "from_block_index": index}}

    # What the model's stream brings

    def _on_message_start(self, event: dict[str, Any]) -> None:
        self._message = event["message"]
        self.spoken.id = self._message["id"]
        self.spoken.usage = dict(self._message["usage"])
        if self._conversation.partial:
            self._conversation.echo_prompts()
        names = {} if self._tally.is_opened else self._tally.names()
        self._tally.is_opened = True
        self._stream(
            event,
            ttft_ms=int((time.monotonic() - self._started) * 1000),
            thinking_display="updates",
            **({**names, "owed_rows": []} if names else {}),
        )

    def _on_content_block_start(self, event: dict[str, Any]) -> None:
        self._open = dict(event["content_block"])
        self._json = ""
        if self._open["type"] == "thinking":
            self._thinking_since = time.monotonic()
            self._stream(event, thinking_display="updates")
        else:
            self._stream(event)

    def _on_content_block_delta(self, event: dict[str, Any]) -> None:
        delta = event["delta"]
        assert self._open is not None
        match delta["type"]:
            case "text_delta":
                self._open["text"] += delta["text"]
            case "thinking_delta":
                self._think(event)
                return
            case "signature_delta":
                self._open["signature"] = delta["signature"]
            case "input_json_delta":
                self._json += delta["partial_json"]
            case "citations_delta":
                # The list of the block's first event is shared with the event.
                given: list[Any] = self._open.get("citations") or []
                self._open["citations"] = [*given, delta["citation"]]
            case _:
                pass
        self._stream(event)

    def _think(self, event: dict[str, Any]) -> None:
        assert self._open is not None
        before = _estimated_tokens(self._open["thinking"])
        self._open["thinking"] += event["delta"]["thinking"]
        total = _estimated_tokens(self._open["thinking"])
        uuids = self._tally.uuids
        self._outlet.system(
            "thinking_tokens",
            estimated_tokens=total,
            estimated_tokens_delta=total - before,
            **({"user_message_uuid": uuids[0]} if uuids else {}),
        )
        self._stream(event, thinking_display="updates")

    def _on_content_block_stop(self, event: dict[str, Any]) -> None:
        self._write_block(self._finish_block())
        self._stream(event)

    def _on_message_delta(self, event: dict[str, Any]) -> None:
        self.spoken.stop_reason = event["delta"].get("stop_reason")
        self.spoken.usage |= event["usage"]
        if self.spoken.stop_reason == "refusal" and self._conversation.is_main:
            self._count_refusal()
        self._stream(event)

    def _count_refusal(self) -> None:
        self._tally.refusals += 1
        self._state.ledger.safety_stops += 1
        if self._tally.refusals > 1:
            tell_refused(self._state, self._conversation, self._tally, self.spoken.id)

    def _stream(self, event: dict[str, Any], **extra: Any) -> None:
        if self._conversation.partial:
            self._outlet.send(
                "stream_event",
                event=event,
                **self._conversation.thread.labels,
                **extra,
                api_message_id=self.spoken.id,
            )

    # Lines

    def _finish_block(self) -> Block:
        block, self._open = self._open, None
        assert block is not None
        if block["type"] in ("tool_use", "server_tool_use"):
            block["input"] = msgspec.json.decode(self._json or "{}")
        if block["type"] == "tool_use":
            self._amend_call(block)
        return block

    def _amend_call(self, block: Block) -> None:
        """Give a call the input that the CLI shows instead of the model's."""
        block["input"] = self._parts.toolbox.shown(block["name"], block["input"])

    def _write_block(self, block: Block, **extra: Any) -> None:
        if block["type"] == "text" and not block["text"]:
            return
        self.spoken.blocks.append(block)
        if not self._conversation.partial:
            self._conversation.echo_prompts()
        if block["type"] == "thinking":
            spent = int((time.monotonic() - self._thinking_since) * 1000)
            extra |= {"thinking_duration_ms": spent, "thinking_display": "updates"}
        self._conversation.write_assistant(
            {**self._message, "content": [block], "context_management": None},
            self._tally,
            **extra,
        )
        if block["type"] == "tool_use" and "aborted" not in extra:
            self._uses.begin(block)


def _estimated_tokens(words: str) -> int:
    return -(-len(words) // 4)


def _broken_off(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "context_management": None,
        "delta": {
            "container": None,
            "stop_details": None,
            "stop_reason": None,
            "stop_sequence": None,
        },
        "usage": {
            "output_tokens_details": {"thinking_tokens": 0},
            "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
            "cache_read_input_tokens": usage["cache_read_input_tokens"],
            "input_tokens": usage["input_tokens"],
            "iterations": [],
            "output_tokens": usage["output_tokens"],
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "fallback_credit": None,
        },
    }
