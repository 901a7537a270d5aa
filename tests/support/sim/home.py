"""A home in which the simulator runs more than once, and what it leaves there on disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import Scenario, Script
from pilothouse_sim.simulator.flags import parse
from pilothouse_sim.simulator.model import Model
from pilothouse_sim.simulator.process import run
from tests.support.sim.client import FLAGS, Answers, Message, SimClient
from tests.support.waiting import DEADLINE

FIRST = "00000070-0000-4000-8000-000000000000"
SECOND = "00000071-0000-4000-8000-000000000000"


class Home:
    """A home, its working directory, and one scenario that all runs share."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
        self.place = place
        self.cwd = place / "project"
        self.cwd.mkdir(exist_ok=True)
        self.projects = place / ".claude" / "projects"
        self.scenario = scenario
        self.code: int | None = None
        monkeypatch.chdir(self.cwd)
        monkeypatch.setenv("HOME", str(place))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place / ".claude"))

    @asynccontextmanager
    async def run(self, *flags: str, answers: Answers | None = None) -> AsyncIterator[SimClient]:
        """One run, from its start to its end."""
        client = SimClient(answers or {})
        model = Model(Script(self.scenario), self.place)
        running = asyncio.create_task(run(parse([*FLAGS, *flags]), client, model))
        try:
            async with asyncio.timeout(DEADLINE):
                await client.begun()
            yield client
        finally:
            client.leave()
            async with asyncio.timeout(DEADLINE):
                self.code = await running

    def path(self, session: str = FIRST) -> Path:
        """A session's transcript."""
        (found,) = self.projects.glob(f"*/{session}.jsonl")
        return found

    def lines(self, session: str = FIRST, *kinds: str) -> list[Message]:
        """The lines of a transcript, or those of some kinds."""
        lines = [json.loads(line) for line in self.path(session).read_text().splitlines()]
        return [line for line in lines if not kinds or line["type"] in kinds]

    def told(self) -> list[Any]:
        """What the model was told with the last request, by role."""
        request = json.loads((self.place / "requests.jsonl").read_text().splitlines()[-1])
        return [(each["role"], words(each["content"])) for each in request["messages"]]

    def said(self) -> list[Any]:
        """What the model was told with the last request, piece by piece."""
        told = [said for _, said in self.told()]
        return [piece for said in told for piece in (said if isinstance(said, list) else [said])]


def words(content: Any) -> Any:
    """Texts and results of a message, without what is around them."""
    if isinstance(content, str):
        return content
    return [block.get("text", block.get("content", block.get("name"))) for block in content]


def script(*replies: Any, **more: Any) -> Scenario:
    """A scenario of these replies."""
    return Scenario(replies=list(replies), **more)
