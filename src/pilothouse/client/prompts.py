"""What a person says to the model: text, images, documents."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import uuid as uuids
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pilothouse.errors import SessionEnded, UsageError
from pilothouse.protocol.wire import JsonObject

from .turns import Turn

__all__ = ["Content", "Priority", "Prompt", "document", "image", "is_command", "user_message"]

Content = str | Sequence[str | Mapping[str, Any]]
"""A text, or blocks; a plain string among the blocks is a text block."""

Priority = Literal["now", "next", "later"]

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Prompt:
    """A prompt that was sent. Await it for the turn that answers it."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self._turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        # Nobody has to await a prompt; an ending it never saw is no error of its own.
        self._turn.add_done_callback(lambda turn: turn.cancelled() or turn.exception())

    def __await__(self) -> Generator[Any, None, Turn]:
        return asyncio.shield(self._turn).__await__()

    @property
    def answered(self) -> bool:
        return self._turn.done()

    def ends_with(self, event: object) -> bool:
        """Whether this event is the last of the turn, or the turn was over without any."""
        if not self._turn.done() or self._turn.exception() is not None:
            return False
        result = self._turn.result().result
        return result is None or result is event

    def settle(self, turn: Turn) -> None:
        if not self._turn.done():
            self._turn.set_result(turn)

    def fail(self, error: SessionEnded) -> None:
        if not self._turn.done():
            self._turn.set_exception(error)


def image(source: bytes | str | Path, media_type: str | None = None) -> JsonObject:
    """An image block, from bytes or from a file."""
    data, kind = _content(source, media_type)
    if kind not in IMAGE_TYPES:
        raise UsageError(f"{kind or 'this'} is no image type the model reads; give media_type")
    return {"type": "image", "source": _base64(kind, data)}


def document(
    source: bytes | str | Path, media_type: str | None = None, *, title: str | None = None
) -> JsonObject:
    """A document block: a PDF, or plain text."""
    data, kind = _content(source, media_type)
    if kind == "application/pdf":
        block: JsonObject = {"type": "document", "source": _base64(kind, data)}
    elif kind is not None and kind.startswith("text/"):
        text = {"type": "text", "media_type": "text/plain", "data": data.decode("utf-8", "replace")}
        block = {"type": "document", "source": text}
    else:
        raise UsageError(f"{kind or 'this'} is no document type the model reads; give media_type")
    return block | ({"title": title} if title is not None else {})


def _content(source: bytes | str | Path, media_type: str | None) -> tuple[bytes, str | None]:
    if isinstance(source, bytes):
        return source, media_type
    return Path(source).read_bytes(), media_type or mimetypes.guess_type(str(source))[0]


def _base64(media_type: str, data: bytes) -> JsonObject:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def user_message(content: Content, uuid: str | None, **fields: Any) -> JsonObject:
    """The line that carries a prompt. Its uuid is ours, so that its turn can be found."""
    body = content if isinstance(content, str) else [_block(part) for part in content]
    if not body:
        raise UsageError("a prompt needs some content")
    return {
        "type": "user",
        "message": {"role": "user", "content": body},
        "parent_tool_use_id": None,
        "session_id": "",
        "uuid": uuid or str(uuids.uuid4()),
        **{name: value for name, value in fields.items() if value is not None},
    }


def is_command(content: Content) -> bool:
    """Whether a prompt is a slash command, which not every CLI echoes."""
    first = content if isinstance(content, str) else next(iter(content), "")
    text = first if isinstance(first, str) else first.get("text")
    return isinstance(text, str) and text.startswith("/")


def _block(part: str | Mapping[str, Any]) -> JsonObject:
    return {"type": "text", "text": part} if isinstance(part, str) else dict(part)
