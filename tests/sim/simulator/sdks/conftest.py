"""Where an official SDK works: the simulator as its CLI, and the real CLI, which judges the test.

Both play the same scenario, in the same environment; what a test shows must hold for both.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pilothouse_sim.scenario import AnyReply, Scenario
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.sim.sdk_port import OpenPort, Port, real_port, simulated_port


@pytest.fixture(
    params=["simulator", pytest.param("real", marks=[pytest.mark.real, pytest.mark.slow])]
)
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenPort]:
    """`await port(reply(...), ...)` is a CLI whose model says these replies."""
    async with AsyncExitStack() as stack:
        opened: list[Port] = []

        async def open_port(*replies: AnyReply) -> Port:
            cwd = tmp_path / "dev" / "project"
            cwd.mkdir(parents=True)
            scenario = Scenario(replies=list(replies))
            if request.param == "real":
                model = await stack.enter_async_context(ScriptedModel(scenario))
                opened.append(real_port(model, cwd))
            else:
                opened.append(simulated_port(scenario, cwd, tmp_path))
            return opened[-1]

        yield open_port
        for each in opened:
            assert each.stderr == []


@pytest.fixture
def only_env(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Makes an environment the whole one of this process: an SDK hands it on to its CLI."""

    def replace(env: dict[str, str]) -> None:
        for name in list(os.environ):
            # pytest counts on finding its own again.
            if not name.startswith("PYTEST_"):
                monkeypatch.delenv(name)
        for name, value in env.items():
            monkeypatch.setenv(name, value)

    return replace
