"""Changes what the strings of a line say, and nothing else of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

__all__ = ["Change", "decodes", "encoded_path", "path_changer", "rewrite_strings"]

Change = Callable[[str | None, str], str]
"""Given the key a string stands under (None for a key itself) and the string: what it becomes."""

_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?')


def rewrite_strings(line: bytes, change: Change) -> bytes:
    """The line with its JSON strings changed; everything else stays as it is to the byte.

    A string in an array stands under the array's key. A line that is no JSON is one string.
    """
    text = line.decode("utf-8", "surrogateescape")
    if not _parses(line):
        return change("", text).encode("utf-8", "surrogateescape")
    key: str | None = ""

    def replace(found: re.Match[str]) -> str:
        nonlocal key
        literal, colon = found[1], found[2]
        said = _unescape(literal)
        if colon is not None:
            key = said
        becomes = change(None if colon is not None else key, said)
        return found[0] if becomes == said else _escape(becomes) + (colon or "")

    return _STRING.sub(replace, text).encode("utf-8", "surrogateescape")


def _parses(line: bytes) -> bool:
    if decodes(line):
        return True
    try:
        # Half of a surrogate pair, which JavaScript writes and msgspec refuses.
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _unescape(literal: str) -> str:
    if "\\" not in literal:
        return literal
    try:
        said: Any = json.loads(f'"{literal}"', strict=False)
    except ValueError:
        return literal
    return said


def _escape(text: str) -> str:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def encoded_path(path: str) -> str:
    """A folder as the CLI writes it in the names of its own folders: `/a/b.c` is `-a-b-c`."""
    return re.sub(r"[^A-Za-z0-9]", "-", path)


def path_changer(pairs: Sequence[tuple[str, str]]) -> Callable[[str], str]:
    """Put other folders in the place of some, wherever a text names them as whole parts."""
    changes: dict[str, str] = {}
    for old, new in pairs:
        if len(old) > 1 and old != new and new:
            changes.setdefault(old, new)
            changes.setdefault(encoded_path(old), encoded_path(new))
    if not changes:
        return lambda text: text
    # `/ship` is no part of `/shipyard`, `/ship-2` or `/x/ship`; `-ship` begins `-ship-log`.
    names = "|".join(
        re.escape(old) + (r"(?![\w-])" if "/" in old else r"(?![A-Za-z0-9])")
        for old in sorted(changes, key=len, reverse=True)
    )
    pattern = re.compile(rf"(?<![\w.~-])(?:{names})")

    def change(text: str) -> str:
        if not any(old in text for old in changes):
            return text
        return pattern.sub(lambda found: changes[found[0]], text)

    return change


def decodes(data: bytes) -> bool:
    """Whether msgspec reads it as JSON."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
