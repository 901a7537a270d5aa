"""Whoever of those that look after a client's CLI is killed, no tool of the CLI's stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from pilothouse import Allow, Client, SessionEnded
from pilothouse_sim.plugin import SimulatedCLIMaker
from tests.support.hidden_tools import HIDING, guards, hidden
from tests.support.processes import alive, gone
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")


async def allow(_: Any) -> Allow:
    return Allow()


@pytest.mark.parametrize("killed", ["guard", "watcher"])
async def test_a_killed_guard_leaves_no_tool_of_a_client(
    simulated_cli: SimulatedCLIMaker, killed: str
) -> None:
    cli = simulated_cli(HIDING)
    async with Client(cli.options(on_permission=allow)) as client:
        prompt = await client.say("go")
        pids = await hidden(cli.cwd)
        assert client.pid is not None
        those = guards(client.pid)
        assert all(map(alive, (client.pid, *pids)))
        os.kill(those[killed], signal.SIGKILL)
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(SessionEnded):
                await prompt
        await gone(client.pid, *pids, *those.values())
    # The next one has a guard of its own.
    async with Client(simulated_cli("Here.").options()) as client:
        assert (await client.ask("go")).text == "Here."
