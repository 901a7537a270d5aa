"""What a tool of an MCP server gave back, as the model and the client see it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse_sim.simulator.clock import now_ms
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

__all__ = ["Reader"]

MAX_TOKENS: Final = 25_000
LETTERS_PER_TOKEN: Final = 4
_EXTENSIONS: Final = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif"}

Block = dict[str, Any]


class Reader:
    """Reads results of one server's tools; what is too big goes into `folder`."""

    def __init__(self, server: str, tool: str, full_name: str, folder: Path) -> None:
        self._server = server
        self._tool = tool
        self._full_name = full_name
        self._folder = folder

    def outcome(self, result: Block) -> ToolOutcome:
        """The outcome of a call; raises `ToolFailure` if the tool says that it failed."""
        given: list[Block] = result.get("content") or []
        if result.get("isError"):
            words = [block["text"] for block in given if block.get("type") == "text"]
            raise ToolFailure("\n".join(words) or "Unknown error")
        structured = result.get("structuredContent")
        if structured is not None:
            text = msgspec.json.encode(structured).decode()
            content: str | list[Block] = text
            more = {"structuredContent": structured}
        else:
            content = [made for block in given for made in self._blocks(block)]
            more = {}
        links = [_link(block) for block in given if block.get("type") == "resource_link"]
        more |= {"resourceLinks": links} if links else {}
        more |= {"_meta": result["_meta"]} if "_meta" in result else {}
        content = self._bounded(content)
        shown = content or f"({self._full_name} completed with no output)"
        return ToolOutcome(content=shown, result={"content": content, **more} if more else content)

    def _blocks(self, block: Block) -> list[Block]:
        match block.get("type"):
            case "text":
                return [{"type": "text", "text": block["text"]}]
            case "image":
                return self._image(block)
            case "resource":
                return [_text(self._resource(block["resource"]))]
            case "resource_link":
                return [_text(f"[Resource link: {block['name']}] {block['uri']}")]
            case _:
                return []

    def _resource(self, resource: Block) -> str:
        return f"[Resource from {self._server} at {resource['uri']}] {resource.get('text', '')}"

    def _image(self, block: Block) -> list[Block]:
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        ending = _EXTENSIONS.get(block["mimeType"], "bin")
        path = self._path(f"mcp-{self._server}-blob-{now_ms()}-{os.urandom(3).hex()}.{ending}")
        path.write_bytes(base64.b64decode(block["data"]))
        return [{"type": "image", "source": source}, _text(f"[Image: source: {path}]")]

    def _path(self, name: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name

    def _bounded(self, content: str | list[Block]) -> str | list[Block]:
        """The content, or where it was put if the model could not read all of it."""
        if isinstance(content, str):
            text = content
        else:
            text = "\n".join(block.get("text", "") for block in content)
        if len(text) <= MAX_TOKENS * LETTERS_PER_TOKEN:
            return content
        path = self._path(f"mcp-{self._server}-{self._tool}-{now_ms()}.txt")
        path.write_text(text)
        lines = text.count("\n") + 1
        size = f"{len(text):,} characters across {lines} line{'s' if lines > 1 else ''}"
        return (
            f"Error: result ({size}) exceeds maximum allowed tokens. Output has been saved to"
            f" {path}.\nFormat: Plain text\nRead the file in parts."
        )


def _text(words: str) -> Block:
    return {"type": "text", "text": words}


def _link(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "type"}
