"""The recorded streams are data for other tests; these tests guard the data itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pilothouse_sim.real_cli import CLI_WHEELS, NODE_CLIS

STREAMS = Path(__file__).parent.parent / "data" / "streams"
RECORDINGS = sorted(STREAMS.glob("*/*.jsonl"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_is_complete_and_tells_nothing_of_its_machine(path: Path) -> None:
    data = path.read_text()
    lines = [json.loads(line) for line in data.splitlines()]
    assert any(line["type"] == "result" for line in lines)
    assert not re.search(r"127\.0\.0\.1|sk-ant-|/root\b|pilothouse-rec", data)
    assert len(data) < 200_000


def test_every_version_has_the_same_scenes() -> None:
    scenes = {folder.name: {path.stem for path in folder.iterdir()} for folder in STREAMS.iterdir()}
    assert set(CLI_WHEELS) <= set(scenes) <= {*CLI_WHEELS, *NODE_CLIS}
    assert len({frozenset(names) for names in scenes.values()}) == 1
