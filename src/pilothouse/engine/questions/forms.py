"""The flat forms MCP servers ask people to fill in: what they show, and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pilothouse.protocol.wire import JsonObject, as_object

from .descriptions import one_line

__all__ = ["fields", "wrong"]

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
}


def fields(schema: Mapping[str, Any]) -> list[str]:
    """A line for each field of the form."""
    required = _required(schema)
    return [
        _field(name, as_object(field), is_required=name in required)
        for name, field in as_object(schema.get("properties")).items()
    ]


def _field(name: str, field: JsonObject, *, is_required: bool) -> str:
    kind = str(field.get("type", "value")) + (", required" if is_required else "")
    said = str(field.get("description") or field.get("title") or "")
    choices = _choices(field)
    line = f"- {name} ({kind})" + (f": {said}" if said else "")
    return one_line(line + (f" [{', '.join(map(str, choices))}]" if choices else ""), 500)


def wrong(schema: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """What keeps these values from fitting the form."""
    properties = as_object(schema.get("properties"))
    missing = [name for name in _required(schema) if name not in content]
    found = [f"the field {name!r} is required" for name in missing]
    found += [f"there is no field {name!r}" for name in content if name not in properties]
    for name, value in content.items():
        if name in properties:
            found += _wrong_value(name, as_object(properties[name]), value)
    return found


def _wrong_value(name: str, field: JsonObject, value: Any) -> list[str]:
    if not _is_a(field.get("type"), value):
        return [f"the field {name!r} takes a value of type {field['type']}"]
    if isinstance(value, list):
        return _wrong_items(name, field, cast("list[Any]", value))
    choices = _choices(field)
    if choices and value not in choices:
        return [f"the field {name!r} takes one of {', '.join(map(repr, choices))}"]
    return _wrong_size(name, field, value)


def _is_a(kind: Any, value: Any) -> bool:
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    # To Python a boolean is a number as well.
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _wrong_items(name: str, field: JsonObject, value: list[Any]) -> list[str]:
    choices = _choices(field)
    if choices and any(each not in choices for each in value):
        return [f"the field {name!r} takes some of {', '.join(map(repr, choices))}"]
    return _wrong_bounds(name, field, len(value), "minItems", "maxItems")


def _wrong_size(name: str, field: JsonObject, value: Any) -> list[str]:
    if isinstance(value, str):
        return _wrong_bounds(name, field, len(value), "minLength", "maxLength")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return _wrong_bounds(name, field, value, "minimum", "maximum")


def _wrong_bounds(name: str, field: JsonObject, size: float, least: str, most: str) -> list[str]:
    low, high = field.get(least), field.get(most)
    if isinstance(low, int | float) and size < low:
        return [f"the field {name!r} has a {least} of {low:g}"]
    if isinstance(high, int | float) and size > high:
        return [f"the field {name!r} has a {most} of {high:g}"]
    return []


def _choices(field: JsonObject) -> list[Any]:
    """The values there are to choose from: plain ones, or those that have a title each."""
    items = as_object(field.get("items")) if field.get("type") == "array" else field
    titled = [as_object(each) for each in _list(items.get("oneOf") or items.get("anyOf"))]
    return _list(items.get("enum")) or [each["const"] for each in titled if "const" in each]


def _required(schema: Mapping[str, Any]) -> list[str]:
    return [name for name in _list(schema.get("required")) if isinstance(name, str)]


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
