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

from pilothouse.testing.scenario import AnyReply, Scenario
from pilothouse.testing.scripted_model import ScriptedModel
from tests.real.desk import CACHE, VERSIONS, Desk, Setup


def pytest_configure() -> None:
    for version in VERSIONS:
        if not (CACHE / version / "claude").exists():
            raise pytest.UsageError(f"there is no CLI {version} in {CACHE}: run ./scripts/test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each supported CLI in turn; `@newest` and `@older` narrow it."""
    return request.param


@pytest.fixture
async def desk(version: str, tmp_path: Path) -> AsyncIterator[Setup]:
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
