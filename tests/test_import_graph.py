"""The import graph: its picture, and that no modules of one room import each other in a circle.

Every import counts, also one inside a function or under `TYPE_CHECKING`: whoever reads a module
must be able to read what it stands on first. A room is a package directly below `pilothouse` or
`pilothouse_sim`; the modules that stand beside the packages are a room of their own.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pilothouse
import pilothouse_sim

SOURCE = Path(__file__).resolve().parent.parent / "src"
PACKAGES = ("pilothouse", "pilothouse_sim")
HOMES = {
    f"{package.__name__}.{name}": f"{package.__name__}.{home}"
    for package in (pilothouse, pilothouse_sim)
    for name, home in package._HOME_OF.items()
}
"""Where a public name of a package is loaded from, when it is first used."""

# Rooms in which modules still go round in circles. This list must shrink and never grow.
KNOWN: frozenset[str] = frozenset()

Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """Every module of ours, by the name it is imported by."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Set[str]) -> Iterator[str]:
    """The modules of ours that a module names in its imports, wherever they stand."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                target = HOMES.get(f"{base}.{alias.name}", f"{base}.{alias.name}")
                yield from (
                    each for each in (target if target in known else base,) if each in known
                )


def graph_of(paths: Mapping[str, Path]) -> Graph:
    return {
        name: {each for each in imported(name, path, paths.keys()) if each != name}
        for name, path in paths.items()
    }


def room_of(name: str, paths: Mapping[str, Path]) -> str:
    first = ".".join(name.split(".")[:2])
    return first if first in paths and paths[first].name == "__init__.py" else name.split(".")[0]


def circle(graph: Graph) -> list[str]:
    """One circle of imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def within(graph: Graph, names: Set[str]) -> Graph:
    return {name: graph[name] & names for name in names}


PATHS = modules()
GRAPH = graph_of(PATHS)
ROOMS: dict[str, set[str]] = {}
for _name in PATHS:
    # The packages' own `__init__` name everything for type checkers and import it on first use.
    if _name not in PACKAGES:
        ROOMS.setdefault(room_of(_name, PATHS), set()).add(_name)


@pytest.mark.parametrize("room", sorted(ROOMS.keys() - KNOWN))
def test_no_modules_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    assert " -> ".join(circle(within(GRAPH, ROOMS[room]))) == ""


def test_no_modules_of_the_simulator_import_each_other_in_a_circle() -> None:
    names = {name for name in PATHS if name.startswith("pilothouse_sim.")}
    assert " -> ".join(circle(within(GRAPH, names))) == ""


def test_the_list_of_circular_rooms_names_no_room_that_is_mended() -> None:
    mended = [room for room in KNOWN if not circle(within(GRAPH, ROOMS.get(room, set())))]
    assert mended == [], "take these from the list"


def test_a_circle_is_found_whatever_kind_of_import_closes_it(tmp_path: Path) -> None:
    texts = {
        "room.a": "import room.b",
        "room.b": "def late():\n    from room import c",
        "room.c": "if TYPE_CHECKING:\n    from .a import A",
        "room.d": "from room.a import x",
    }
    paths = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    graph = graph_of(paths)
    assert set(circle(graph)) == {"room.a", "room.b", "room.c"}
    assert circle(graph)[0] == circle(graph)[-1]
    del graph["room.c"]
    assert circle(within(graph, graph.keys())) == []


# The picture in docs/design.md


def place_of(name: str) -> str:
    """What stands for a module in the picture: its room, or a module that stands beside them."""
    first, _, rest = name.partition(".")
    return first if first != "pilothouse" or not rest else rest.split(".")[0]


def places(graph: Graph) -> Graph:
    """Which place imports from which."""
    found: Graph = {}
    for name, targets in graph.items():
        if name not in PACKAGES:
            here = found.setdefault(place_of(name), set())
            here |= {place_of(each) for each in targets if each not in PACKAGES} - {place_of(name)}
    return found


def reduced(graph: Graph) -> Graph:
    """Without the imports that lead where a longer way leads, too."""
    below: Graph = {}
    for name in TopologicalSorter(graph).static_order():
        below[name] = graph[name].union(*(below[each] for each in graph[name]))
    return {
        name: targets - set[str]().union(*(below[each] for each in targets))
        for name, targets in graph.items()
    }


def drawn(graph: Graph) -> str:
    """The picture, the highest places first."""
    arrows = reduced(graph)
    order = sorted(graph, key=lambda each: (-depth(each, graph), each))
    lines = [f"  {name} --> {' & '.join(sorted(arrows[name]))}" for name in order if arrows[name]]
    return "\n".join(["flowchart TD", *lines])


def depth(name: str, graph: Graph) -> int:
    """How many places stand below this one, on the longest way down."""
    return max((1 + depth(each, graph) for each in graph[name]), default=0)


def test_the_picture_in_the_design_is_the_import_graph() -> None:
    page = (SOURCE.parent / "docs/design.md").read_text()
    assert f"```mermaid\n{drawn(places(GRAPH))}\n```" in page


def test_a_picture_leaves_out_what_a_longer_way_shows() -> None:
    graph = {"top": {"middle", "low"}, "middle": {"low"}, "low": set[str]()}
    assert drawn(graph) == "flowchart TD\n  top --> middle\n  middle --> low"


if __name__ == "__main__":
    # `python -m tests.test_import_graph` draws the picture anew.
    sys.stdout.write(f"{drawn(places(GRAPH))}\n")
