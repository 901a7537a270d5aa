"""Words of somebody else's in a text of ours: cut, kept to a line, set off; and plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from msgspec import json

__all__ = ["bounded", "line_of", "list_of", "members_of", "quoted", "time_of", "writable"]

T = TypeVar("T")


def bounded(text: str, longest: int, rest: str) -> str:
    """The beginning of a text; the rest of it is at an address."""
    if len(text) <= longest:
        return text
    left = len(text) - longest
    return f"{text[:longest]}\n[{left} more characters: read the resource {rest}]"


def quoted(text: str) -> str:
    """A text set off line by line, so that no line of it can pass for one of ours."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def line_of(text: str) -> str:
    """A text as one line."""
    return " ".join(text.split())


def time_of(at: int) -> str:
    """Milliseconds since the epoch, as JSON has times."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def members_of(value: Any) -> dict[str, Any]:
    """The members of what should be an object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """The elements of what should be a list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def writable(told: T) -> T:
    """The same without halves of surrogate pairs: a model may say them, no client can read them."""
    try:
        json.encode(told)
    except UnicodeEncodeError:
        return _mended(told)
    return told


def _mended(told: Any) -> Any:
    if isinstance(told, str):
        return told.encode("utf-8", "replace").decode()
    if isinstance(told, dict):
        members = members_of(cast("Any", told))
        return {_mended(name): _mended(value) for name, value in members.items()}
    return [_mended(each) for each in list_of(told)] if isinstance(told, list) else told
