"""The JSON Schema of answers: reads it, and says in the CLI's words where a value does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec

__all__ = ["BadSchema", "Schema", "misfits", "read_schema"]

Schema = dict[str, Any]
Misfit = tuple[str, str]
"""Where something is wrong, and what."""
Rule = Callable[[Any, Any, str, Schema], Iterator[Misfit]]


class BadSchema(Exception):
    """What stands behind --json-schema is no schema; the text is what the CLI writes."""


def read_schema(given: str) -> Schema:
    """The schema of --json-schema; raises `BadSchema`."""
    try:
        schema = msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise BadSchema(f"Error: --json-schema is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise BadSchema("Error: --json-schema must be a JSON object")
    kind = cast("Schema", schema).get("type")
    if isinstance(kind, str) and kind not in _TYPES:
        wrong = ("equal to one of the allowed values", "array")
        told = ", ".join(f"data/type must be {each}" for each in wrong)
        told += ", data/type must match a schema in anyOf"
        raise BadSchema(f"Error: --json-schema is not a valid JSON Schema: {told}")
    return cast("Schema", schema)


# The validator: the usual keywords, in the order and words of the CLI's


def misfits(value: Any, schema: Any, at: str = "", root: Schema | None = None) -> list[Misfit]:
    """Where a value is not as its schema says; what is wrong at the top has an empty place."""
    if schema is True or schema == {}:
        return []
    if schema is False:
        return [(at, "boolean schema is false")]
    top = schema if root is None else root
    kinds = _list(schema.get("type"))
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        return [(at, f"must be {','.join(kinds)}")]
    return [
        found
        for keyword, rule in _RULES.items()
        if keyword in schema
        for found in rule(schema[keyword], value, at, {**schema, "$root": top})
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _key(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _limit(applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool], words: str) -> Rule:
    """A rule that compares something of the value with a limit."""

    def rule(limit: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
        if applies(value) and not holds(value, limit):
            size = value if _is_number(value) else len(value)
            yield at, words.format(limit=limit, size=size)

    return rule


def _required(names: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                yield at, f"must have required property '{name}'"


def _additional(allowed: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    if not isinstance(value, dict):
        return
    patterns = list(schema.get("patternProperties", {}))
    for name, member in cast("dict[str, Any]", value).items():
        if name in schema.get("properties", {}) or any(re.search(one, name) for one in patterns):
            continue
        if allowed is False:
            yield at, f"must NOT have additional properties ('{name}' is not allowed)"
        else:
            yield from misfits(member, allowed, f"{at}/{_key(name)}", schema["$root"])


def _properties(members: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    if isinstance(value, dict):
        for name, inner in members.items():
            if name in value:
                yield from misfits(value[name], inner, f"{at}/{_key(name)}", schema["$root"])


def _pattern_properties(members: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    if isinstance(value, dict):
        for pattern, inner in members.items():
            for name, member in cast("dict[str, Any]", value).items():
                if re.search(pattern, name):
                    yield from misfits(member, inner, f"{at}/{_key(name)}", schema["$root"])


def _items(inner: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    if isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from misfits(item, inner, f"{at}/{index}", schema["$root"])


def _unique(wanted: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
    if wanted and isinstance(value, list):
        places: dict[str, int] = {}
        for place, item in reversed(list(enumerate(cast("list[Any]", value)))):
            text = _json(item)
            if text in places:
                words = f"items ## {places[text]} and {place} are identical"
                yield at, f"must NOT have duplicate items ({words})"
                return
            places[text] = place


def _pattern(pattern: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
    if isinstance(value, str) and not re.search(pattern, value):
        yield at, f'must match pattern "{pattern}"'


def _enum(values: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
    if _json(value) not in [_json(each) for each in values]:
        yield at, f"must be equal to one of the allowed values: {_json(values)}"


def _const(wanted: Any, value: Any, at: str, _: Schema) -> Iterator[Misfit]:
    if _json(value) != _json(wanted):
        yield at, f"must be equal to constant: {_json(wanted)}"


def _all_of(schemas: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    for inner in schemas:
        yield from misfits(value, inner, at, schema["$root"])


def _any_of(schemas: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    found = [misfits(value, inner, at, schema["$root"]) for inner in schemas]
    if all(found):
        for each in found:
            yield from each
        yield at, "must match a schema in anyOf"


def _one_of(schemas: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    found = [misfits(value, inner, at, schema["$root"]) for inner in schemas]
    fitting = sum(not each for each in found)
    if fitting == 1:
        return
    if not fitting:
        for each in found:
            yield from each
    yield at, "must match exactly one schema in oneOf"


def _not(inner: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    if not misfits(value, inner, at, schema["$root"]):
        yield at, "must NOT be valid"


def _reference(target: Any, value: Any, at: str, schema: Schema) -> Iterator[Misfit]:
    found: Any = schema["$root"]
    for step in target.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {})
    yield from misfits(value, found, at, schema["$root"])


_is_text: Final = _TYPES["string"]
_is_list: Final = _TYPES["array"]
_is_object: Final = _TYPES["object"]
_RULES: Final[dict[str, Rule]] = {
    "$ref": _reference,
    "maximum": _limit(_is_number, lambda value, limit: value <= limit, "must be <= {limit}"),
    "minimum": _limit(_is_number, lambda value, limit: value >= limit, "must be >= {limit}"),
    "exclusiveMaximum": _limit(_is_number, lambda value, limit: value < limit, "must be < {limit}"),
    "exclusiveMinimum": _limit(_is_number, lambda value, limit: value > limit, "must be > {limit}"),
    "multipleOf": _limit(
        _is_number, lambda value, limit: (value / limit) % 1 == 0, "must be multiple of {limit}"
    ),
    "maxLength": _limit(
        _is_text,
        lambda value, limit: len(value) <= limit,
        "must NOT have more than {limit} characters (got {size})",
    ),
    "minLength": _limit(
        _is_text,
        lambda value, limit: len(value) >= limit,
        "must NOT have fewer than {limit} characters (got {size})",
    ),
    "pattern": _pattern,
    "maxItems": _limit(
        _is_list,
        lambda value, limit: len(value) <= limit,
        "must NOT have more than {limit} items (got {size})",
    ),
    "minItems": _limit(
        _is_list,
        lambda value, limit: len(value) >= limit,
        "must NOT have fewer than {limit} items (got {size})",
    ),
    "uniqueItems": _unique,
    "items": _items,
    "maxProperties": _limit(
        _is_object,
        lambda value, limit: len(value) <= limit,
        "must NOT have more than {limit} properties",
    ),
    "minProperties": _limit(
        _is_object,
        lambda value, limit: len(value) >= limit,
        "must NOT have fewer than {limit} properties",
    ),
    "required": _required,
    "additionalProperties": _additional,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "const": _const,
    "enum": _enum,
    "not": _not,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
}
