"""An engine on the simulator, the MCP server before it, and the official client, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pilothouse_sim.plugin import SimulatedCLIMaker
from tests.support.engine.harness import harnesses
from tests.support.mcp.harness import McpHarness, OpenMcp


@pytest.fixture
async def desk(simulated_cli: SimulatedCLIMaker, tmp_path: Path) -> AsyncIterator[OpenMcp]:
    """`await desk(*replies, answers="anyone", **settings)`: a server whose CLI says this."""
    made: list[McpHarness] = []
    async with harnesses(simulated_cli, tmp_path, "stdio") as house:

        async def make(*told: object, answers: str = "anyone", **more: object) -> McpHarness:
            made.append(McpHarness(await house(*told, **more), answers=answers))
            return made[-1]

        yield make
        for each in made:
            await each.aclose()


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    """The `mode` of a client: with the handshake, and without."""
    return request.param
