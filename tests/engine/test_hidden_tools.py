"""Whoever of those that look after a piped CLI is killed, none of its tools stays behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from pilothouse.api.answers import Allow
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import Branch, When, reply
from tests.support.engine.harness import harnesses
from tests.support.hidden_tools import HIDING, guards, hidden
from tests.support.processes import alive, gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

MORE = Branch(when=When(last_contains="more"), replies=(reply("More."),))


@pytest.mark.parametrize("killed", ["guard", "watcher"])
async def test_a_killed_guard_leaves_no_tool_of_a_session_and_the_session_goes_on(
    simulated_cli: SimulatedCLIMaker, tmp_path: Path, killed: str
) -> None:
    async with harnesses(simulated_cli, tmp_path, "stdio") as house:
        it = await house(HIDING, branches=[MORE])
        session_id = await it.start()
        await it.answer(session_id, Allow())
        pids = await hidden(it.cwd)
        pid = (await it.engine.status(session_id)).pid
        assert pid is not None
        those = guards(pid)
        assert all(map(alive, (pid, *pids)))
        os.kill(those[killed], signal.SIGKILL)
        await it.until(session_id, "error")
        await gone(pid, *pids, *those.values())
        await it.say(session_id, "more")
        assert (await it.until(session_id, "done")).result == "More."
