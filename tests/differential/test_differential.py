"""The simulator is held against the real CLI, scene by scene."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.differential.catalogue import SCENES, covered, everyday
from tests.differential.compare import compare, explain, load_intended, load_unsteady
from tests.differential.driver import RealPlayer, SimulatedPlayer, perform
from tests.support.versions import CACHE, NEWEST

DEADLINE = 120
UNCOVERED = Path(__file__).with_name("uncovered.json")
PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"


EVERYDAY = everyday()


def marked(name: str) -> object:
    """One scene for each row of the protocol page plays always, the others under prove."""
    return pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.slow])


@pytest.mark.real
@pytest.mark.parametrize("name", [marked(name) for name in SCENES])
async def test_the_simulator_writes_what_the_real_cli_writes(name: str) -> None:
    scene, intended = SCENES[name], load_intended()
    async with asyncio.timeout(DEADLINE):
        real = await perform(scene, RealPlayer(CACHE / NEWEST / "claude"))
        simulated = await perform(scene, SimulatedPlayer())
    assert not [line["text"] for line in real.lines if line["type"] == "stuck"]
    found, used = explain(compare(name, real, simulated, load_unsteady()), intended)
    stale = [entry for entry in intended if entry.is_due_in(name) and entry not in used]
    report = [str(difference) for difference in found]
    report += [f"stale: {entry.message} {entry.path}: {entry.reason}" for entry in stale]
    if report:
        pytest.fail("\n".join([f"{name}: {len(report)} differences", *report]), pytrace=False)


def test_every_intended_difference_has_a_reason_and_a_scene_that_shows_it() -> None:
    for entry in load_intended():
        assert entry.reason
        if any("*" in scene for scene in entry.scenes):
            assert entry.example in SCENES, entry
        else:
            assert set(entry.scenes) <= SCENES.keys(), entry


def test_everything_unsteady_has_a_reason_and_scenes() -> None:
    unsteady = load_unsteady()
    for entry in (*unsteady.order, *unsteady.values):
        assert entry.reason
        assert all("*" in scene or scene in SCENES for scene in entry.scenes), entry


def test_every_row_of_the_protocol_page_has_a_scene_or_a_reason_why_not() -> None:
    rows = set(re.findall(r"^\| ([A-H]\d+) \|", PROTOCOL.read_text(), re.MULTILINE))
    entries = json.loads(UNCOVERED.read_text())
    assert all(entry["reason"] for entry in entries)
    excused = {row for entry in entries for row in entry["rows"]}
    assert set(covered()) | excused == rows
    assert not set(covered()) & excused
