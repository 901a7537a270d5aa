"""When an interrupt comes: whatever the simulator is about to do with a prompt, its turn ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pilothouse_sim.scenario import reply, text
from tests.support.sim.client import sim_client

STEPS = range(40)
"""So many steps of the loop after the prompt; the model speaks long before the last."""


async def test_an_interrupt_behind_a_prompt_stops_its_turn_whichever_step_it_meets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = reply(text("On and on. " * 1000, chunk=4, delay=0.01))
    ended: list[str] = []
    async with sim_client(tmp_path, monkeypatch, *[long] * len(STEPS)) as client:
        await client.control("initialize")
        for steps in STEPS:
            asking = asyncio.create_task(client.ask("Hello."))
            for _ in range(steps + 1):
                await asyncio.sleep(0)
            await client.control("interrupt")
            ended.append((await asking)["subtype"])
    assert ended == ["error_during_execution"] * len(STEPS)
