"""Content blocks: typed where known, kept whole where not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.protocol.blocks import (
    ImageBlock,
    ServerToolResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    decode_block,
    decode_blocks,
)
from pilothouse.protocol.wire import MOST_ITEMS

KINDS = [
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "tool_result",
    "image",
    "document",
    "search_result",
]


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_kind_has_its_own_class(kind: str) -> None:
    text = raw({"type": kind, "novelty": 1})
    block = decode_block(text)
    assert not isinstance(block, UnknownBlock)
    assert (block.type, block.raw, block.extra) == (kind, text, {"novelty": 1})


def test_an_unknown_kind_is_kept_whole() -> None:
    block = decode_block(raw({"type": "hologram", "depth": 3}))
    assert isinstance(block, UnknownBlock)
    assert (block.type, block.data) == ("hologram", {"type": "hologram", "depth": 3})


@pytest.mark.parametrize("value", [{}, {"type": 4}, 17, None, [1]])
def test_what_is_no_block_is_unknown(value: Any) -> None:
    block = decode_block(raw(value))
    assert isinstance(block, UnknownBlock)
    assert block.type == ""


def test_a_list_of_blocks_is_read_in_order() -> None:
    blocks = decode_blocks(raw([{"type": "text", "text": "a"}, "b", {"type": "image"}]))
    assert [type(block) for block in blocks] == [TextBlock, TextBlock, ImageBlock]


@pytest.mark.parametrize("value", [None, 3, {"type": "text"}])
def test_content_that_is_neither_list_nor_string_has_no_blocks(value: Any) -> None:
    assert decode_blocks(raw(value)) == []


def test_of_more_blocks_than_any_message_has_the_first_are_read() -> None:
    assert len(decode_blocks(b"[" + b",".join([b"0"] * (2 * MOST_ITEMS)) + b"]")) == MOST_ITEMS
    odd = b"[" + b",".join([b'"\\ud83d"'] * (2 * MOST_ITEMS)) + b"]"
    assert len(decode_blocks(odd)) == MOST_ITEMS


def test_a_block_with_a_wrong_member_keeps_its_kind() -> None:
    block = decode_block(raw({"type": "tool_use", "id": 5, "name": "Bash", "input": {"a": 1}}))
    assert isinstance(block, ToolUseBlock)
    assert (block.id, block.name, block.input) == ("", "Bash", {"a": 1})


def test_thinking_needs_no_signature() -> None:
    block = decode_block(raw({"type": "thinking", "thinking": "hm"}))
    assert isinstance(block, ThinkingBlock)
    assert (block.thinking, block.signature) == ("hm", "")


def test_a_tool_result_gives_its_text_whatever_its_form() -> None:
    plain = decode_block(raw({"type": "tool_result", "content": "one"}))
    listed = decode_block(
        raw({"type": "tool_result", "content": [{"type": "text", "text": "a"}, {"text": "b"}, 1]})
    )
    nothing = decode_block(raw({"type": "tool_result"}))
    texts = [each.text for each in (plain, listed, nothing) if isinstance(each, ToolResultBlock)]
    assert texts == ["one", "a\nb", ""]


def test_the_result_of_a_tool_at_the_api_is_recognised_as_such() -> None:
    block = decode_block(raw({"type": "web_search_tool_result", "tool_use_id": "t", "content": []}))
    assert isinstance(block, ServerToolResultBlock)
    assert (block.tool_use_id, block.content) == ("t", [])


def test_surrogates_in_one_block_do_not_touch_the_others() -> None:
    text = b'[{"type":"text","text":"\\ud83d"},{"type":"text","text":"b"}]'
    blocks = decode_blocks(text)
    assert [block.text for block in blocks if isinstance(block, TextBlock)] == ["\ud83d", "b"]
