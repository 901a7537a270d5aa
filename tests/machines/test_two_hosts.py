"""A server on one host, a runner on another, and the cable between them.

What the CLI wrote is kept beside the server's way, by a `tee` on its output, and held against the
journal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilothouse.api.requests import Say
from pilothouse.api.statuses import Status
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from pilothouse_sim.scenario import Branch, Reply, ToolCall, When, gate, reply, text, tool
from tests.support.certificates import certificate
from tests.support.machines.fleet import FleetMachine, FleetServer
from tests.support.machines.hosts import Hosts, two_hosts
from tests.support.server.overheard import Overheard, is_partial, overheard
from tests.support.waiting import DEADLINE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs network namespaces")

WORDS = "".join(f"{number:03} " for number in range(200))
LAST = "The end of it all."
NAMED = "the machine b"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as made:
        yield made


@dataclass
class Voyage:
    """A server on host A, and a runner on host B."""

    hosts: Hosts
    harbour: FleetServer
    machine: FleetMachine
    said: Overheard

    @property
    def cli(self) -> RealCLI | SimulatedCLI:
        return self.machine.cli

    async def start(self, prompt: str = "go") -> str:
        return await self.harbour.start("b", self.cli.cwd, prompt)

    def is_there(self, status: Status) -> bool:
        """Whether its CLI runs on B, and everybody is told so."""
        assert status.machine == "b", status
        if status.pid is None:
            return False
        assert status.via == "relay"
        return self.hosts.b.has(status.pid)

    async def cut(self, session_id: str) -> None:
        """Pull the cable, and wait until the server has noticed."""
        self.hosts.cable.pull()
        await self.harbour.apart(session_id)
        await self.harbour.runner_is("b", "connected", "away", "lost")

    async def mend(self, session_id: str) -> None:
        self.hosts.cable.plug()
        await self.harbour.runner_is("b", "lost", "connected")
        await self.harbour.together(session_id)

    async def said_to_ask(self, count: int) -> None:
        """Once the CLI has asked so often; nobody may have heard it yet."""
        asks = b'"can_use_tool"'
        await until(lambda: sum(asks in line for line in self.said.lines()) >= count)

    async def check_lines(self, session_id: str, *kinds: str) -> list[bytes]:
        """The journal comes to have what the CLI wrote: every line once and in order."""
        said, kept = [b""], list[bytes]()
        async with asyncio.timeout(DEADLINE):
            # Either may be ahead: a `tee` writes to one after the other.
            while len(kept) != len(said):
                kept = await self.harbour.lines(session_id, *kinds)
                lines = self.said.lines()
                said = [each for each in lines if "partial" in kinds or not is_partial(each)]
        assert kept == said
        return kept


Voyaging = Callable[[Callable[[], RealCLI | SimulatedCLI]], Awaitable[Voyage]]


@pytest.fixture
async def voyage(hosts: Hosts, tmp_path: Path) -> AsyncIterator[Voyaging]:
    """`await voyage(make_cli)`: both hosts at work. The test itself is on host A."""
    voyages: list[Voyage] = []

    async def set_out(make_cli: Callable[[], RealCLI | SimulatedCLI]) -> Voyage:
        with hosts.b.entered():
            # A scripted model listens there, and nowhere else.
            cli = make_cli()
        said = overheard(cli, tmp_path)
        harbour = FleetServer(
            tmp_path, host=hosts.a.address, certificate=certificate(tmp_path, hosts.a.address)
        )
        machine = FleetMachine(
            tmp_path / "b", cli, harbour, program=said.program, on_it=hosts.b.entered
        )
        voyages.append(Voyage(hosts, harbour, machine, said))
        await harbour.open()
        await machine.join("b")
        return voyages[-1]

    with hosts.a.entered():
        try:
            yield set_out
        finally:
            for each in voyages:
                await each.machine.aclose()
                await each.harbour.aclose()


# The cable is pulled, and put back


def note(words: str) -> ToolCall:
    return tool("Bash", command=f"echo {words} >> ran.txt", description="note that it ran")


def script() -> list[Reply]:
    return [
        reply(text(WORDS, chunk=8), note("first")),
        reply(gate("mid"), text(WORDS, chunk=8), note("second")),
        reply(gate("last"), LAST),
    ]


async def check_a_turn_across_two_cuts(it: Voyage) -> None:
    harbour = it.harbour
    session_id = await it.start()
    pid = (await harbour.when(session_id, it.is_there)).pid
    first = await harbour.asked(session_id)

    await it.cut(session_id)
    runner = await harbour.runner("b")
    assert runner is not None
    assert (runner.state, runner.sessions) == ("lost", [session_id])
    waiting = (await harbour.engine.status(session_id)).waiting_on
    assert waiting is not None
    assert waiting.detail == f"{NAMED}, which is lost"
    # What is answered meanwhile waits for the cable.
    await harbour.allow(first)
    assert not (it.cli.cwd / "ran.txt").exists()
    await it.mend(session_id)
    await it.cli.reached("mid")

    await it.cut(session_id)
    it.cli.release("mid")
    await it.said_to_ask(2)
    assert not (await harbour.engine.status(session_id)).questions
    await it.mend(session_id)
    second = await harbour.asked(session_id)
    assert second.id != first.id
    await harbour.allow(second)
    await it.cli.reached("last")

    await it.check_lines(session_id, "cli", "partial")
    it.cli.release("last")
    status = await harbour.until(session_id, "done")
    assert it.is_there(status)
    assert (status.pid, it.said.starts()) == (pid, [pid])
    assert str(status.result).endswith(LAST)
    assert (it.cli.cwd / "ran.txt").read_text().split() == ["first", "second"]
    await check_journal(it, session_id, [first.id, second.id])


async def check_journal(it: Voyage, session_id: str, asked: list[str]) -> None:
    lines = await it.check_lines(session_id, "cli")
    assert sum(json.loads(line)["type"] == "result" for line in lines) == 1
    closed = await it.harbour.records(session_id, "question.closed")
    assert [(each["id"], each["state"]) for each in closed] == [(id_, "answered") for id_ in asked]
    [started] = await it.harbour.records(session_id, "cli.started")
    assert started["machine"] == "b"
    kinds = {event.kind for event in await it.harbour.events(session_id)}
    assert not kinds & {"lines.lost", "cli.ended", "noise"}


async def test_a_turn_of_a_simulated_cli_goes_on_while_the_cable_is_out(
    voyage: Voyaging, simulated_cli: SimulatedCLIMaker
) -> None:
    await check_a_turn_across_two_cuts(await voyage(lambda: simulated_cli(*script())))


@pytest.mark.real
async def test_a_turn_of_a_real_cli_goes_on_while_the_cable_is_out(
    voyage: Voyaging, real_cli: RealCLIMaker
) -> None:
    it = await voyage(lambda: real_cli(*script(), version="2.1.325"))
    await check_a_turn_across_two_cuts(it)


# The host is gone, and comes back


def on(words: str, *replies: Reply) -> Branch:
    return Branch(when=When(last_contains=words), replies=replies)


BRANCHES = [
    on("one", reply("One.")),
    on("two", reply(note("never"))),
    on("anybody there", reply("Yes.")),
    on("and now", reply("Here again.")),
]


async def two_sessions(it: Voyage) -> tuple[str, str]:
    """One that has done its work, and one in the middle of a turn with a question open."""
    done = await it.start("one")
    await it.harbour.until(done, "done")
    asks = await it.start("two")
    await it.harbour.asked(asks)
    assert all([it.is_there(await it.harbour.engine.status(each)) for each in (done, asks)])
    return done, asks


async def vanish(it: Voyage, *sessions: str) -> None:
    """The host is gone with all that ran there, and whoever asks the server is told so."""
    it.hosts.cable.pull()
    await it.machine.die()
    runner = await it.harbour.runner_is("b", "connected", "away", "lost")
    assert set(runner.sessions) == set(sessions)
    for each in sessions:
        waiting = (await it.harbour.apart(each)).waiting_on
        assert waiting is not None
        assert waiting.detail == f"{NAMED}, which is lost"


async def check_ended(it: Voyage, done: str, asks: str, why: str) -> None:
    """Both are over, and the one that was at work says why."""
    status = await it.harbour.until(asks, "error")
    assert why in str(status.reason)
    [question] = await it.harbour.records(asks, "question.closed")
    assert question["state"] == "withdrawn"
    status = await it.harbour.when(done, lambda status: not status.live)
    assert (status.state, status.machine) == ("done", "b")


async def check_resumed(it: Voyage, session_id: str) -> None:
    """What was said meanwhile is told the CLI of the host that has the transcript."""
    await it.harbour.engine.say(session_id, Say(content="and now"))
    status = await it.harbour.when(session_id, lambda status: status.result == "Here again.")
    assert it.is_there(status)
    assert not status.queued
    records = await it.harbour.records(session_id, "cli.started")
    assert [each["machine"] for each in records] == ["b", "b"]
    assert [each.get("resumed", False) for each in records] == [False, True]
    told = json.dumps(it.cli.requests[-1].body["messages"])
    assert all(words in told for words in ("two", "anybody there", "and now"))
    assert not (it.cli.cwd / "ran.txt").exists()


async def test_a_host_that_is_gone_for_good_is_told_and_its_sessions_end(
    voyage: Voyaging, simulated_cli: SimulatedCLIMaker
) -> None:
    # A CLI whose host goes may tell the model so, and ask once more.
    it = await voyage(lambda: simulated_cli(branches=BRANCHES, strict=False))
    harbour, engine = it.harbour, it.harbour.engine
    done, asks = await two_sessions(it)
    await vanish(it, done, asks)

    stopped = await engine.stop(done)
    assert (stopped.state, stopped.was_live) == ("done", True)
    assert not (await engine.status(done)).live

    # It is as lost for the next server, which does not wait for as long.
    await harbour.kill()
    await harbour.open(PILOTHOUSE_LAST_WILL_S="1")
    await check_ended(it, done, asks, f"{NAMED} has been gone for 1 s")
    await engine.say(asks, Say(content="anybody there"))
    status = await harbour.when(asks, lambda status: "runner is lost" in str(status.reason))
    assert [each.text for each in status.queued] == ["anybody there"]

    it.hosts.cable.plug()
    await it.machine.open("b")
    await check_resumed(it, asks)


@pytest.mark.slow
async def test_a_host_that_comes_back_without_its_sessions_ends_them_and_takes_them_up_again(
    voyage: Voyaging, simulated_cli: SimulatedCLIMaker
) -> None:
    it = await voyage(lambda: simulated_cli(branches=BRANCHES))
    done, asks = await two_sessions(it)
    await vanish(it, done, asks)
    it.hosts.cable.plug()
    await it.machine.open("b")
    await check_ended(it, done, asks, "the runner b came back without it")
    await it.harbour.engine.say(asks, Say(content="anybody there"))
    await check_resumed(it, asks)
