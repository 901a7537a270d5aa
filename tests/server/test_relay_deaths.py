"""A relay is killed, or its guard: the CLI and its tools go too, and the session goes on later."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from pilothouse.api.answers import Allow, Deny
from pilothouse.api.statuses import Status
from pilothouse.errors import QuestionSettled
from pilothouse.relay import registry
from pilothouse.relay.registry import RunningRelay
from pilothouse.server.engines import RELAYS_NAME
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from pilothouse_sim.scenario import Branch, Reply, When, gate, reply, text, tool
from tests.support.engine.harness import EngineHarness
from tests.support.processes import alive, gone
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

Victim = Literal["relay", "guard"]
CLI = RealCLI | SimulatedCLI
Housing = Callable[..., Awaitable[EngineHarness]]

# One that no hangup and no end of its parent reaches, and one that the tool waits for.
TOOL = (
    "setsid nohup sh -c 'echo $$ > astray.pid; exec sleep 1000' > /dev/null 2>&1 & "
    "sh -c 'echo $$ > waited.pid; exec sleep 1000'"
)
REASONS = {"relay": "its relay was killed", "guard": "its guard was killed"}
TRANSCRIPTS = ".claude/projects/*/*.jsonl"
WORDS = "".join(f"{number:03} " for number in range(100))


@pytest.fixture
def make_cli(
    request: pytest.FixtureRequest, simulated_cli: SimulatedCLIMaker, real_cli: RealCLIMaker
) -> Any:
    return simulated_cli if request.param == "simulated" else real_cli


@pytest.fixture
async def house(make_cli: Any, tmp_path: Path) -> AsyncIterator[Housing]:
    """An engine whose CLIs run behind relays: what the model says first, and after which words."""
    houses: list[EngineHarness] = []

    async def make(first: Reply, after: str, then: str) -> EngineHarness:
        # By what is said, not by turn: how much the CLI had written down is a matter of luck.
        branch = Branch(when=When(last_contains=after), replies=(reply(then),))
        # A CLI that is being killed may tell the model so, and ask once more.
        cli = make_cli(first, branches=[branch], strict=False)
        houses.append(EngineHarness(cli, tmp_path, "relay"))
        await houses[-1].open()
        return houses[-1]

    try:
        yield make
    finally:
        for each in houses:
            await each.aclose()
    for each in houses:
        await until(lambda it=each: not relays_of(it))


def relays_of(it: EngineHarness) -> list[RunningRelay]:
    files = (it.settings().state_dir / RELAYS_NAME).glob(f"*/{registry.NAME}")
    return [found for file in files if (found := registry.alive(file))]


async def kill(it: EngineHarness, victim: Victim, *others: int) -> None:
    """Kill it, and wait until everything that belongs to it is gone."""
    [found] = relays_of(it)
    assert found.guard_pid is not None
    assert found.cli_pid is not None
    pids = (found.relay_pid, found.guard_pid, found.cli_pid, *others)
    assert all(alive(pid) for pid in pids)
    os.kill(found.relay_pid if victim == "relay" else found.guard_pid, signal.SIGKILL)
    await gone(*pids)


async def failed(it: EngineHarness, session_id: str, victim: Victim) -> Status:
    """The session's status once it shows that its CLI is gone, and why."""
    status = await it.until(session_id, "error")
    assert not status.live
    assert status.pid is None
    assert REASONS[victim] in str(status.reason), status.reason
    [ended] = await it.records(session_id, "cli.ended")
    assert not ended["orderly"]
    assert not await it.records(session_id, "lines.lost")
    return status


async def resumed(it: EngineHarness, session_id: str, *, told: str) -> None:
    """The next message has a new CLI go on with the same conversation."""
    await it.say(session_id, "go on")
    status = await it.when(session_id, lambda status: status.result == told)
    assert (status.state, status.via) == ("done", "relay")
    assert "start here" in it.heard()
    assert "go on" in it.heard()
    assert len(await it.records(session_id, "cli.started")) == 2


async def in_transcript(it: EngineHarness, words: str) -> None:
    """The CLI writes some time later than it speaks: what it has not written is lost with it."""
    files = it.cli.home.glob
    await until(lambda: any(words in each.read_text() for each in files(TRANSCRIPTS)))


async def pids_in(*files: Path) -> list[int]:
    await until(lambda: all(each.exists() and each.read_text().strip() for each in files))
    return [int(each.read_text()) for each in files]


def either_dies(with_real: Victim) -> pytest.MarkDecorator:
    """The relay or its guard, with the simulator; with the real CLI one, under prove both."""

    def case(cli: str, victim: str) -> Any:
        marks = [pytest.mark.real] if cli == "real" else []
        if marks and victim != with_real:
            marks.append(pytest.mark.slow)
        return pytest.param(cli, victim, marks=marks)

    cases = [case(cli, victim) for cli in ("simulated", "real") for victim in REASONS]
    return pytest.mark.parametrize(("make_cli", "victim"), cases, indirect=["make_cli"])


@either_dies(with_real="relay")
async def test_a_death_in_the_middle_of_a_stream(house: Housing, victim: Victim) -> None:
    first = reply(text(WORDS, chunk=4), gate("mid"), "Never said.")
    it = await house(first, "go on", "Back again.")
    session_id = await it.start("start here")
    await it.cli.reached("mid")
    await in_transcript(it, "start here")
    await kill(it, victim)
    status = await failed(it, session_id, victim)
    assert not status.questions
    await resumed(it, session_id, told="Back again.")


@either_dies(with_real="guard")
async def test_a_death_in_the_middle_of_a_tool(house: Housing, victim: Victim) -> None:
    first = reply(tool("Bash", command=TOOL, description="wait"))
    it = await house(first, "go on", "Back again.")
    session_id = await it.start("start here")
    await it.answer(session_id, Allow())
    tools = await pids_in(it.cwd / "astray.pid", it.cwd / "waited.pid")
    await kill(it, victim, *tools)
    await failed(it, session_id, victim)
    await resumed(it, session_id, told="Back again.")


@either_dies(with_real="relay")
async def test_a_death_while_a_question_is_open(house: Housing, victim: Victim) -> None:
    first = reply(tool("Bash", command="echo no >> ran.txt", description="never run"))
    it = await house(first, "You had asked", "As you say.")
    session_id = await it.start("start here")
    question = await it.asked(session_id)
    await kill(it, victim)
    [left] = (await failed(it, session_id, victim)).questions
    assert (left.id, left.state, left.decidable) == (question.id, "withdrawn", True)
    assert REASONS[victim] in str(left.closed_because)
    told = await it.engine.answer(question.id, Allow())
    assert told.resumed
    await it.when(session_id, lambda status: status.result == "As you say.")
    with pytest.raises(QuestionSettled):
        await it.engine.answer(question.id, Deny(reason="too late"))
    assert not (it.cwd / "ran.txt").exists()
