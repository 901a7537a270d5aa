"""What the model has said, as lines of text, from the journal."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.protocol import AssistantMessage, NotAMessage, TextBlock, decode

from .contract import Event
from .entries import CLI

__all__ = ["lines_of"]


def lines_of(events: Sequence[Event], limit: int) -> list[str]:
    """The last lines of the model's text among these events, sub-agents left out."""
    lines: list[str] = []
    for event in reversed(events):
        if event.kind == CLI:
            lines[:0] = _text(bytes(event.body)).splitlines()
        if len(lines) >= limit:
            break
    return lines[-limit:]


def _text(body: bytes) -> str:
    try:
        message = decode(body)
    except NotAMessage:
        return ""
    if not isinstance(message, AssistantMessage) or message.parent_tool_use_id is not None:
        return ""
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))
