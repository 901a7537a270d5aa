from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.console.browser import launched
from tests.support.console.house import House
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

HERE = Path(__file__).parent

expect.set_options(timeout=DEADLINE * 1000)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """One loop for a worker's tests here: the browser belongs to the loop that launched it."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def house(tmp_path: Path, browser: Browser) -> AsyncIterator[House]:
    """A server on the simulator, which plays the scene that a prompt asks for."""
    machine = Machine(tmp_path)
    machine.env["CLAUDE_CODE_PATH"] = "pilothouse-sim"
    house = House(machine, browser)
    try:
        await house.open()
        yield house
    finally:
        await house.aclose()
