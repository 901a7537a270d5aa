"""All scenes by name, and the rows of the protocol page that they cover."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

from tests.differential.driver import Scene

__all__ = ["AREAS", "SCENES", "covered", "everyday"]

AREAS: list[ModuleType] = [
    importlib.import_module(f"tests.differential.scenes.{path.stem}")
    for path in sorted((Path(__file__).parent / "scenes").glob("*.py"))
]
"""Every module in `scenes/`; each has a `SCENES`."""

SCENES: dict[str, Scene] = {}
for area in AREAS:
    twice = SCENES.keys() & area.SCENES.keys()
    assert not twice, f"two scenes are called {', '.join(sorted(twice))}"
    SCENES |= area.SCENES


def covered() -> dict[str, list[str]]:
    """Which scenes cover a row of the protocol page."""
    rows: dict[str, list[str]] = {}
    for name, scene in SCENES.items():
        for row in re.findall(r"[A-H]\d+", scene.covers):
            rows.setdefault(row, []).append(name)
    return rows


def everyday() -> set[str]:
    """Scenes that show every row, which every test run plays; `scripts/prove` plays all."""
    rows: dict[str, set[str]] = {}
    for row, names in covered().items():
        for name in names:
            rows.setdefault(name, set()).add(row)
    chosen: set[str] = set()
    left = set(covered())
    while left:
        best = max(rows, key=lambda name: (len(rows[name] & left), name))
        chosen.add(best)
        left -= rows[best]
    return chosen
