"""The server is killed at random moments under load: nothing that it acknowledged is lost.

What the clients noted is held against the journal of the next server. The seed is printed;
PILOTHOUSE_SEED sets another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.errors import QuestionSettled
from pilothouse.server import runtime
from pilothouse.sessions.answers import Answer, Deny
from pilothouse.sessions.contract import Event, Gap, Status
from pilothouse.sessions.remote import RemoteEngine
from pilothouse.sessions.view import View

from .load import DEADLINE, Ack, Load, Person, Server, Track
from .voices import EngineVoice, HttpVoice, SocketVoice, watch_by_engine, watch_by_sse

KEY = re.compile(r"\[([a-z]+-\d+)\]$")


Places = dict[str, list[int]]


class Books:
    """The journal, as it is read: kept by what it is about."""

    def __init__(self) -> None:
        self.last = 0
        self.views: dict[str, View] = {}
        self.places: dict[str, Places] = defaultdict(lambda: defaultdict(list))
        """By kind: the entries about each session, prompt or question."""
        self.texts: dict[str, list[str]] = defaultdict(list)
        """By key: what was said with it."""
        self.answers: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        """By question: what was taken as its answer."""
        self.begun: set[str] = set()
        """Messages that a turn has taken."""

    def take(self, event: Event) -> None:
        assert event.seq > self.last
        self.last = event.seq
        body = bytes(event.body)
        view = self.views.setdefault(event.session_id, View(session_id=event.session_id))
        view.apply(event.seq, event.kind, event.at, body)
        if "." in event.kind:
            self._note(event, json.loads(body))
        elif b"command_lifecycle" in body or b"isReplay" in body:
            self._follow(json.loads(body))

    def _follow(self, line: dict[str, Any]) -> None:
        if line.get("state") == "started":
            self.begun.add(line["command_uuid"])
        elif line.get("isReplay"):
            self.begun.add(line["uuid"])

    def _note(self, event: Event, record: dict[str, Any]) -> None:
        if event.kind == "turn.ended" and record["outcome"] == "cancelled":
            return
        if event.kind == "prompt.said" and record["id"] in self.places["prompt.said"]:
            # Held, because its CLI is about to close: it is no second message.
            assert record["id"] not in self.begun
            return
        for each in ids_in(event, record):
            self.places[event.kind][each].append(event.seq)
        if event.kind == "prompt.said" and (key := KEY.search(str(record["content"]))):
            self.texts[key[1]].append(record["content"])
        if record.get("answer") is not None:
            self.answers[record["id"]].append((event.seq, record["answer"]))


def ids_in(event: Event, record: dict[str, Any]) -> list[str]:
    match event.kind:
        case "turn.ended":
            return record.get("prompts", [])
        case "question.opened":
            return [record["question"]["id"]]
        case _:
            return [record.get("id", event.session_id)]


# What was acknowledged is there once and in order


def place_of(books: Books, ack: Ack) -> int | None:
    """The entry that an acknowledgement speaks of; None: it needs none."""
    match ack.do:
        case "start":
            (place,) = books.places["session.started"][ack.told["session_id"]]
            (said,) = books.places["prompt.said"][ack.told["prompt_id"]]
            assert said > place
        case "say":
            (place,) = books.places["prompt.said"][ack.told["prompt_id"]]
        case "answer":
            ((place, answer),) = books.answers[ack.members["question_id"]]
            given = {name: each for name, each in ack.members.items() if name != "question_id"}
            assert as_answer(answer) == as_answer(given)
            # Another person may have been the first to give this very answer.
            return None if ack.told["repeated"] else place
        case "cancel":
            return place_of_cancel(books, ack)
        case _:
            return None
    return place


def place_of_cancel(books: Books, ack: Ack) -> int | None:
    """The CLI may have told of it first: then there is no entry of ours."""
    if not ack.told["cancelled"]:
        return None
    prompt_id = ack.told["prompt_id"]
    assert prompt_id not in books.views[ack.members["session_id"]].queued
    withdrawn = books.places["prompt.withdrawn"][prompt_id]
    return withdrawn[0] if withdrawn else None


def as_answer(given: dict[str, Any]) -> Any:
    return msgspec.convert(given, Answer)


ONCE = (
    "session.started",
    "prompt.said",
    "prompt.withdrawn",
    "turn.ended",
    "question.opened",
    "question.closed",
    "question.decided",
)


def check_acknowledged(load: Load, books: Books) -> None:
    for name, acks in load.acks.items():
        places = [place for ack in acks if (place := place_of(books, ack)) is not None]
        assert places == sorted(set(places)), f"{name}: {places}"
    for key, texts in books.texts.items():
        assert texts == [load.wanted[key]]
        assert key not in load.refused
    check_queued(load, books)
    for kind in ONCE:
        twice = {each: places for each, places in books.places[kind].items() if len(places) > 1}
        assert not twice, f"{kind}: {twice}"
    for session_id, count in interrupts_of(load).items():
        assert len(books.places["interrupt.asked"][session_id]) >= count


def check_queued(load: Load, books: Books) -> None:
    """A message that was accepted is queued until a turn takes it or somebody takes it back."""
    acks = [ack for acks in load.acks.values() for ack in acks]
    cancelled = {ack.told["prompt_id"] for ack in acks if ack.do == "cancel"}
    gone = books.begun | cancelled | books.places["prompt.withdrawn"].keys()
    for ack in acks:
        if ack.do in ("start", "say") and ack.told["prompt_id"] not in gone:
            queued = books.views[ack.told["session_id"]].queued
            assert ack.told["prompt_id"] in queued, f"{ack} is forgotten"


def interrupts_of(load: Load) -> Counter[str]:
    acks = (ack for acks in load.acks.values() for ack in acks if ack.do == "interrupt")
    return Counter(ack.members["session_id"] for ack in acks if ack.told["was_running"])


# What was seen is there, under the same number


def check_seen(load: Load, there: dict[int, Event], gaps: Iterable[Gap], after: int) -> None:
    gone = [(gap.first, gap.last) for gap in gaps if gap.reason == "partials"]
    for seq, fact in load.seen.items():
        if seq > after and seq not in there:
            assert fact.kind == "partial", f"{seq} is gone: {fact}"
            assert any(first <= seq <= last for first, last in gone), f"nobody told of {seq}"


def check_track(track: Track, there: dict[int, Event], after: int, upto: int) -> None:
    """Every number up to here has come once, or a gap was told where it was."""
    got = {seq for seq in track.seqs if seq > after}
    told = {seq for gap in track.gaps if gap.last > after for seq in range(gap.first, gap.last + 1)}
    missing = {seq for seq in range(after + 1, upto + 1) if seq not in got and seq not in told}
    assert not missing, f"{track.name} misses {sorted(missing)[:20]}"
    kept = {seq for seq, event in there.items() if event.kind != "partial"}
    assert kept <= got, f"{track.name} misses {sorted(kept - got)[:20]}"


class Audit:
    """Holds a server that has just started against what its forerunners told."""

    def __init__(self, load: Load, engine: RemoteEngine) -> None:
        self.books = Books()
        self._load = load
        self._engine = engine
        self._repeated: dict[str, int] = defaultdict(int)

    async def check(self) -> None:
        async with asyncio.timeout(DEADLINE):
            before = self.books.last
            there, gaps = await self._read(before)
            for event in there.values():
                self.books.take(event)
            await self._check_statuses({event.session_id for event in there.values()})
            check_seen(self._load, there, gaps, before)
            for track in self._load.tracks:
                await self._load.until(lambda it=track: it.place >= self.books.last)
                check_track(track, there, before, self.books.last)
            check_acknowledged(self._load, self.books)
            await self._check_repeated()
            await self._check_questions()

    async def check_all(self) -> None:
        """Once more from the first entry on."""
        there, gaps = await self._read(0)
        check_seen(self._load, there, gaps, 0)
        await self._check_statuses(self.books.views)

    async def _read(self, after: int) -> tuple[dict[int, Event], list[Gap]]:
        """All there is; what the start of the server itself brings is waited for."""
        listing = await self._engine.list(limit=10_000)
        health = await self._engine.health()
        assert (health.ok, health.live, health.questions) == (True, 0, 0)
        there: dict[int, Event] = {}
        gaps: list[Gap] = []
        goal = health.cursor
        for each in listing.sessions:
            if each.source == "engine":
                goal = max(goal, (await self._engine.status(each.session_id)).cursor)
        while after < goal:
            batch = await self._engine.read(after)
            for event in batch.events:
                self._load.saw(event)
                there[event.seq] = event
            gaps += batch.gaps
            after = batch.cursor
        assert list(there) == sorted(there)
        return there, gaps

    async def _check_statuses(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            status = await self._engine.status(session_id)
            assert known(status) == known(self.books.views[session_id].status())

    async def _check_repeated(self) -> None:
        """The same key gives the same answer, and nothing new."""
        voice = EngineVoice(self._engine)
        for name, acks in self._load.acks.items():
            for ack in acks[self._repeated[name] :]:
                if "key" in ack.members:
                    told = await voice.ask(ack.do, ack.members)
                    assert told == {**ack.told, "repeated": True}
            self._repeated[name] = len(acks)
        assert (await self._engine.health()).cursor == self.books.last

    async def _check_questions(self) -> None:
        """Whatever nobody had answered waits for a decision still."""
        for view in self.books.views.values():
            for question in view.questions.values():
                told = await self._engine.question(question.id)
                assert (told.state, told.decidable) == ("withdrawn", True)
        unanswered = self.books.places["question.opened"].keys() - self.books.answers.keys()
        decidable = {each for view in self.books.views.values() for each in view.questions}
        for question_id in unanswered - decidable:
            told = await self._engine.question(question_id)
            assert told.state == "withdrawn", told
            assert "no longer asks" in str(told.closed_because), told


def known(status: Status) -> dict[str, Any]:
    told = msgspec.json.decode(msgspec.json.encode(status))
    # Pieces that are gone have a number and a moment too; a server knows what it simulates.
    return {
        name: each
        for name, each in told.items()
        if name not in ("cursor", "updated_at", "simulated")
    }


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
        await self.load.serve()
        assert self.server.pid in self.server.living(self.server.generation)
        check_runtime(self.server)
        await self.audit.check()
        await self.server.all_gone(self.killed)

    def _tell(self) -> None:
        # Those of a server that has been killed just now are there still.
        alive = len(self.server.living(self.server.generation))
        self.most_alive = max(self.most_alive, alive)
        acks = sum(map(len, self.load.acks.values()))
        views = self.audit.books.views.values()
        waiting = sum(len(view.questions) for view in views)
        print(  # noqa: T201 - told with a failure
            f"server {self.server.generation} is killed: {alive} processes, {acks} answers, "
            f"{self.load.lost} lost, {len(self.load.seen)} events; {len(views)} sessions and "
            f"{waiting} questions were there before it"
        )

    async def _kill(self) -> None:
        self.killed.append(self.server.generation)
        await self.load.kill()

    async def decide(self, chance: random.Random) -> None:
        """A question whose CLI died with the server takes a decision, and one only."""
        waiting = [each for view in self.audit.books.views.values() for each in view.questions]
        if not waiting:
            return
        question = await self.engine.question(chance.choice(waiting))
        told = await self.judge.settle(msgspec.to_builtins(question))
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


def check_runtime(server: Server) -> None:
    running = runtime.find(Path(server.env["XDG_RUNTIME_DIR"]) / "pilothouse")
    assert running is not None
    assert (running.pid, running.address) == (server.pid, server.address)


@asynccontextmanager
async def trial(folder: Path, seed: str) -> AsyncIterator[Trial]:
    server = Server(folder, MAX_SESSIONS="6")
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
        await server.kill()


@pytest.mark.parametrize(
    ("kills", "run"),
    [(6, 1), *(pytest.param(10, each, marks=pytest.mark.slow) for each in range(2, 7))],
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
        await it.drain(most=kills // 5)
        await it.restart(chance)
        await it.audit.check_all()
    await it.server.all_gone(range(it.server.generation + 1))
    assert it.most_alive > 2
