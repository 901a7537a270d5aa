"""A server whose sessions run on a CLI that the test has made, and can hold at a gate."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser

from pilothouse_sim.clis import RealCLI, SimulatedCLI
from tests.support.console.house import House
from tests.support.server.killable import with_cli
from tests.support.server.machine import Machine


@asynccontextmanager
async def house_on(
    cli: RealCLI | SimulatedCLI,
    folder: Path,
    browser: Browser,
    *,
    program: Path | None = None,
    **env: str,
) -> AsyncGenerator[House]:
    """A server on this CLI, perhaps by way of a program; nothing of it is left afterwards."""
    house = House(_machine(cli, folder, program, env), browser)
    try:
        await house.open()
        yield house
    finally:
        await house.aclose()


def _machine(
    cli: RealCLI | SimulatedCLI, folder: Path, program: Path | None, env: dict[str, str]
) -> Machine:
    folder.mkdir()
    machine = Machine(folder)
    machine.env |= with_cli(cli, program) | env
    return machine
