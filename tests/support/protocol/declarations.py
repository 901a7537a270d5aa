"""Checks structs against lists of member names that were written down independently of them."""

from __future__ import annotations

import json
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from tests.support.places import DATA

FIELDS: dict[str, Any] = json.loads((DATA / "fields.json").read_text())
SHAPES: list[bytes] = (DATA / "shapes.jsonl").read_bytes().splitlines()


def _name(sample: bytes) -> str:
    message = json.loads(sample)
    inner = message.get("request") or message.get("event") or message.get("response") or message
    return f"{message['type']}/{inner.get('subtype') or inner.get('type')}"


SHAPE_IDS = [f"{number}-{_name(sample)}" for number, sample in enumerate(SHAPES, 1)]


def undeclared(kind: type[Struct], paths: list[str]) -> list[str]:
    """The paths, such as `plugins[].name`, which `kind` has no field for."""
    return [path for path in paths if not _declares([kind], path.split("."))]


def _declares(kinds: list[type[Struct]], steps: list[str]) -> bool:
    name = steps[0].replace("[]", "").replace("{*}", "")
    if any(kind.__struct_config__.tag_field == name for kind in kinds):
        return True
    found = [
        field.type
        for kind in kinds
        for field in msgspec.structs.fields(kind)
        if field.encode_name == name
    ]
    if not found or len(steps) == 1:
        return bool(found)
    inner = _structs(found[0])
    lazily = Raw in found
    return lazily or (bool(inner) and _declares(inner, steps[1:]))


def _structs(kind: Any) -> list[type[Struct]]:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return [kind]
    if get_origin(kind) in (list, dict, Union, UnionType):
        return [struct for part in get_args(kind) for struct in _structs(part)]
    return []


def walk(value: Any, depth: int = 0) -> None:
    """Look at every public field and property of `value`, and of what they give."""
    if depth > 12:
        return
    if isinstance(value, list):
        for each in value:
            walk(each, depth + 1)
    elif isinstance(value, Struct):
        for name in dir(type(value)):
            if not name.startswith("_") and not callable(getattr(type(value), name)):
                walk(getattr(value, name), depth + 1)


def is_part_of(part: Any, whole: Any) -> bool:
    """Whether every member of `part` stands in `whole` with the same value."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_part_of(each, whole[name]) for name, each in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        kept = iter(whole)
        return all(any(is_part_of(each, other) for other in kept) for each in part)
    return part == whole
