"""A server on the simulator for each module, and a folder for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.clients.mcp_client import end_sessions, simulating
from tests.support.server.machine import Machine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Machine]:
    """Its server starts with the first client that needs one, as on a user's machine."""
    machine = simulating(tmp_path_factory.mktemp("machine"))
    try:
        yield machine
    finally:
        await end_sessions(machine)
        await machine.aclose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a session works."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
