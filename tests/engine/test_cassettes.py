"""A session's wire, written down from the journal, and replayed by the simulator."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

import pilothouse
from pilothouse import Client, Options
from pilothouse.api.answers import Allow, Deny
from pilothouse.errors import UnknownSession, UsageError
from pilothouse_sim.cassettes import Cassette, read, write_program
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.simulated
TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
AGAIN = reply(tool("Bash", command="touch more", description="Make more"))
KEY = {"HARBOUR_KEY": "a-secret"}


async def exported(it: EngineHarness, session_id: str, path: Path) -> Cassette:
    pieces = [piece async for piece in it.engine.cassette(session_id)]
    await asyncio.to_thread(path.write_bytes, b"".join(pieces))
    return read(path)


async def talked(it: EngineHarness) -> str:
    """A session with an answer that lets, one that does not, and a second life of its CLI."""
    session_id = await it.start("go", env=KEY)
    await it.engine.answer((await it.asked(session_id)).id, Allow())
    await it.until(session_id, "done")
    await it.engine.stop(session_id)
    await it.say(session_id, "more")
    await it.engine.answer((await it.asked(session_id)).id, Deny(reason="not that"))
    await it.until(session_id, "done")
    await it.events()
    return session_id


async def test_the_simulator_replays_what_was_exported(house: OpenEngine, tmp_path: Path) -> None:
    it = await house(TOUCH, "Made.", AGAIN, "Well then.", allowed_env=["HARBOUR_KEY"])
    session_id = await talked(it)
    path = tmp_path / "talk.jsonl"
    cassette = await exported(it, session_id, path)
    assert cassette.header.cwd == str(it.cwd)
    assert cassette.cli_version == it.version
    sim = [sys.executable, "-m", "pilothouse_sim.simulator", "--cassette", str(path)]
    program = write_program(tmp_path / "bin", sim)
    asked: list[str] = []

    async def decide(request: pilothouse.PermissionRequest) -> Allow | Deny:
        asked.append(request.input["command"])
        return Allow() if len(asked) == 1 else Deny(reason="not that")

    options = Options(cli_path=program, cwd=tmp_path, on_permission=decide)
    async with asyncio.timeout(DEADLINE), Client(options) as client:
        assert (await client.ask("go")).text == "Made."
        assert (await client.ask("more")).text == "Well then."
    assert asked == ["touch made", "touch more"]


async def test_lines_of_the_cli_are_there_to_the_byte_and_no_secret_of_the_options(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house(TOUCH, "Made.", AGAIN, "Well then.", allowed_env=["HARBOUR_KEY"])
    session_id = await talked(it)
    path = tmp_path / "talk.jsonl"
    cassette = await exported(it, session_id, path)
    stored = await it.engine.read(0, session_id=session_id, limit=10_000)
    written = [bytes(each.body) for each in stored.events if each.kind == "cli"]

    def is_whole(line: bytes) -> bool:
        return b'"control_' not in line and b'"stream_event"' not in line

    assert list(filter(is_whole, cassette.lines("out"))) == list(filter(is_whole, written))
    assert b"a-secret" not in path.read_bytes()
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    assert any("pieces of messages" in each for each in header["left_out"])


async def test_only_what_went_over_a_wire_of_ours_is_a_cassette(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    with pytest.raises(UnknownSession):
        await anext(it.engine.cassette("nobody"))
    other = await run_bare_cli(it, "hello")
    with pytest.raises(UsageError, match="Markdown or JSON"):
        await anext(it.engine.cassette(other))
