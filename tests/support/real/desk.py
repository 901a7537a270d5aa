"""What the tests of real CLIs share: a scripted model, a home, and clients of both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilothouse import Client, Options
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import ModelRequest
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.versions import CACHE


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


def conversation(it: Desk) -> list[ModelRequest]:
    """What the model was asked, without what the CLI asks for its own purposes."""
    requests = it.model.requests
    return [each for each in requests if not each.is_aside and not each.is_compaction]
