"""JSON that every reader takes.

A CLI writes what JavaScript makes of it, and a model decides much of that: half a surrogate pair
of a cut emoji, a number of ten thousand digits, arrays five thousand deep, bytes that are no
UTF-8. Our own readers forgive all of it; others refuse the whole text that it stands in. So what
goes on to others is such a line only if it `is_strict`, and else what `strict` makes of it:

    half a surrogate pair, bytes that are no UTF-8      U+FFFD in their place
    NaN, Infinity, a number outside what a double has   null
    what lies deeper than MAX_DEPTH                     null

A text of more parts than MOST_PARTS and MOST_VALUES say is not parsed: it counts as no JSON.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, cast

import msgspec

from .wire import JsonObject, parse_strictly

__all__ = [
    "DEEPEST_READ",
    "MAX_DEPTH",
    "MOST_PARTS",
    "TooManyParts",
    "are_strict",
    "check_parts",
    "clean",
    "clean_text",
    "has_deep",
    "is_deeper",
    "is_strict",
    "is_too_deep",
    "parse_shallow",
    "strict",
]

MAX_DEPTH: Final = 64
"""Levels of arrays and objects: some readers take 128, and an entry is inside of four itself."""

DEEPEST_READ: Final = 256
"""How deep a text may be to be parsed as a whole.

How deep a parser really goes depends on the calls below it. A line has to be the same wherever it
is looked at, so what is deeper is never given to one.
"""

_LEAST_DEEP: Final = 2 * DEEPEST_READ
"""Bytes of a text that is deeper: each level is closed again."""
MOST_PARTS: Final = 200_000
"""Arrays and objects of one text: to look at so many takes a fifth of a second."""
MOST_VALUES: Final = 1_000_000
"""Values of one text, but for the last of each array and object."""

_AT_ONCE: Final = 1 << 18
"""Bytes that are looked at without a turn for other threads."""

_LARGEST: Final = 10**308
"""About the largest double: an integer beyond it is infinite to most readers."""

_REFUSED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# A string without an end goes to the text's: nothing is looked at twice.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_TOKEN: Final = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{309}")
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
# One level more or less, as signed bytes.
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_STEP: Final = bytes(range(256)).translate(None, b"[{]}")
_NO_OPENING: Final = bytes(range(256)).translate(None, b"[{\0")

# With no type to read into, it looks at every byte.
_decode: Final = msgspec.json.Decoder().decode


class TooManyParts(ValueError):
    """A text has more parts than anybody looks at."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_PARTS} arrays and objects, or {MOST_VALUES} values")


def are_strict(lines: Sequence[bytes]) -> bool:
    """Whether every reader takes all of these JSON texts."""
    try:
        if max(map(len, lines), default=0) > MOST_PARTS:
            for line in lines:
                check_parts(line)
        # One at a time: what all of them hold together would wake the garbage collector.
        deque(map(_decode, lines), maxlen=0)
    except (*_REFUSED, TooManyParts):
        return False
    # No JSON text has this byte.
    text = b"\0".join(lines)
    return not _has_long_number(text) and not (
        _may_be_deeper(text) and any([is_deeper(line, MAX_DEPTH) for line in lines])
    )


def is_strict(text: bytes) -> bool:
    """Whether every reader takes this JSON text."""
    return are_strict([text])


def check_parts(text: bytes) -> None:
    """Raise `TooManyParts` for a text that takes too long to look at."""
    # Few texts are as long, and what is in strings is no part.
    if len(text) > MOST_PARTS and _has_many_parts(text) and _has_many_parts_outside_strings(text):
        raise TooManyParts


def _has_many_parts(text: bytes) -> bool:
    return _openings(text) > MOST_PARTS or text.count(b",") > MOST_VALUES


def _has_many_parts_outside_strings(text: bytes) -> bool:
    # By parts and no longer than it takes: one long call would keep every thread waiting.
    unquoted = text.replace(rb"\\", b"").replace(rb"\"", b"")
    openings = commas = inside = 0
    for at in range(0, len(unquoted), _AT_ONCE):
        pieces = unquoted[at : at + _AT_ONCE].split(b'"')
        bare = b"".join(pieces[inside::2])
        inside = (inside + len(pieces) - 1) % 2
        openings += _openings(bare)
        commas += bare.count(b",")
        if openings > MOST_PARTS or commas > MOST_VALUES:
            return True
    return False


def is_deeper(text: bytes, depth: int) -> bool:
    """Whether arrays and objects are nested deeper than that."""
    # Nothing is nested deeper than there are openings, and few lines have many.
    return _openings(text) > depth and _depth(_STRING.sub(b"", text)) > depth


def is_too_deep(text: bytes) -> bool:
    """Whether this JSON text is to be read by `parse_shallow`. Raises `TooManyParts`."""
    if len(text) <= _LEAST_DEEP:
        return False
    check_parts(text)
    return is_deeper(text, DEEPEST_READ)


def has_deep(lines: Sequence[bytes]) -> bool:
    """Whether one of these is too deep. Raises `TooManyParts`."""
    # Nearly all of them are too short for that.
    return any([is_too_deep(line) for line in lines if len(line) > _LEAST_DEEP])


def strict(text: bytes) -> bytes:
    """The same JSON value, as every reader takes it. ValueError: it is no JSON."""
    value = parse_shallow(text) if is_too_deep(text) else parse_strictly(text)
    return msgspec.json.encode(clean(value))


def parse_shallow(text: bytes) -> Any:
    """A JSON text that is too deep as plain values. ValueError: it is no JSON."""
    return parse_strictly(_shallow(text))


def clean(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A parsed JSON value without what some readers refuse."""
    match value:
        case str():
            return clean_text(value)
        case float():
            return value if math.isfinite(value) else None
        case int():
            return value if abs(value) < _LARGEST else None
        case dict():
            members = cast(JsonObject, value).items()
            return {clean_text(k): clean(v, depth - 1) for k, v in members} if depth else None
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            return [clean(each, depth - 1) for each in items] if depth else None
        case _:
            return value


def clean_text(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair that has no other half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _openings(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _may_be_deeper(lines: bytes) -> bool:
    """Whether one of these lines has more openings than levels are allowed; few have."""
    openings = lines.translate(None, _NO_OPENING)
    return max(map(len, openings.split(b"\0"))) > MAX_DEPTH


def _has_long_number(text: bytes) -> bool:
    """Whether an integer may be beyond any double: many a reader refuses it, msgspec does not."""
    # So many digits in a row show in every 32nd byte, too, and there nothing else does.
    return b"0" * 9 in text[::32].translate(_DIGITS) and _LONG_NUMBER.search(text) is not None


def _depth(bare: bytes) -> int:
    """How deep a text without its strings is: a parsed value hides one of two equal names."""
    steps = bare.translate(_STEPS, _NO_STEP)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _shallow(text: bytes) -> bytes:
    """The text with null for every array and object that lies deeper than MAX_DEPTH."""
    kept: list[bytes] = []
    depth = end = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept += (text[end : token.start()], b"null")
        elif token[0] in (b"}", b"]"):
            if depth == MAX_DEPTH + 1:
                end = token.end()
            depth -= 1
    kept.append(text[end:] if depth <= MAX_DEPTH else b"")
    return b"".join(kept)
