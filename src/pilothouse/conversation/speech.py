"""What the model writes: text, thinking and the calls of tools, in pieces and whole.

A block of an API message has no id on the wire that both its pieces and its line carry. What they
share is the message's id and their order among the blocks of their kind, so these make the item's.
Blocks without a word are no items and are not counted: the CLI writes no line for them.
"""

from __future__ import annotations

from typing import Any, Final

from pilothouse.api.items import Item, TextItem, ThinkingItem
from pilothouse.protocol import (
    AssistantMessage,
    ContentBlock,
    ContentBlockDelta,
    ContentBlockStart,
    InputJsonDelta,
    McpToolResultBlock,
    McpToolUseBlock,
    MessageStart,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)

from .bounds import count
from .store import STREAMED, ItemStore
from .tool_calls import ToolCalls

__all__ = ["Speech"]

SYNTHETIC: Final = "<synthetic>"
"""The model of messages that the CLI itself writes."""
CALLS: Final = (ToolUseBlock, ServerToolUseBlock, McpToolUseBlock)


class _Writing:
    """The API message that one agent is writing."""

    __slots__ = ("blocks", "calls", "finished", "message_id", "model", "started")

    def __init__(self, message_id: str, model: str | None) -> None:
        self.message_id = message_id
        self.model = model
        self.started = {"text": 0, "thinking": 0}
        self.finished = {"text": 0, "thinking": 0}
        self.blocks: dict[int, TextItem | ThinkingItem] = {}
        """Blocks that are being written, by their index."""
        self.calls: dict[int, str] = {}

    def next_id(self, kind: str, counts: dict[str, int]) -> str:
        number = counts[kind]
        counts[kind] = number + 1
        return f"{self.message_id}/{kind}{number}"


class Speech:
    """Follows what the model and its subagents write."""

    def __init__(self, store: ItemStore, tools: ToolCalls) -> None:
        self._store = store
        self._tools = tools
        self._writing: dict[str | None, _Writing] = {}
        self._lines: dict[str, list[str]] = {}
        """The items of each line of this turn, by the line's uuid: one may be taken back."""

    # Pieces

    def stream(self, message: StreamEvent, seq: int, at: int) -> None:
        """Take in a piece of a message."""
        event = message.event
        agent = message.parent_tool_use_id
        if type(event) is ContentBlockDelta:
            writing = self._writing.get(agent)
            if writing is None:
                # The entries before are not known: what has come of the message since is shown.
                writing = self._begin(agent, message.uuid or f"message/{seq}", None)
            # Nearly all pieces are of these two kinds.
            delta = event.delta
            item = writing.blocks.get(event.index)
            if item is not None and type(delta) is TextDelta:
                self._store.append(item, delta.text)
            elif type(delta) is InputJsonDelta:
                self._tools.write(writing.calls.get(event.index, ""), len(delta.partial_json))
            else:
                self._delta(writing, event, agent, seq, at)
        elif type(event) is MessageStart:
            started = event.message
            self._begin(agent, started.id or message.uuid, started.model)
        elif type(event) is ContentBlockStart:
            block = event.content_block
            writing = self._writing.get(agent)
            if writing is not None and isinstance(block, CALLS):
                writing.calls[event.index] = block.id
                self._tools.begin_writing(block.id, block.name, agent, seq, at)

    def _delta(
        self, writing: _Writing, event: ContentBlockDelta, agent: str | None, seq: int, at: int
    ) -> None:
        delta = event.delta
        if type(delta) is TextDelta:
            kind, words = "text", delta.text
        elif type(delta) is ThinkingDelta:
            kind, words = "thinking", delta.thinking
        else:
            return
        if not words:
            return
        item = writing.blocks.get(event.index)
        if item is None:
            item_id = writing.next_id(kind, writing.started)
            item = self._new(kind, item_id, agent, seq, at, writing.model, state="streaming")
            writing.blocks[event.index] = item
        self._store.append(item, words)

    def _new(
        self,
        kind: str,
        item_id: str,
        agent: str | None,
        seq: int,
        at: int,
        model: str | None,
        **members: Any,
    ) -> TextItem | ThinkingItem:
        if kind == "text":
            members["model"] = None if model == SYNTHETIC else model
        make = TextItem if kind == "text" else ThinkingItem
        return self._store.add(make(id=item_id, seq=seq, at=at, agent=agent, **members))

    # Whole lines

    def line(self, message: AssistantMessage, seq: int, at: int) -> None:
        """Take in blocks that are complete."""
        agent, api = message.parent_tool_use_id, message.message
        writing = self._begin(agent, api.id or message.uuid, api.model)
        made: list[str] = []
        for block in message.content:
            item = self._block(message, writing, block, seq, at)
            if item is not None:
                made.append(item.id)
        self._lines[message.uuid] = made
        for superseded in message.supersedes:
            self.retract(superseded)

    def _begin(self, agent: str | None, message_id: str, model: str | None) -> _Writing:
        """Go on with the message of this id; what was begun of another is not finished any more."""
        writing = self._writing.get(agent)
        if writing is not None and writing.message_id == message_id:
            return writing
        if writing is not None:
            self._abandon(writing)
        writing = self._writing[agent] = _Writing(message_id, model)
        return writing

    def _block(
        self,
        message: AssistantMessage,
        writing: _Writing,
        block: ContentBlock,
        seq: int,
        at: int,
    ) -> Item | None:
        match block:
            case TextBlock():
                if not block.text:
                    return None
                error = message.error or message.api_error
                members = {"error": error} if error else {}
                return self._finish(writing, "text", block.text, message, seq, at, members)
            case ThinkingBlock() | RedactedThinkingBlock():
                text = block.thinking if isinstance(block, ThinkingBlock) else ""
                taken = message.thinking_duration_ms
                members = {} if taken is None else {"duration_ms": count(taken)}
                return self._finish(writing, "thinking", text, message, seq, at, members)
            case ToolUseBlock() | ServerToolUseBlock() | McpToolUseBlock():
                agent = message.parent_tool_use_id
                return self._tools.call(block.id, block.name, block.input, agent, seq, at)
            case ServerToolResultBlock() | McpToolResultBlock():
                self._tools.api_result(block, seq, at)
                return None
            case _:
                return None

    def _finish(
        self,
        writing: _Writing,
        kind: str,
        text: str,
        message: AssistantMessage,
        seq: int,
        at: int,
        members: dict[str, Any],
    ) -> TextItem | ThinkingItem:
        item_id = writing.next_id(kind, writing.finished)
        writing.started[kind] = max(writing.started[kind], writing.finished[kind])
        item = self._store.get(item_id)
        state = "aborted" if message.aborted else "done"
        if not isinstance(item, STREAMED):
            agent, model = message.parent_tool_use_id, message.message.model
            return self._new(
                kind, item_id, agent, seq, at, model, text=text, state=state, **members
            )
        if writing.blocks:
            writing.blocks = {n: each for n, each in writing.blocks.items() if each is not item}
        # The entry that has all of it; the pieces are gone when the turn is over.
        self._store.finish_text(item, text, state=state, seq=seq, at=at, **members)
        return item

    # Ends

    def end_turn(self, *, is_all: bool) -> None:
        """Nothing more comes of what was being written; `is_all`: not in the background either."""
        for agent in list(self._writing):
            if agent is None or is_all:
                self._abandon(self._writing.pop(agent))
        self._lines.clear()

    def retract(self, line: str) -> None:
        """The CLI takes a line of this turn back."""
        for item_id in self._lines.pop(line, ()):
            item = self._store.get(item_id)
            if item is not None:
                self._store.change(item, state="retracted")

    def _abandon(self, writing: _Writing) -> None:
        for item in writing.blocks.values():
            self._store.remove(item.id)
        for call in writing.calls.values():
            self._tools.abandon(call)
