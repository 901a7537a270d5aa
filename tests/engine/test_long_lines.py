"""A line that is longer than any that is kept is lost alone, and told of by its size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pilothouse.transport.base import LONGEST_LINE
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import Branch, When, reply
from tests.support.engine.harness import harnesses

LONG = "x" * LONGEST_LINE
MORE = Branch(when=When(last_contains="more"), replies=(reply("More."),))


@pytest.mark.parametrize("via", ["stdio", "relay"])
async def test_a_turn_whose_result_is_too_long_ends_and_the_session_goes_on(
    simulated_cli: SimulatedCLIMaker, tmp_path: Path, via: str
) -> None:
    async with harnesses(simulated_cli, tmp_path, via) as house:
        it = await house(LONG, branches=[MORE], strict=False)
        session_id = await it.start()
        status = await it.until(session_id, "error")
        assert status.reason == "the line with its result was lost"
        lost = [each["because"] for each in await it.records(session_id, "lines.lost")]
        # The answer in one piece, the answer as a whole, and the result.
        assert len(lost) == 3
        for because in lost:
            told = re.fullmatch(
                r"a line of the CLI was lost: it had (\d+) bytes, and (\d+) are the most", because
            )
            assert told is not None
            assert LONGEST_LINE < int(told[1]) < LONGEST_LINE + 10_000
            assert int(told[2]) == LONGEST_LINE
        await it.say(session_id, "more")
        status = await it.until(session_id, "done")
        assert (status.result, status.live) == ("More.", True)
        assert len(await it.records(session_id, "lines.lost")) == 3
        lines = await it.records(session_id, "cli")
        names = [each["uuid"] for each in lines if "uuid" in each]
        assert len(names) == len(set(names))
