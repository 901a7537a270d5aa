"""The fields of a form that an MCP server of a session asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from .label_match import pick_one, pick_several
from .texts import list_of, members_of

__all__ = ["Field", "fields_of"]

JsonObject = dict[str, Any]


class Field(Struct, frozen=True, kw_only=True):
    """One field: its name, and the values that it takes."""

    name: str
    title: str
    description: str
    kind: str
    required: bool
    several: bool
    choices: list[Any]
    options: list[str]
    """The choices as a caller writes them."""
    titles: list[str]
    """What the choices are called, if that differs."""

    def value(self, text: str) -> Any:
        """Return the value that a text means; `ValueError` says what the field takes."""
        if self.several:
            return [self._choice(each) for each in pick_several(self.options, text)]
        if self.options:
            return self._choice(pick_one(self.options, text))
        return _plain(self.name, self.kind, text)

    def _choice(self, text: str) -> Any:
        titled = [each.casefold() for each in self.titles]
        if text in self.options:
            return self.choices[self.options.index(text)]
        if text.strip().casefold() in titled:
            return self.choices[titled.index(text.strip().casefold())]
        if not self.options:
            return text
        raise ValueError(f"the field {self.name} takes one of {', '.join(self.options)}")


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a form, in its order."""
    needed = list_of(schema.get("required"))
    return [
        _field(name, members_of(each), required=name in needed)
        for name, each in members_of(schema.get("properties")).items()
    ]


def _field(name: str, told: JsonObject, *, required: bool) -> Field:
    kind = told.get("type")
    choices, titles = _choices(told)
    if kind == "boolean":
        choices, titles = [True, False], ["yes", "no"]
    return Field(
        name=name,
        title=str(told.get("title") or name),
        description=str(told.get("description") or ""),
        kind=kind if isinstance(kind, str) else "string",
        required=required,
        several=kind == "array",
        choices=choices,
        options=[_written(each) for each in choices],
        titles=titles,
    )


def _choices(told: JsonObject) -> tuple[list[Any], list[str]]:
    of = members_of(told.get("items")) if told.get("type") == "array" else told
    titled = [members_of(each) for each in list_of(of.get("oneOf") or of.get("anyOf"))]
    if found := list_of(of.get("enum")):
        names = list_of(of.get("enumNames"))
        return found, [str(each) for each in names] if len(names) == len(found) else []
    known = [each for each in titled if "const" in each]
    return [each["const"] for each in known], [str(each.get("title") or "") for each in known]


def _written(choice: Any) -> str:
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def _plain(name: str, kind: str, text: str) -> Any:
    kinds = {"integer": int, "number": float}
    if kind not in kinds:
        return text
    try:
        value = kinds[kind](text.strip())
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the field {name} takes a value of type {kind}")
    return value
