"""The steps of tests/e2e, with a model that is scripted: the same process, client and tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from tests.support.mcp.end_to_end import operate, scripted, standalone

DEADLINE = 120.0


async def _operate(maker: SimulatedCLIMaker | RealCLIMaker, folder: Path) -> None:
    cli = maker(branches=scripted(), strict=False)
    # Any key will do: no model but the scripted one is there.
    env = {"ANTHROPIC_API_KEY": "sk-none", **cli.environment, "CLAUDE_CODE_PATH": str(cli.path)}
    async with standalone(env, folder) as model:
        await operate(model, folder, within=DEADLINE)


async def test_the_tools_operate_the_simulator_end_to_end(
    simulated_cli: SimulatedCLIMaker, tmp_path: Path
) -> None:
    await _operate(simulated_cli, tmp_path)


@pytest.mark.real
async def test_the_tools_operate_a_real_cli_end_to_end(
    real_cli: RealCLIMaker, tmp_path: Path
) -> None:
    await _operate(real_cli, tmp_path)
