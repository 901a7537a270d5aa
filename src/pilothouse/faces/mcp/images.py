"""Images that a caller sends along: files beside the client, or data: URLs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pilothouse.api.values import Content
from pilothouse.errors import UsageError

__all__ = ["content_of", "image_blocks"]

LONGEST: Final = 5 * 1024 * 1024
"""Bytes of one: the API takes no larger ones."""
_URL: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,(.*)", re.DOTALL)
_TAKES: Final = "images takes PNG, JPEG, GIF and WebP, as paths of files or as data: URLs"


async def content_of(text: str, images: Sequence[str], here: str | None) -> Content:
    """Return a message with its images; paths are relative to `here`, None: there are no files."""
    if not images:
        return text
    return [{"type": "text", "text": text}, *await image_blocks(images, here)]


async def image_blocks(images: Sequence[str], here: str | None) -> list[dict[str, Any]]:
    """Return images as the Messages API has them."""
    return [await asyncio.to_thread(_block, each, here) for each in images]


def _block(image: str, here: str | None) -> dict[str, Any]:
    if image.startswith("data:"):
        kind, data = _of_url(image)
    elif here is None:
        raise UsageError(f"{image[:200]!r}: over HTTP there are no files here; give a data: URL")
    else:
        kind, data = _of_file(Path(here) / image)
    source = {"type": "base64", "media_type": kind, "data": data}
    return {"type": "image", "source": source}


def _of_url(url: str) -> tuple[str, str]:
    found = _URL.fullmatch(url)
    if found is None:
        raise UsageError(f"{url[:40]!r} is no such URL; {_TAKES}")
    try:
        _checked(base64.b64decode(found[2], validate=True), url[:40])
    except binascii.Error:
        raise UsageError(f"{url[:40]!r} is not in base64") from None
    return found[1], found[2]


def _of_file(path: Path) -> tuple[str, str]:
    try:
        with path.open("rb") as file:
            data = _checked(file.read(LONGEST + 1), str(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"the image {str(path)[:200]!r} cannot be read: {why}") from None
    kind = _kind(data)
    if kind is None:
        raise UsageError(f"{str(path)[:200]!r} is no image that a model can see; {_TAKES}")
    return kind, base64.b64encode(data).decode()


def _checked(data: bytes, name: str) -> bytes:
    if len(data) > LONGEST:
        raise UsageError(f"the image {name[:200]!r} is larger than {LONGEST} bytes")
    return data


def _kind(data: bytes) -> str | None:
    """The kind of an image, by its first bytes: names of files may be wrong."""
    match data[:12]:
        case head if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png"
        case head if head.startswith(b"\xff\xd8\xff"):
            return "image/jpeg"
        case head if head.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif"
        case head if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            return "image/webp"
        case _:
            return None
