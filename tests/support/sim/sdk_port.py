"""Where an official SDK works: a CLI, simulated or real, with a home and a scripted model."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pilothouse_sim.executables import simulator_executable
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import ModelRequest, Scenario, save
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.versions import CACHE, NEWEST

# Nobody listens there: the simulator calls no model.
NO_MODEL = "http://127.0.0.1:9"


# Every tool stands in the model's requests, instead of being searched for.
ALL_TOOLS = {"ENABLE_TOOL_SEARCH": "false"}


@dataclass
class Port:
    """A CLI with its home, its working directory and what the model behind it was asked."""

    cli_path: Path
    cwd: Path
    env: dict[str, str]
    requests: Callable[[], list[dict[str, Any]]]
    """The bodies of the model's requests so far, without those for the CLI's own purposes."""
    stderr: list[str] = field(default_factory=list[str])
    """What the CLI wrote there; the tests hand it to their SDK to fill."""

    def talks(self) -> list[str]:
        """The words and tool results of every request, whole conversations each."""
        return [json.dumps(body["messages"]) for body in self.requests()]


OpenPort = Callable[..., Awaitable[Port]]


def real_port(model: ScriptedModel, cwd: Path) -> Port:
    def requests() -> list[dict[str, Any]]:
        return [one.body for one in model.requests if not one.is_aside]

    env = environment(cwd.parent, model.url, **ALL_TOOLS)
    return Port(CACHE / NEWEST / "claude", cwd, env, requests)


def simulated_port(scenario: Scenario, cwd: Path, folder: Path) -> Port:
    stage, script = folder / "stage", folder / "scenario.json"
    stage.mkdir()
    save(scenario, script)
    own = {"PILOTHOUSE_SCENARIO": str(script), "PILOTHOUSE_STAGE": str(stage)}

    def requests() -> list[dict[str, Any]]:
        lines = (stage / "requests.jsonl").read_text().splitlines()
        bodies = [json.loads(line) for line in lines]
        return [body for body in bodies if not ModelRequest.parse(body).is_aside]

    env = environment(cwd.parent, NO_MODEL, **ALL_TOOLS, **own)
    return Port(simulator_executable(folder), cwd, env, requests)
