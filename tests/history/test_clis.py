"""Transcripts as CLIs write them, simulated and real."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pilothouse import Client
from pilothouse.history import FoundSession, History
from pilothouse_sim.clis import RealCLI, Room, SimulatedCLI, scenario_from
from pilothouse_sim.scenario import reply, tool
from pilothouse_sim.served_model import ServedModel
from tests.support.history.terminal import terminal
from tests.support.versions import CACHE, NEWEST, VERSIONS
from tests.support.waiting import DEADLINE

SCENARIO = scenario_from(reply("Aye."), reply("Under way."))
AGENT = tool("Agent", description="Look", prompt="Look out", subagent_type="general-purpose")


async def talk(cli: SimulatedCLI | RealCLI, *prompts: str) -> str:
    async with asyncio.timeout(DEADLINE), Client(cli.options()) as client:
        for prompt in prompts:
            await client.ask(prompt)
        assert client.session_id is not None
        return client.session_id


async def only(cli: SimulatedCLI | RealCLI) -> FoundSession:
    history = History(cli.home / ".claude")
    page = await history.list(cwd=str(cli.cwd))
    assert page.unreadable == []
    [found] = page.found
    assert await history.find(found.session_id) == found
    return found


async def check_talk(cli: SimulatedCLI | RealCLI) -> FoundSession:
    begun = time.time() * 1000
    session_id = await talk(cli, "Weigh anchor", "Set sail")
    found = await only(cli)
    assert found.session_id == session_id
    assert found.first_prompt == "Weigh anchor"
    assert found.cwd == str(cli.cwd.resolve())
    assert begun - 1000 < found.created_at <= found.updated_at + 1000
    assert found.size > 0
    assert not found.interactive
    assert found.branch is None
    return found


async def test_a_session_of_the_simulator_is_found(tmp_path: Path) -> None:
    found = await check_talk(SimulatedCLI(Room(tmp_path), SCENARIO))
    assert found.title == "Set sail"


async def test_a_session_has_the_name_it_was_given(tmp_path: Path) -> None:
    cli = SimulatedCLI(Room(tmp_path), SCENARIO)
    await talk(cli, "Weigh anchor", "/rename The voyage", "Set sail")
    assert (await only(cli)).title == "The voyage"


async def test_a_subagent_is_no_session_of_its_own(tmp_path: Path) -> None:
    cli = SimulatedCLI(Room(tmp_path), scenario_from(reply(AGENT), reply("Seen."), reply("Good.")))
    await talk(cli, "Look out")
    assert list((cli.home / ".claude/projects").glob("*/*/subagents/agent-*.jsonl"))
    assert (await only(cli)).title == "Look out"


@pytest.mark.real
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_of_a_real_cli_is_found(tmp_path: Path, version: str) -> None:
    with ServedModel(SCENARIO) as model:
        room, binary = Room(tmp_path), CACHE / version / "claude"
        found = await check_talk(RealCLI(room, binary, model, SCENARIO, strict=False))
    assert found.version == version
    assert found.title in ("Set sail", "Weigh anchor")


def sit(cli: RealCLI) -> None:
    """A short session of a person at a terminal."""
    with terminal(cli) as it:
        it.type("Weigh anchor", shows="anchor")
        it.type("\r", shows="Aye.")
        it.type("/rename The voyage", shows="voyage")
        it.type("\r", shows="renamed")
        it.leave()


@pytest.mark.real
async def test_a_session_at_a_terminal_is_found_and_known_to_be_interactive(tmp_path: Path) -> None:
    with ServedModel(SCENARIO) as model:
        cli = RealCLI(Room(tmp_path), CACHE / NEWEST / "claude", model, SCENARIO, strict=False)
        await asyncio.to_thread(sit, cli)
    found = await only(cli)
    assert (found.title, found.first_prompt) == ("The voyage", "Weigh anchor")
    assert (found.interactive, found.cwd) == (True, str(cli.cwd.resolve()))
    typed = cli.home / ".claude" / "history.jsonl"
    assert found.session_id in typed.read_text()
    typed.unlink()
    assert (await only(cli)).interactive
