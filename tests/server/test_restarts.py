"""A server is killed and started again, over and over, in the middle of one turn of one CLI.

What the CLI wrote is kept beside the server's way, by a `tee` on its output, and held against the
journal. The seed is printed; PILOTHOUSE_SEED sets another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.requests import Say, Start
from pilothouse.api.statuses import Status
from pilothouse.errors import ServerError
from pilothouse.relay import registry
from pilothouse.remote import RemoteEngine
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from pilothouse_sim.scenario import Reply, Step, Text, ToolCall, gate, reply, text, tool
from tests.support.server.killable import KillableServer, with_cli
from tests.support.server.load import Lost
from tests.support.server.overheard import Overheard, is_partial, overheard
from tests.support.server.voices import HttpVoice
from tests.support.waiting import DEADLINE, until

ASKS = 3
STRETCHES = 5
"""So many times the model falls silent before each ask, and before the end."""
WORDS = 24
LAST = "The end of it all."


# The turn


def script() -> list[Reply]:
    parts = [reply(*stretches(part), append(part)) for part in range(ASKS)]
    return [*parts, reply(*stretches(ASKS), gate("last"), LAST)]


def stretches(part: int) -> Iterator[Step]:
    for number in range(STRETCHES):
        yield gate(f"{part}.{number}")
        words = "".join(f"{part}.{number}.{word:02} " for word in range(WORDS))
        yield text(words, chunk=len(words) // WORDS, delay=0.004)


def append(part: int) -> ToolCall:
    command = f"echo {part} >> ran.txt"
    return tool("Bash", command=command, description="note that it ran")


def pieces(replies: list[Reply]) -> list[str]:
    """The words of the model, as it said them."""
    steps = (step for each in replies for step in each.steps)
    return [piece for step in steps if isinstance(step, Text) for piece in step.pieces()]


# What the CLI wrote


def texts(lines: list[bytes]) -> list[str]:
    events = (json.loads(line).get("event", {}) for line in lines if is_partial(line))
    return [
        event["delta"]["text"]
        for event in events
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta"
    ]


def is_apart(status: Status) -> bool:
    """Whether its relay has not come back yet."""
    return status.waiting_on is not None and status.waiting_on.what == "machine"


# The trial


class Trial:
    """One session, one turn, and as many servers as it takes."""

    def __init__(
        self,
        server: KillableServer,
        cli: RealCLI | SimulatedCLI,
        said: Overheard,
        chance: random.Random,
    ) -> None:
        self.server = server
        self.cli = cli
        self.said = said
        self.chance = chance
        self.engine = RemoteEngine(server.address, server.token, patience=DEADLINE)
        self.voice = HttpVoice(server)
        self.session_id = ""
        self.pid = 0
        self.kills = 0
        self._started: int | None = None

    async def aclose(self) -> None:
        await self.engine.aclose()
        await self.voice.aclose()

    async def start(self) -> None:
        request = Start(prompt="go", cwd=str(self.cli.cwd))
        self.session_id = (await self.engine.start(request)).session_id
        status = await self.when(lambda status: status.pid is not None)
        self.pid = status.pid or 0
        self._started = registry.started_at(self.pid)
        assert self._started is not None

    async def when(self, holds: Callable[[Status], bool]) -> Status:
        async with asyncio.timeout(DEADLINE):
            while True:
                status = await self.engine.status(self.session_id)
                if holds(status):
                    return status
                await asyncio.sleep(0.01)

    async def said_lines(self, count: int) -> None:
        await until(lambda: len(self.said.lines()) >= count)

    async def restart(self) -> None:
        """Kill the server now, perhaps the next ones while they start, and look who is there."""
        self.kills += 1
        await self.server.kill()
        await self.server.launch()
        if self.chance.random() < 0.15:
            self.kills += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self.server.ready(), self.chance.uniform(0.1, 1.5))
            await self.server.kill()
            await self.server.launch()
        await self.server.ready()
        # The next kill may come before the relay has found the server.
        await self.check_alive(connected=self.chance.random() < 0.5)

    async def check_alive(self, *, connected: bool = True) -> None:
        status = await self.engine.status(self.session_id)
        assert (status.live, status.pid, status.via) == (True, self.pid, "relay"), status
        if connected:
            await self.when(lambda status: not is_apart(status))
        assert registry.started_at(self.pid) == self._started
        [relay] = self.server.relays().values()
        assert (relay.session_id, relay.cli_pid) == (self.session_id, self.pid)

    # One step of the turn after the other

    async def stretch(self, name: str, *, kill: bool) -> None:
        """Let the model say some more, and kill the server in the middle of it."""
        await self.cli.reached(name)
        before = len(self.said.lines())
        self.cli.release(name)
        if kill:
            await self.said_lines(before + self.chance.randint(0, WORDS))
            await self.restart()

    async def asked(self) -> Question:
        status = await self.when(lambda status: bool(status.questions))
        [question] = status.questions
        assert question.state == "open"
        return question

    async def still_open(self, question: Question) -> None:
        """It is one question, with the id that it had, for everybody who looks."""
        assert await self.asked() == question
        assert await self.engine.questions() == [question]
        assert await self.engine.question(question.id) == question

    async def answer(self, question: Question, *, in_flight: bool) -> None:
        """Answer over HTTP. Whoever gets no word back says it again."""
        members = {"question_id": question.id, "kind": "allow"}
        asking = asyncio.create_task(self.voice.ask("answer", members))
        if in_flight:
            await asyncio.wait([asking], timeout=self.chance.uniform(0, 0.01))
            await self.restart()
        try:
            told = await asking
        except Lost:
            told = await self.voice.ask("answer", members)
        again = await self.voice.ask("answer", members)
        assert again == {**told, "repeated": True}

    async def events(self) -> list[Event]:
        found: list[Event] = []
        while True:
            after = found[-1].seq if found else 0
            batch = await self.engine.read(after, session_id=self.session_id)
            if not batch.events:
                return found
            found += batch.events

    async def written(self, *kinds: str) -> list[bytes]:
        """The CLI's lines in the journal."""
        return [bytes(each.body) for each in await self.events() if each.kind in kinds]

    async def check_lines(self, *kinds: str, last: str) -> list[bytes]:
        """That the journal has what the CLI wrote, once that ends with the last words."""
        await until(lambda: any(last.encode() in each for each in self.said.lines()))
        kept: list[bytes] = []
        lines: list[bytes] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE):
                while not kept or kept != lines:
                    kept = await self.written(*kinds)
                    said = self.said.lines()
                    lines = [each for each in said if "partial" in kinds or not is_partial(each)]
        assert kept == lines
        return kept


@asynccontextmanager
async def trial(
    cli: RealCLI | SimulatedCLI, folder: Path, chance: random.Random, program: Path | None = None
) -> AsyncIterator[Trial]:
    said = overheard(cli, folder)
    server = KillableServer(folder, **with_cli(cli, program or said.program))
    try:
        await server.launch()
        await server.ready()
        it = Trial(server, cli, said, chance)
        try:
            yield it
        finally:
            await it.aclose()
    finally:
        await server.clean()
        await server.all_gone(range(server.generation + 1))


async def run(it: Trial, kills: int) -> None:
    """The whole turn, with so many kills at moments drawn by lot."""
    names = [f"{part}.{number}" for part in range(ASKS + 1) for number in range(STRETCHES)]
    # While a question is open, and once with each answer. Some more come as the lot falls.
    while_open = (1, 3, 1) if kills > 10 else (0, 1, 0)
    fatal = set(it.chance.sample(names, kills - sum(while_open) - ASKS - kills // 7))
    await it.start()
    for part in range(ASKS + 1):
        for name in names[part * STRETCHES : (part + 1) * STRETCHES]:
            await it.stretch(name, kill=name in fatal)
        if part < ASKS:
            question = await it.asked()
            for _ in range(while_open[part]):
                await it.restart()
                await it.still_open(question)
            await it.answer(question, in_flight=part != 0)
            if part == 0:
                await it.restart()
    await it.cli.reached("last")
    while it.kills < kills:
        await it.restart()


async def check_turn(it: Trial, replies: list[Reply]) -> None:
    *words, last, _ = pieces(replies)
    kept = await it.check_lines("cli", "partial", last=last)
    assert texts(kept) == [*words, last]
    it.cli.release("last")
    status = await it.when(lambda status: status.state == "done")
    kept = await it.check_lines("cli", last='"type":"result"')
    [result] = [told for line in kept if (told := json.loads(line))["type"] == "result"]
    assert status.result == result["result"]
    assert str(status.result).endswith(LAST)
    assert status.cost_usd == pytest.approx(result["total_cost_usd"])
    assert (await it.engine.cost()).total_usd == pytest.approx(result["total_cost_usd"])
    assert (it.cli.cwd / "ran.txt").read_text().split() == [str(each) for each in range(ASKS)]
    await it.check_alive()
    assert it.said.starts() == [it.pid]


async def check_records(it: Trial) -> None:
    events = await it.events()
    records: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if "." in event.kind:
            records.setdefault(event.kind, []).append(json.loads(bytes(event.body)))
    assert len(records["cli.started"]) == len(records["prompt.said"]) == 1
    assert len(records["prompt.sent"]) == len(records["turn.ended"]) == 1
    assert not records.keys() & {"cli.ended", "lines.lost"}
    opened = [each["question"]["id"] for each in records["question.opened"]]
    assert len(set(opened)) == ASKS
    assert [each["id"] for each in records["question.closed"]] == opened
    assert {each["state"] for each in records["question.closed"]} == {"answered"}
    assert not [event for event in events if event.kind == "noise"]


async def prove(
    cli: RealCLI | SimulatedCLI, replies: list[Reply], folder: Path, kills: int
) -> None:
    seed = os.environ.get("PILOTHOUSE_SEED", "1")
    print(f"PILOTHOUSE_SEED={seed}")  # noqa: T201 - told with a failure
    async with trial(cli, folder, random.Random(seed)) as it:
        await run(it, kills)
        await check_turn(it, replies)
        await check_records(it)
        assert it.kills >= kills
        assert "1 session closed in order" in await it.server.stop_all()
        assert not it.server.relays()
        assert registry.started_at(it.pid) is None


@pytest.mark.real
async def test_a_real_cli_works_on_while_its_server_is_killed_twenty_times(
    tmp_path: Path, real_cli: RealCLIMaker
) -> None:
    replies = script()
    await prove(real_cli(*replies, version="2.1.325"), replies, tmp_path, 20)


@pytest.mark.parametrize("kills", [5, pytest.param(25, marks=pytest.mark.slow)])
async def test_a_simulated_cli_works_on_while_its_server_is_killed(
    tmp_path: Path, simulated_cli: SimulatedCLIMaker, kills: int
) -> None:
    replies = script()
    await prove(simulated_cli(*replies), replies, tmp_path, kills)


async def test_a_cli_that_was_being_closed_is_closed_by_the_next_server(
    tmp_path: Path, simulated_cli: SimulatedCLIMaker
) -> None:
    cli = simulated_cli("One.", "Two.")
    closed, end = tmp_path / "closed", tmp_path / "end"
    program = tmp_path / "lingers"
    # As a CLI does whose last turn was interrupted, it says no with its exit code.
    program.write_text(
        f'#!/bin/bash\n{shlex.quote(str(cli.path))} "$@"\ntouch {shlex.quote(str(closed))}\n'
        f"until [ -e {shlex.quote(str(end))} ]; do sleep 0.02; done\nexit 1\n"
    )
    program.chmod(0o755)
    async with trial(cli, tmp_path, random.Random(0), program) as it:
        await it.start()
        await it.when(lambda status: status.result == "One.")
        stopping = asyncio.create_task(it.engine.stop(it.session_id))
        await until(closed.exists)
        await it.server.kill()
        with pytest.raises(ServerError):
            await stopping
        await it.server.launch()
        await it.server.ready()
        saying = asyncio.create_task(it.engine.say(it.session_id, Say(content="go on")))
        end.touch()
        await saying
        status = await it.when(lambda status: status.result == "Two.")
        assert status.state == "done"
        records = [json.loads(bytes(e.body)) for e in await it.events() if e.kind == "cli.ended"]
        assert [each["orderly"] for each in records] == [True]
        await it.server.stop_all()
