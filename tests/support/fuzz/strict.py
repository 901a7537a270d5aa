"""What every answer of a server must be, whatever its sessions were told: strict JSON."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

DEEPEST = 100
"""Levels that any reader of JSON takes."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def strictly(body: bytes) -> Any:
    """The value that every parser of JSON reads; raises where one of them might not."""
    text = body.decode()
    depth = depth_of(body)
    assert depth <= DEEPEST, f"nested {depth} levels deep"
    value = json.loads(text, parse_constant=_refuse)
    msgspec.json.decode(body)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def depth_of(body: bytes) -> int:
    """How many levels of lists and objects there are."""
    depth = deepest = 0
    for token in _TOKEN.finditer(body):
        if token[0] in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in b"]}":
            depth -= 1
    return deepest
