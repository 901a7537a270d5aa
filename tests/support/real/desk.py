"""What the tests of real CLIs share: a scripted model, a home, and clients of both."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pilothouse import Client, Options
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.places import ROOT

NEWEST = "2.1.325"
VERSIONS = ("2.1.325", "2.1.119", "2.1.37")
CACHE = Path(os.environ.get("PILOTHOUSE_CACHE") or ROOT / ".cache/clis")


newest = pytest.mark.parametrize("version", [NEWEST], indirect=True)
older = pytest.mark.parametrize("version", VERSIONS[1:], indirect=True)


@dataclass
class Desk:
    """One scripted model and the CLIs that talk to it."""

    version: str
    model: ScriptedModel
    home: Path
    cwd: Path
    stack: AsyncExitStack

    def options(self, **given: Any) -> Options:
        extra = given.pop("env", {})
        return Options(
            cli_path=CACHE / self.version / "claude",
            cwd=given.pop("cwd", self.cwd),
            inherit_env=False,
            env=environment(self.home, self.model.url, **extra),
            **given,
        )

    async def client(self, **given: Any) -> Client:
        """A connected client; it closes when the test ends."""
        return await self.stack.enter_async_context(Client(self.options(**given)))


OpenDesk = Callable[..., Awaitable[Desk]]
