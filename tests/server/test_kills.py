"""The server is killed at random moments under load: nothing that it acknowledged is lost.

What the clients noted is held against the journal of the next server. The seed is printed;
PILOTHOUSE_SEED sets another one.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from pilothouse.api.answers import Deny
from pilothouse.api.events import Event, Gap
from pilothouse.api.questions import Question
from pilothouse.api.statuses import Status
from pilothouse.errors import QuestionSettled
from pilothouse.relay.registry import RunningRelay
from pilothouse.remote import RemoteEngine
from pilothouse.server import runtime
from tests.support.server.journal_checks import (
    JournalReading,
    check_acknowledged,
    check_seen,
    check_track,
    known,
)
from tests.support.server.killable import KillableServer
from tests.support.server.load import Load, Person
from tests.support.server.voices import (
    EngineVoice,
    HttpVoice,
    SocketVoice,
    watch_by_engine,
    watch_by_sse,
)
from tests.support.waiting import DEADLINE, until

THE_CLIS_OWN = (
    *("cli", "partial", "noise", "turn.ended", "question.opened", "rules.kept"),
    # One that the server before was closing.
    "cli.ended",
)
"""What comes into a journal while nobody asks for anything."""


class Audit:
    """Holds a server that has just started against what its forerunners told.

    Nobody asks while it looks, but the CLIs work on.
    """

    def __init__(self, load: Load, engine: RemoteEngine) -> None:
        self.books = JournalReading()
        self._load = load
        self._engine = engine
        self._repeated: dict[str, int] = defaultdict(int)

    async def check(self, behind: Mapping[str, RunningRelay]) -> None:
        """`behind` are the relays that were there when the server was started."""
        async with asyncio.timeout(DEADLINE):
            before = self.books.last
            there, gaps = await self._read(before)
            check_seen(self._load, there, gaps, before, self.books.last)
            for track in self._load.tracks:
                await self._load.until(lambda it=track: it.place >= self.books.last)
                check_track(track, there, before, self.books.last)
            check_acknowledged(self._load, self.books)
            await self._check_repeated()
            for found in behind.values():
                await self._check_found(found)
            await self._check_live()
            await self._check_questions()

    async def check_all(self) -> None:
        """Once more from the first entry on."""
        upto, self.books = self.books.last, JournalReading()
        there, gaps = await self._read(0)
        check_seen(self._load, there, gaps, 0, upto)

    async def _read(self, after: int) -> tuple[dict[int, Event], list[Gap]]:
        """All there is, and that each session is what is told of it."""
        listing = await self._engine.list(limit=10_000)
        ours = [each.session_id for each in listing.sessions if each.source == "engine"]
        statuses = {each: await self._engine.status(each) for each in ours}
        health = await self._engine.health()
        assert health.ok
        there: dict[int, Event] = {}
        gaps: list[Gap] = []
        while after < max(health.cursor, *(each.cursor for each in statuses.values())):
            batch = await self._engine.read(after)
            for event in batch.events:
                self._take(event, statuses)
                there[event.seq] = event
            gaps += batch.gaps
            after = batch.cursor
        for status in statuses.values():
            self._check_status(status)
        assert list(there) == sorted(there)
        return there, gaps

    def _take(self, event: Event, statuses: dict[str, Status]) -> None:
        self._load.saw(event)
        status = statuses.get(event.session_id)
        if status is not None and event.seq > status.cursor:
            # It has gone on since it was looked at.
            self._check_status(statuses.pop(event.session_id))
        self.books.take(event)

    def _check_status(self, status: Status) -> None:
        assert known(status) == known(self.books.views[status.session_id].status())

    async def _check_repeated(self) -> None:
        """The same key gives the same answer, and nothing new."""
        voice = EngineVoice(self._engine)
        after = (await self._engine.health()).cursor
        for name, acks in self._load.acks.items():
            for ack in acks[self._repeated[name] :]:
                if "key" in ack.members:
                    told = await voice.ask(ack.do, ack.members)
                    assert told == {**ack.told, "repeated": True}
            self._repeated[name] = len(acks)
        for event in (await self._engine.read(after)).events:
            assert event.kind in THE_CLIS_OWN, event

    async def _check_found(self, found: RunningRelay) -> None:
        """A CLI that has its relay is the session's still, unless it has come to its own end."""
        assert found.run not in self.books.deaths, self.books.deaths[found.run]
        is_there = partial(self._load.server.has, found)
        status = await self._engine.status(found.session_id)
        if self.books.views[found.session_id].run != found.run:
            # It was ending; or nobody knew of it yet when the server was killed.
            await until(lambda: not is_there())
            return
        while is_apart(status) and is_there():
            status = await self._engine.status(found.session_id)
        if status.live:
            assert status.via == "relay"
            assert found.cli_pid in (status.pid, None), (status, found)
        else:
            await until(lambda: not is_there())

    async def _check_live(self) -> None:
        """Every CLI that is told to be alive has a relay, or one that is just starting."""
        relays = self._load.server.relays
        listing = await self._engine.list(limit=10_000)
        for each in listing.sessions:
            async with asyncio.timeout(DEADLINE):
                while each.live and self.books.views[each.session_id].run not in relays():
                    if not (await self._engine.status(each.session_id)).live:
                        break

    async def _check_questions(self) -> None:
        """What nobody had answered is open while its CLI asks, and waits for a decision else."""
        views = self.books.views.values()
        for question in [each for view in views for each in view.questions.values()]:
            told = await self._engine.question(question.id)
            assert told.id == question.id
            if question.state == "withdrawn":
                assert (told.state, told.decidable) == ("withdrawn", True)
                assert told.session_id in self.books.bereaved, told
            elif told.state != "open":
                check_withdrawn(told)
        waiting = {each for view in views for each in view.questions}
        unanswered = self.books.places["question.opened"].keys() - self.books.answers.keys()
        for question_id in unanswered - waiting:
            check_withdrawn(await self._engine.question(question_id))


def check_withdrawn(told: Question) -> None:
    assert told.state == "withdrawn", told
    assert "no longer asks" in str(told.closed_because), told


def is_apart(status: Status) -> bool:
    """Whether its relay has not come back yet."""
    return status.live and status.waiting_on is not None and status.waiting_on.what == "machine"


# The load


class Trial:
    """A server under load."""

    def __init__(
        self, load: Load, engine: RemoteEngine, judge: Person, socket: SocketVoice
    ) -> None:
        self.server = load.server
        self.load = load
        self.engine = engine
        self.socket = socket
        self.audit = Audit(load, engine)
        self.judge = judge
        self.killed: list[int] = []
        self.most_alive = 0

    async def work(self, chance: random.Random) -> None:
        """Let the clients work until something has happened often enough."""
        await self.load.until(lambda: self.socket.is_open)
        self.load.open()
        load = self.load
        if chance.random() < 0.5:
            # An answer has been read, and nothing has happened since.
            answers = load.answers + chance.randint(1, 30)
            load.strike_when(lambda: load.answers >= answers)
        else:
            ticks = load.ticks + chance.randint(1, 800)
            load.strike_when(lambda: load.ticks >= ticks)
        with suppress(TimeoutError):
            await load.until(lambda: load.is_down, within=chance.uniform(3, 5))

    async def restart(self, chance: random.Random) -> None:
        """A kill, perhaps another one during the next start, and a close look."""
        self._tell()
        await self._kill()
        while chance.random() < 0.15:
            await self.server.launch()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.server.ready(), chance.uniform(0, 2))
            await self._kill()
        await self._kill_a_relay(chance)
        behind = self.server.relays()
        await self.load.serve()
        assert self.server.pid in self.server.living(self.server.generation)
        check_runtime(self.server)
        await self.audit.check(behind)
        await self._check_owned()

    async def _kill_a_relay(self, chance: random.Random) -> None:
        """While no server looks; its CLI goes with it."""
        relays = list(self.server.relays().values())
        if relays and chance.random() < 0.4:
            found = chance.choice(relays)
            os.kill(found.relay_pid, signal.SIGKILL)
            await until(lambda: not self.server.has(found))

    async def _check_owned(self) -> None:
        """Whatever killed servers have left belongs to a relay that the server knows."""
        runs = {view.run for view in self.audit.books.views.values() if view.live}
        with suppress(TimeoutError):
            await until(lambda: not self.server.strays(self.killed, runs))
        assert self.server.strays(self.killed, runs) == {}

    def _tell(self) -> None:
        # Those of a server that has been killed just now are there still.
        alive = len(self.server.living(self.server.generation))
        self.most_alive = max(self.most_alive, alive)
        acks = sum(map(len, self.load.acks.values()))
        views = self.audit.books.views.values()
        waiting = sum(len(view.questions) for view in views)
        print(  # noqa: T201 - told with a failure
            f"server {self.server.generation} is killed: {alive} processes, "
            f"{len(self.server.relays())} relays, {acks} answers, "
            f"{self.load.lost} lost, {len(self.load.seen)} events; {len(views)} sessions and "
            f"{waiting} questions were there before it"
        )

    async def _kill(self) -> None:
        self.killed.append(self.server.generation)
        await self.load.kill()

    async def decide(self, chance: random.Random) -> None:
        """A question takes one answer; with its CLI gone, it is a decision for the next one."""
        views = self.audit.books.views.values()
        waiting = [each.id for view in views for each in view.questions.values()]
        if not waiting:
            return
        question = await self.engine.question(chance.choice(waiting))
        told = await self.judge.settle(msgspec.to_builtins(question))
        if question.state == "withdrawn":
            assert told["resumed"] or told["new_session_id"], told
        with pytest.raises(QuestionSettled):
            await self.engine.answer(question.id, Deny(reason="on second thoughts"))

    async def drain(self, most: int) -> None:
        """What was accepted and never sent to a CLI is sent to the next one."""
        views = self.audit.books.views.values()
        for view in [view for view in views if view.queued][:most]:
            await self.judge.say(view.session_id)
            async with asyncio.timeout(DEADLINE), aclosing(self._changes(view.session_id)) as told:
                async for status in told:
                    if status.state != "active" and not await self._settled(status):
                        # What waits in a session whose plan went to another one stays there.
                        assert not status.queued or status.successor
                        break

    async def end(self) -> None:
        """Have everything ended in order."""
        self.load.leave()
        told = await self.server.stop_all()
        assert not self.server.relays(), told

    async def _changes(self, session_id: str) -> AsyncGenerator[Status]:
        status = await self.engine.status(session_id)
        yield status
        async with aclosing(self.engine.watch(status.cursor, session_id=session_id)) as batches:
            async for _ in batches:
                yield await self.engine.status(session_id)

    async def _settled(self, status: Status) -> bool:
        """Answer what is open; whether there was anything."""
        asked = [each for each in status.questions if each.state == "open"]
        for question in asked:
            await self.judge.settle(msgspec.to_builtins(question))
        return bool(asked)


def check_runtime(server: KillableServer) -> None:
    running = runtime.find(Path(server.env["XDG_RUNTIME_DIR"]) / "pilothouse")
    assert running is not None
    assert (running.pid, running.address) == (server.pid, server.address)


@asynccontextmanager
async def trial(folder: Path, seed: str) -> AsyncIterator[Trial]:
    server = KillableServer(folder, MAX_SESSIONS="6")
    load = Load(server)
    await load.serve()
    engine = RemoteEngine(server.address, server.token, patience=DEADLINE)
    http = HttpVoice(server)
    socket = SocketVoice(load, load.track("socket"))
    by_engine = EngineVoice(engine)
    voices = {"one": by_engine, "two": http, "three": socket, "four": by_engine, "five": http}
    persons = [Person(name, voice, load, seed) for name, voice in voices.items()]
    judge = Person("judge", EngineVoice(engine), load, seed, gated=False)
    work = [
        watch_by_engine(engine, load.track("engine")),
        watch_by_sse(load, load.track("sse")),
        socket.follow(),
        *(each.live() for each in persons),
    ]
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in work]
            yield Trial(load, engine, judge, socket)
            for each in running:
                each.cancel()
    finally:
        await engine.aclose()
        await http.aclose()
        await server.clean()


@pytest.mark.parametrize(
    ("kills", "run"),
    [(3, 1), *(pytest.param(10, each, marks=pytest.mark.slow) for each in range(2, 7))],
)
async def test_a_server_killed_under_load_has_lost_nothing_and_left_nobody(
    tmp_path: Path, kills: int, run: int
) -> None:
    seed = os.environ.get("PILOTHOUSE_SEED", str(run))
    print(f"PILOTHOUSE_SEED={seed}")  # noqa: T201 - told with a failure
    chance = random.Random(seed)
    async with trial(tmp_path, seed) as it:
        for _ in range(kills):
            await it.work(chance)
            await it.restart(chance)
            await it.decide(chance)
        await it.drain(most=max(1, kills // 5))
        await it.restart(chance)
        await it.audit.check_all()
        await it.end()
    await it.server.all_gone(range(it.server.generation + 1))
    assert it.most_alive > 2
