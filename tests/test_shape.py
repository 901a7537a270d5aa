"""The shape of the code in numbers: small classes, flat hierarchies, nouns, one name a thing."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import msgspec
import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
PATHS = sorted(SOURCE.rglob("*.py"))

MOST_METHODS = 25
MANY_METHODS = {
    # The contract of the operations: in the protocol, in this process and over HTTP.
    "pilothouse.api.engine.Engine",
    "pilothouse.engine.engine.SessionEngine",
    "pilothouse.remote.engine.RemoteEngine",
    # The generated client of the control requests, and the client that is one.
    "pilothouse.client.controls.Controls",
    "pilothouse.client.client.Client",
}
DEEPEST = 2
MOST_ING = 20
MOST_SHARED_NAMES = 35


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def classes() -> Iterator[type]:
    """Every class of ours, where it is defined."""
    for path in PATHS:
        if path.name != "__main__.py":
            module = importlib.import_module(module_of(path))
            yield from (
                each
                for each in vars(module).values()
                if inspect.isclass(each) and each.__module__ == module.__name__
            )


def name_of(each: type) -> str:
    return f"{each.__module__}.{each.__qualname__}"


def is_ours(each: type) -> bool:
    return each.__module__.partition(".")[0] in ("pilothouse", "pilothouse_sim")


def methods(each: type) -> set[str]:
    """The public methods and properties of a class, those that it inherits from ours as well."""
    kinds = (property, cached_property, classmethod, staticmethod)
    return {
        name
        for base in each.__mro__
        if is_ours(base)
        for name, value in vars(base).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }


def depth(each: type) -> int:
    """How many classes of ours stand one above the other, this one counted."""
    return 1 + max((depth(base) for base in each.__bases__ if is_ours(base)), default=0)


@pytest.fixture(scope="module")
def every_class() -> list[type]:
    return [*classes()]


def test_no_class_has_more_methods_than_a_reader_can_hold(every_class: list[type]) -> None:
    large = {name_of(each) for each in every_class if len(methods(each)) > MOST_METHODS}
    assert sorted(large - MANY_METHODS) == []


def test_classes_stand_on_one_other_at_most(every_class: list[type]) -> None:
    """Exceptions are caught by kind, and messages share members: those may stand deeper."""
    deep = [
        name_of(each)
        for each in every_class
        if not issubclass(each, BaseException | msgspec.Struct) and depth(each) > DEEPEST
    ]
    assert deep == []


def test_modules_are_named_by_nouns() -> None:
    ending = [module_of(path) for path in PATHS if path.stem.endswith("ing")]
    assert len(ending) <= MOST_ING, ending


def test_few_public_classes_share_a_name() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path in PATHS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(module_of(path))
    shared = {name: homes for name, homes in defined.items() if len(homes) > 1}
    assert len(shared) <= MOST_SHARED_NAMES, shared
