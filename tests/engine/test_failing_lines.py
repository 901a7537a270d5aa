"""Lines that could not be kept at once are neither acknowledged nor lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pilothouse.engine import recorder
from pilothouse_sim.plugin import SimulatedCLIMaker
from tests.support.engine.harness import harnesses


async def test_lines_that_failed_on_their_way_to_the_journal_come_again(
    simulated_cli: SimulatedCLIMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    are_strict, failed = recorder.are_strict, list[int]()

    def failing(lines: Sequence[bytes]) -> bool:
        if not failed and any(b'"result"' in line for line in lines):
            failed.append(len(lines))
            raise MemoryError
        return are_strict(lines)

    monkeypatch.setattr(recorder, "are_strict", failing)
    async with harnesses(simulated_cli, tmp_path, "relay") as house:
        it = await house("One.")
        session_id = await it.start()
        status = await it.until(session_id, "done")
        assert failed
        assert status.result == "One."
        lines = await it.records(session_id, "cli")
        assert [each["type"] for each in lines].count("result") == 1
        names = [each["uuid"] for each in lines if "uuid" in each]
        assert len(names) == len(set(names))
        assert await it.records(session_id, "lines.lost") == []
