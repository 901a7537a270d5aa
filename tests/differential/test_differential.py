"""The simulator is held against the real CLI, scene by scene."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.differential.catalogue import SCENES, covered
from tests.differential.compare import compare, explain, load_intended, load_unsteady
from tests.differential.driver import RealPlayer, SimulatedPlayer, perform
from tests.real.desk import CACHE, NEWEST

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"


def marked(name: str) -> object:
    return pytest.param(name, marks=[pytest.mark.slow] if SCENES[name].slow else [])


@pytest.mark.real
@pytest.mark.parametrize("name", [marked(name) for name in SCENES])
async def test_the_simulator_writes_what_the_real_cli_writes(name: str) -> None:
    scene, intended = SCENES[name], load_intended()
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


def test_scenes_cover_only_rows_that_exist() -> None:
    rows = set(re.findall(r"^\| ([A-H]\d+) \|", PROTOCOL.read_text(), re.MULTILINE))
    assert set(covered()) <= rows


def test_there_is_a_scene_for_everything_the_simulator_is_made_for() -> None:
    assert len(SCENES) >= 50
