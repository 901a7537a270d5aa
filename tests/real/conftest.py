"""A real CLI, a scripted model, and a home of their own for each test.

The test process is in a network namespace with nothing but loopback: the scripted model and every
CLI meet there and nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import AnyReply, Scenario
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.real.desk import Desk, OpenDesk
from tests.support.switches import PROVING
from tests.support.versions import CACHE, EVERY, VERSIONS, is_ordinary


def pytest_configure() -> None:
    for version in EVERY if PROVING else VERSIONS:
        if not (CACHE / version / "claude").exists():
            name = "prove" if PROVING else "test"
            raise pytest.UsageError(f"there is no CLI {version} in {CACHE}: run ./scripts/{name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.real)
    left_out = set() if PROVING else {item for item in mine if not is_ordinary(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that names no version on each CLI; `@newest`, `@since` and `@before` narrow it."""
    named = any(
        "version" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    )
    if "version" in metafunc.fixturenames and not named:
        metafunc.parametrize("version", EVERY if PROVING else VERSIONS, indirect=True)


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """The CLI that a test runs on."""
    return request.param


@pytest.fixture
async def desk(version: str, tmp_path: Path) -> AsyncIterator[OpenDesk]:
    """`await desk(reply(...), ...)` gives a model that says this, in a fresh home."""
    async with AsyncExitStack() as stack:

        async def setup(*replies: AnyReply, **scenario: Any) -> Desk:
            home, cwd = tmp_path / "home", tmp_path / "project"
            home.mkdir()
            cwd.mkdir()
            script = Scenario(replies=list(replies), **scenario)
            model = await stack.enter_async_context(ScriptedModel(script))
            return Desk(version, model, home, cwd, stack)

        yield setup
