"""What the types say of their members, for the OpenAPI document.

The contract explains a member in a string below it. Python drops such a string when it runs, so
it is read from the source.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from types import ModuleType
from typing import Any

from msgspec import Struct

__all__ = ["describe", "structs_in"]


def describe(components: dict[str, Any], structs: dict[str, type[Struct]]) -> None:
    """Give each member of each component the description it has in the source."""
    for name, schema in components.items():
        for member, words in _words(structs.get(name)).items():
            if member in schema.get("properties", {}):
                schema["properties"][member].setdefault("description", words)


def structs_in(*modules: ModuleType) -> dict[str, type[Struct]]:
    """The structs of these modules by name."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Struct)
    }


def _words(struct: type[Struct] | None) -> dict[str, str]:
    """Member -> the string that stands below it; nothing where there is no source to read."""
    if struct is None:
        return {}
    try:
        source = textwrap.dedent(inspect.getsource(struct))
    except OSError:
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for member, below in pairwise(definition.body):
        match member, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text).replace("\n", " ")
            case _:
                pass
    return found
