"""Foreign words in our texts: cut, kept to one line, set off; and plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from msgspec import json

__all__ = ["bounded", "line_of", "list_of", "members_of", "quoted", "time_of", "writable"]

T = TypeVar("T")


def bounded(text: str, longest: int, rest: str) -> str:
    """Return the beginning of a text; the rest of it is at an address."""
    if len(text) <= longest:
        return text
    left = len(text) - longest
    return f"{text[:longest]}\n[{left} more characters: read the resource {rest}]"


def quoted(text: str) -> str:
    """Set a text off line by line, so that no line of it can pass for one of ours."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def line_of(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def time_of(at: int) -> str:
    """Return a time in milliseconds since the epoch as an ISO 8601 string."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def members_of(value: Any) -> dict[str, Any]:
    """Return the members of what should be an object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return the elements of what should be a list."""
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
