"""Every test here runs twice: behind its engine is the simulator, then the real CLI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.testing.plugin import RealCLIMaker, SimulatedCLIMaker
from tests.sessions.engine.house import House

Housing = Callable[..., Awaitable[House]]


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
async def house(
    request: pytest.FixtureRequest,
    simulated_cli: SimulatedCLIMaker,
    real_cli: RealCLIMaker,
    tmp_path: Path,
) -> AsyncIterator[Housing]:
    """`await house(*replies, **settings)`: an open engine with a CLI that says this."""
    maker = simulated_cli if request.param == "simulated" else real_cli
    houses: list[House] = []

    async def make(*told: Any, branches: Any = None, strict: bool = True, **flags: Any) -> House:
        made = House(maker(*told, branches=branches, strict=strict), tmp_path / str(len(houses)))
        await made.open(**flags)
        houses.append(made)
        return made

    yield make
    for each in houses:
        await each.aclose()
