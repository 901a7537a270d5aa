"""`pilothouse-sim model`: the scripted model by itself, for a real CLI to talk to."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pilothouse_sim.scenario import Broken, Gate, Reply, Scenario, ScenarioError, load
from pilothouse_sim.scripted_model import ScriptedModel

__all__ = ["main"]


def main(words: Sequence[str]) -> int:
    """Serve until a signal comes; the first lines are what points a CLI here."""
    parser = argparse.ArgumentParser(
        prog="pilothouse-sim model",
        description="Serve a scenario as the Messages API on the loopback interface, and print the "
        "variables that point a real CLI at it.",
    )
    told = "the scenario to play, a JSON file"
    parser.add_argument("--scenario", metavar="FILE", type=Path, required=True, help=told)
    try:
        scenario = load(parser.parse_args(words).scenario)
    except ScenarioError as error:
        sys.stderr.write(f"pilothouse-sim model: {error}\n")
        return 1
    asyncio.run(_serve(scenario))
    return 0


async def _serve(scenario: Scenario) -> None:
    ending = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ending.set)
    async with ScriptedModel(scenario) as model:
        # Nobody is there who could open them later.
        for gate in _gates(scenario):
            model.release(gate)
        lines = [f"export {name}={value}\n" for name, value in _variables(model.url).items()]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        await ending.wait()


def _variables(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _gates(scenario: Scenario) -> Iterator[str]:
    branches = (each for branch in scenario.branches for each in branch.replies)
    for each in (*scenario.replies, *branches):
        if isinstance(each, Broken):
            yield each.gate
        reply = each.reply if isinstance(each, Broken) else each
        if isinstance(reply, Reply):
            yield from (step.name for step in reply.steps if isinstance(step, Gate))
