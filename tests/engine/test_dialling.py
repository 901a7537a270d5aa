"""Sessions whose CLI dials in itself: who may, how they end, and what a lost connection costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.answers import Allow
from pilothouse.doors.dialect import SdkUrlTransport
from pilothouse.errors import InvalidOption
from pilothouse_sim.plugin import RealCLIMaker
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, harnesses
from tests.support.versions import NATIVE
from tests.support.waiting import DEADLINE

FORGETFUL = "2.1.37"
"""A build that repeats nothing after a reconnect."""
FAILED = 1011

SLOW = reply("Some ", gate("middle"), "words.")
TOUCH = reply(tool("Bash", command="echo made >> made", description="Make it"))


@pytest.fixture
async def dialled(real_cli: RealCLIMaker, tmp_path: Path) -> AsyncIterator[OpenEngine]:
    async with harnesses(partial(real_cli, version=NATIVE), tmp_path, "sdk-url") as make:
        yield make


@pytest.fixture
async def forgetful(real_cli: RealCLIMaker, tmp_path: Path) -> AsyncIterator[OpenEngine]:
    async with harnesses(partial(real_cli, version=FORGETFUL), tmp_path, "sdk-url") as make:
        yield make


def transport(it: EngineHarness, session_id: str) -> SdkUrlTransport:
    found: Any = it.engine.sessions[session_id]
    return found.cli.route._transport


def lose(it: EngineHarness, session_id: str, upto: bytes) -> None:
    """Lose what the CLI says from now on, and the connection after a line with these words."""
    ours: Any = transport(it, session_id)
    take, connections = ours._take, ours._connections

    def take_none(lines: Sequence[bytes], is_new: Callable[[Any], bool]) -> None:
        if ours._connections > connections:
            take(lines, is_new)
        elif any(upto in line for line in lines):
            ours._link.end(FAILED)

    ours._take = take_none


async def recorded(it: EngineHarness, kind: str) -> None:
    """Wait until something of this kind is kept."""
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.watch(0)) as batches:
        async for batch in batches:
            if any(each.kind == kind for each in batch.events):
                return


# Who may


async def test_a_cli_that_is_too_new_is_refused_and_the_relay_is_named(piped: OpenEngine) -> None:
    it = await piped("One.", strict=False)
    with pytest.raises(InvalidOption, match=r"refuses --sdk-url .* behind a relay"):
        await it.start(via="sdk-url")
    assert (await it.engine.health()).sessions == 0


# Its end


@pytest.mark.real
async def test_a_cli_that_dials_ends_with_its_engine(dialled: OpenEngine) -> None:
    it = await dialled(TOUCH)
    session_id = await it.start()
    question = await it.asked(session_id)
    before = await it.engine.status(session_id)
    assert (before.via, before.live) == ("sdk-url", True)
    await it.close()
    await it.gone(before.pid)
    await it.open()
    status = await it.engine.status(session_id)
    assert (status.live, status.pid) == (False, None)
    assert [(each.id, each.state) for each in status.questions] == [(question.id, "withdrawn")]


# Lost connections


@pytest.mark.real
async def test_what_is_lost_on_the_way_is_repeated_and_kept_once(dialled: OpenEngine) -> None:
    it = await dialled(SLOW, "More.")
    session_id = await it.start()
    await it.cli.reached("middle")
    lose(it, session_id, b'"type":"result"')
    it.cli.release("middle")
    status = await it.until(session_id, "done")
    assert (status.result, status.turns) == ("Some words.", 1)
    await it.say(session_id, "and then?")
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "More."
    names = [each["uuid"] for each in await it.records(session_id, "cli") if "uuid" in each]
    assert len(names) == len(set(names))
    assert await it.records(session_id, "lines.lost") == []


@pytest.mark.real
async def test_lines_that_the_cli_does_not_repeat_are_told_as_lost(forgetful: OpenEngine) -> None:
    it = await forgetful(SLOW, strict=False)
    session_id = await it.start()
    await it.cli.reached("middle")
    lose(it, session_id, b'"type":"result"')
    it.cli.release("middle")
    await recorded(it, "lines.lost")
    [told] = await it.records(session_id, "lines.lost")
    assert "lines it wrote then are gone" in told["because"]


@pytest.mark.real
async def test_a_question_that_was_lost_on_the_way_is_asked_again(dialled: OpenEngine) -> None:
    it = await dialled(reply("So", gate("middle"), *TOUCH.steps), "Made.")
    session_id = await it.start()
    await it.cli.reached("middle")
    lose(it, session_id, b'"can_use_tool"')
    it.cli.release("middle")
    await it.answer(session_id, Allow())
    assert (await it.until(session_id, "done")).result == "Made."
    assert (it.cwd / "made").read_text() == "made\n"


@pytest.mark.real
async def test_a_question_that_is_open_stays_one_over_a_new_connection(dialled: OpenEngine) -> None:
    it = await dialled(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    ours: Any = transport(it, session_id)
    ours._link.end(FAILED)
    await it.engine.answer(question.id, Allow())
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("Made.", [])
    assert ours._connections == 2
    assert (it.cwd / "made").read_text() == "made\n"
    for kind in ("question.opened", "question.closed"):
        assert len(await it.records(session_id, kind)) == 1
