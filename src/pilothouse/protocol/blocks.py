"""Content blocks of the Messages API, as they stand in assistant and user messages.

    Block                   raw, extra, type
      TextBlock, ThinkingBlock, RedactedThinkingBlock
      ToolUseBlock          and its kin which run at the API or an MCP server
      ToolResultBlock       and the results of those
      ImageBlock, DocumentBlock, SearchResultBlock, ContainerUploadBlock
    UnknownBlock            a type this version does not know; nothing of it is lost

`ApiMessage` is the message they stand in.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Raw, field

from .shared import TokenUsage
from .wire import (
    MOST_ITEMS,
    NULL,
    JsonObject,
    Lazy,
    always,
    as_object,
    encode_json,
    keep,
    load,
    members,
    once,
    parse,
)

__all__ = [
    "ApiMessage",
    "Block",
    "ContainerUploadBlock",
    "ContentBlock",
    "DocumentBlock",
    "ImageBlock",
    "McpToolResultBlock",
    "McpToolUseBlock",
    "RedactedThinkingBlock",
    "SearchResultBlock",
    "ServerToolResultBlock",
    "ServerToolUseBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "UnknownBlock",
    "decode_block",
    "decode_blocks",
]


class Block(Lazy, tag_field="type"):
    """One content block: `raw` is its JSON, `extra` the members not declared here."""

    @property
    def type(self) -> str:
        """The block's `type` on the wire."""
        return str(self.__struct_config__.tag)


class TextBlock(Block, tag="text"):
    """Text."""

    text: str = always("")
    citations: list[JsonObject] | None = None


class ThinkingBlock(Block, tag="thinking"):
    """The model's thinking. A block still being written has no signature yet."""

    thinking: str = always("")
    signature: str = always("")


class RedactedThinkingBlock(Block, tag="redacted_thinking"):
    """Thinking that only the API can read."""

    data: str = always("")


class ToolUseBlock(Block, tag="tool_use"):
    """The model calls a tool."""

    id: str = always("")
    name: str = always("")
    input: JsonObject = always({})


class ServerToolUseBlock(Block, tag="server_tool_use"):
    """The model calls a tool that runs at the API."""

    id: str = always("")
    name: str = always("")
    input: JsonObject = always({})


class McpToolUseBlock(Block, tag="mcp_tool_use"):
    """The model calls a tool of an MCP server the API is connected to."""

    id: str = always("")
    name: str = always("")
    server_name: str = always("")
    input: JsonObject = always({})


class _Result(Block):
    tool_use_id: str = always("")
    content: str | list[Any] | None = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The result's text blocks, joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(_texts(self.content or []))


class ToolResultBlock(_Result, tag="tool_result"):
    """What a tool gave back."""

    @once
    def blocks(self) -> list[ContentBlock]:
        """`content` as blocks; a plain string is one text block."""
        return decode_blocks(Raw(encode_json(self.content)))


class McpToolResultBlock(_Result, tag="mcp_tool_result"):
    """What a tool of an MCP server the API is connected to gave back."""


class ServerToolResultBlock(Block):
    """What a tool that runs at the API gave back; `type` tells which tool."""

    tool_use_id: str = always("")
    content: Any = always(None)


class WebSearchToolResultBlock(ServerToolResultBlock, tag="web_search_tool_result"):
    """The result of a web search."""


class WebFetchToolResultBlock(ServerToolResultBlock, tag="web_fetch_tool_result"):
    """The result of fetching a page."""


class CodeExecutionToolResultBlock(ServerToolResultBlock, tag="code_execution_tool_result"):
    """The result of running code."""


class BashCodeExecutionToolResultBlock(
    ServerToolResultBlock, tag="bash_code_execution_tool_result"
):
    """The result of running a shell command at the API."""


class TextEditorCodeExecutionToolResultBlock(
    ServerToolResultBlock, tag="text_editor_code_execution_tool_result"
):
    """The result of editing a file at the API."""


class ToolSearchToolResultBlock(ServerToolResultBlock, tag="tool_search_tool_result"):
    """The result of a search for tools."""


class AdvisorToolResultBlock(ServerToolResultBlock, tag="advisor_tool_result"):
    """The answer of an advisor model."""


class ContainerUploadBlock(Block, tag="container_upload"):
    """A file put into the API's container."""

    file_id: str = always("")


class ImageBlock(Block, tag="image"):
    """An image; `source` says where its bytes are."""

    source: JsonObject = always({})


class DocumentBlock(Block, tag="document"):
    """A document; `source` says where its bytes are."""

    source: JsonObject = always({})
    title: str | None = None
    context: str | None = None
    citations: JsonObject | None = None


class SearchResultBlock(Block, tag="search_result"):
    """A search result given to the model."""

    source: str = always("")
    title: str = always("")
    content: list[Any] = always([])
    citations: JsonObject | None = None


class UnknownBlock(Lazy):
    """A block of a type this version does not know."""

    type: str = ""

    @property
    def data(self) -> JsonObject:
        """The whole block as plain values."""
        return members(self.raw)


ContentBlock = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ServerToolUseBlock
    | McpToolUseBlock
    | ToolResultBlock
    | McpToolResultBlock
    | ServerToolResultBlock
    | ContainerUploadBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | UnknownBlock
)

_CLASSES: dict[str, type[Block]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedThinkingBlock,
    "tool_use": ToolUseBlock,
    "server_tool_use": ServerToolUseBlock,
    "mcp_tool_use": McpToolUseBlock,
    "tool_result": ToolResultBlock,
    "mcp_tool_result": McpToolResultBlock,
    "web_search_tool_result": WebSearchToolResultBlock,
    "web_fetch_tool_result": WebFetchToolResultBlock,
    "code_execution_tool_result": CodeExecutionToolResultBlock,
    "bash_code_execution_tool_result": BashCodeExecutionToolResultBlock,
    "text_editor_code_execution_tool_result": TextEditorCodeExecutionToolResultBlock,
    "tool_search_tool_result": ToolSearchToolResultBlock,
    "advisor_tool_result": AdvisorToolResultBlock,
    "container_upload": ContainerUploadBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
    "search_result": SearchResultBlock,
}

_elements = msgspec.json.Decoder(list[Raw])
_union = msgspec.json.Decoder(
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | ServerToolUseBlock
)


def decode_block(raw: bytes | Raw) -> ContentBlock:
    """One content block; a bare string is a text block."""
    try:
        return keep(_union.decode(raw), raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_rare(raw)


def _decode_rare(raw: bytes | Raw) -> ContentBlock:
    value = parse(raw)
    if isinstance(value, str):
        return TextBlock(text=value)
    kind = as_object(value).get("type")
    known = _CLASSES.get(kind) if isinstance(kind, str) else None
    if known is None:
        return keep(UnknownBlock(type=kind if isinstance(kind, str) else ""), raw)
    return cast(ContentBlock, load(known, raw))


def decode_blocks(raw: bytes | Raw) -> list[ContentBlock]:
    """A message's `content`: a list of blocks, or a string, which is one text block.

    Of more blocks than any message has, the first ones.
    """
    try:
        return [decode_block(each) for each in _elements.decode(raw)[:MOST_ITEMS]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = parse(raw)
    if isinstance(value, str):
        return [TextBlock(text=value)]
    if isinstance(value, list):
        items = cast(list[Any], value)[:MOST_ITEMS]
        return [decode_block(Raw(encode_json(each))) for each in items]
    return []


def _texts(content: list[Any]) -> list[str]:
    texts: list[str] = []
    for each in content:
        text = as_object(each).get("text")
        if isinstance(text, str):
            texts.append(text)
    return texts


class ApiMessage(Lazy):
    """A message of the Messages API, complete or in the making."""

    id: str | None = None
    role: str = always("")
    model: str | None = None
    content_raw: Raw = field(default=NULL, name="content")
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: TokenUsage | None = None
    stop_details: Any = None
    context_management: Any = None
    container: Any = None
    diagnostics: Any = None

    @once
    def content(self) -> list[ContentBlock]:
        """The blocks. A plain string is given as one text block."""
        return decode_blocks(self.content_raw)
