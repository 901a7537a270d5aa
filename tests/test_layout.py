"""How the tests are laid out; tests/README.md says it in words."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.versions import VERSIONS

TESTS = ROOT / "tests"
MODULES = sorted(TESTS.rglob("*.py"))
# Programs of their own, and what they write.
TOOLS = ("data", "differential")


def name_of(path: Path) -> str:
    return str(path.relative_to(TESTS))


def imports(path: Path) -> Iterator[str]:
    """Every module that one of ours imports, and every name in it that could be one."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            home = ".".join([*above, *([node.module] if node.module else [])])
            yield home
            yield from (f"{home}.{each.name}" for each in node.names)


def test_nothing_imports_a_test_or_a_conftest() -> None:
    tests = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
        if path.name.startswith("test_") or path.name == "conftest.py"
    }
    found = {name_of(path): tests.intersection(imports(path)) for path in MODULES}
    assert {name: each for name, each in found.items() if each} == {}


def test_helpers_are_in_the_support_package() -> None:
    def is_at_home(path: Path) -> bool:
        inside = path.relative_to(TESTS).parts[:-1]
        return (
            path.name.startswith("test_")
            or path.name == "conftest.py"
            or inside[:1] == ("support",)
            or any(tool in inside for tool in TOOLS)
        )

    assert [name_of(path) for path in MODULES if not is_at_home(path)] == []


def test_a_conftest_has_no_classes() -> None:
    conftests = [path for path in MODULES if path.name == "conftest.py"]
    classes = [
        f"{name_of(path)}: {node.name}"
        for path in conftests
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert classes == []


def test_a_class_of_the_support_package_has_a_name_of_its_own() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((TESTS / "support").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name_of(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_every_module_of_the_support_package_is_in_its_list() -> None:
    listed = (TESTS / "README.md").read_text()
    modules = [path.relative_to(TESTS / "support") for path in MODULES if "support" in path.parts]
    missing = [
        str(each) for each in modules if each.name != "__init__.py" and f"`{each}`" not in listed
    ]
    assert missing == []


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_the_ordinary_run_shows_the_basics_on_every_older_cli(version: str) -> None:
    marked = [
        ast.unparse(node)
        for path in sorted((TESTS / "real").glob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.versions"
    ]
    assert len([each for each in marked if f"'{version}'" in each]) >= 10
