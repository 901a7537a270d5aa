"""A load of several clients on a server that is killed again and again, and what they were told.

Load      what all clients share: whether to ask now, what was acknowledged, what was seen
Voice     one way to ask a server: the engine over HTTP, bare HTTP, a bare WebSocket
Person    starts sessions, talks, answers, cancels, interrupts, in an order drawn by lot
Track     what one watcher was given
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pilothouse.api.events import Event, Gap
from tests.support.server.killable import KillableServer
from tests.support.waiting import DEADLINE

Members = dict[str, Any]


class Lost(Exception):
    """The connection ended before the answer came: nobody knows whether it was done."""


class No(Exception):
    """The server refused, with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


# What was acknowledged, and what was seen


@dataclass(frozen=True)
class Ack:
    """An answer of the server's that somebody has read."""

    do: str
    members: Members
    told: Members


class Fact(NamedTuple):
    """An event, shortened to what tells it from every other."""

    session_id: str
    kind: str
    at: int
    digest: bytes

    @classmethod
    def of(cls, event: Event) -> Fact:
        digest = hashlib.blake2b(bytes(event.body), digest_size=12).digest()
        return cls(event.session_id, event.kind, event.at, digest)


class Load:
    """Clients ask while `asks` lets them, and note here what they learn."""

    def __init__(self, server: KillableServer) -> None:
        self.server = server
        self.is_down = True
        self.acks: dict[str, list[Ack]] = {}
        self.wanted: dict[str, str] = {}
        """By key: what somebody has asked to be said, whatever came of it."""
        self.refused: set[str] = set()
        self.unwanted: set[str] = set()
        """Messages that somebody has asked to take back, whatever came of it."""
        self.seen: dict[int, Fact] = {}
        self.tracks: list[Track] = []
        self.ticks = 0
        self.lost = 0
        """How many requests got no answer."""
        self.answers = 0
        self._asks = 0
        self._fatal: Callable[[], bool] | None = None
        self._up = asyncio.Event()
        self._serving = asyncio.Event()
        self._changed = asyncio.Event()

    def tick(self, count: int = 1) -> None:
        self.ticks += count
        if self._fatal is not None and self._fatal():
            self.strike()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool], within: float = DEADLINE) -> None:
        async with asyncio.timeout(within):
            while not holds():
                await self._changed.wait()

    def saw(self, event: Event) -> None:
        """Every number means one event, whoever reads it and whenever."""
        fact = Fact.of(event)
        known = self.seen.setdefault(event.seq, fact)
        assert known == fact, f"{event.seq} was {known} and is now {fact}: {event.body!r}"

    # When to ask

    @asynccontextmanager
    async def asks(self) -> AsyncIterator[None]:
        await self._up.wait()
        self._asks += 1
        try:
            yield
        finally:
            self._asks -= 1
            self.tick()

    def open(self) -> None:
        """Let the clients ask."""
        self._up.set()

    async def serve(self) -> None:
        """Watchers may come; a client that asks has to wait for `open`."""
        await self.server.launch()
        await self.server.ready()
        self.is_down = False
        self._serving.set()

    def strike_when(self, holds: Callable[[], bool]) -> None:
        """Kill the server at once when this holds: before anybody can do anything else."""
        self._fatal = holds

    def strike(self) -> None:
        self._fatal = None
        self.leave()
        self.server.strike()
        self._wake()

    def leave(self) -> None:
        """The server is about to end in order."""
        self.is_down = True
        self._up.clear()
        self._serving.clear()

    async def kill(self) -> None:
        """Kill the server, and wait until everybody who had asked has noticed."""
        self.strike()
        await self.server.kill()
        await self.until(lambda: not self._asks)

    async def served(self) -> None:
        await self._serving.wait()

    def check_lost(self, error: BaseException) -> None:
        self.lost += isinstance(error, Lost)
        assert self.is_down, f"a connection ended while the server lives: {error!r}"

    async def breathe(self, ticks: int) -> None:
        """Let some things happen, or nothing for a moment."""
        goal = self.ticks + ticks
        with contextlib.suppress(TimeoutError):
            await self.until(lambda: self.ticks >= goal, within=0.1)

    # Watching

    def track(self, name: str) -> Track:
        self.tracks.append(Track(name, self))
        return self.tracks[-1]


class Track:
    """What one watcher was given: each number once and in order, or as a part of a gap."""

    def __init__(self, name: str, load: Load) -> None:
        self.name = name
        self.place = 0
        self.seqs: list[int] = []
        self.gaps: list[Gap] = []
        self._load = load

    def take(self, events: Sequence[Event], gaps: Sequence[Gap], cursor: int = 0) -> None:
        for event in events:
            assert not self.seqs or event.seq > self.seqs[-1], f"{self.name}: {event.seq} again"
            self.seqs.append(event.seq)
            self._load.saw(event)
        self.gaps += gaps
        ends = (each.seq for each in events[-1:])
        self.place = max(self.place, cursor, *ends, *(gap.last for gap in gaps))
        self._load.tick(len(events))


# Who asks


class Voice(Protocol):
    """Raises `Lost` or `No`, and whatever must not be."""

    async def ask(self, do: str, members: Members) -> Any: ...


PROMPTS = (
    "Tell a long story",
    "Write a file",
    "Ask me something",
    "Run a command",
    "Think about it",
    "Make a plan",
    "Hello",
)
EXPECTED = {
    "start": {"too-many-sessions"},
    "say": {"too-many-sessions"},
    "answer": {"too-many-sessions", "question-settled"},
    "cancel": {"unknown-prompt"},
}
"""What may be refused under load."""


class Person:
    """Asks one thing after the other; what got no answer is asked again, with the same key."""

    def __init__(
        self, name: str, voice: Voice, load: Load, seed: str, *, gated: bool = True
    ) -> None:
        self.name = name
        self._gate = load.asks if gated else nullcontext
        self.acks = load.acks.setdefault(name, [])
        self._voice = voice
        self._load = load
        self._chance = random.Random(f"{seed} {name}")
        self._sessions: list[str] = []
        self._said = 0

    async def live(self) -> None:
        ways = (self._start, self._say, self._answer, self._cancel, self._interrupt)
        while True:
            way = self._chance.choices(ways, (3, 8, 10, 3, 1))[0]
            await (way if self._sessions else self._start)()
            await self._load.breathe(self._chance.randint(1, 15))

    async def ask(self, do: str, members: Members, *, again: bool = False) -> Any:
        """The answer, or None if there is none: it was refused, or the server has gone."""
        while True:
            try:
                async with self._gate():
                    told = await self._voice.ask(do, members)
                    self._note(do, members, told)
                    return told
            except Lost as error:
                self._load.check_lost(error)
                if not again:
                    return None
            except No as error:
                self._note_refusal(do, members, error.code)
                return None

    def _note(self, do: str, members: Members, told: Any) -> None:
        if do not in ("status", "questions"):
            self.acks.append(Ack(do, members, told))
            self._load.answers += 1
            self._load.tick()

    def _note_refusal(self, do: str, members: Members, code: str) -> None:
        assert code in EXPECTED.get(do, ()), f"{do} {members}: {code}"
        if "key" in members:
            self._load.refused.add(members["key"])

    def _words(self) -> tuple[str, str]:
        """A text nobody else says, and its key."""
        self._said += 1
        key = f"{self.name}-{self._said}"
        text = self._load.wanted[key] = f"{self._chance.choice(PROMPTS)}. [{key}]"
        return text, key

    async def _start(self) -> None:
        text, key = self._words()
        cwd = str(self._load.server.folder)
        members = {"prompt": text, "cwd": cwd, "key": key, "label": self.name}
        told = await self.ask("start", members, again=True)
        if told is not None:
            self._sessions.append(told["session_id"])

    async def _say(self) -> None:
        await self.say(self._chance.choice(self._sessions[-4:]))

    async def say(self, session_id: str) -> Any:
        text, key = self._words()
        members = {"session_id": session_id, "content": text, "key": key}
        return await self.ask("say", members, again=True)

    async def _answer(self) -> None:
        # Anybody's question: two persons may be after the same one.
        open_ones = await self.ask("questions", {})
        if open_ones:
            await self.settle(self._chance.choice(open_ones))

    async def settle(self, question: Members) -> Any:
        """Answer a question in one of the ways it offers."""
        ways = [each["answer"] for each in question["ways"] if not each["needs"]]
        once = [each for each in ways if not each.get("always")]
        answer = self._chance.choice(once)
        if question["kind"] == "questions" and self._chance.random() < 0.7:
            posed = question["posed"][0]
            answers = {posed["question"]: posed["options"][0]["label"]}
            answer = {"kind": "choose", "answers": answers}
        return await self.ask("answer", {"question_id": question["id"], **answer}, again=True)

    async def _cancel(self) -> None:
        session_id = self._chance.choice(self._sessions[-4:])
        status = await self.ask("status", {"session_id": session_id})
        if status and status["queued"]:
            prompt_id = self._chance.choice(status["queued"])["prompt_id"]
            self._load.unwanted.add(prompt_id)
            await self.ask("cancel", {"session_id": session_id, "prompt_id": prompt_id})

    async def _interrupt(self) -> None:
        await self.ask("interrupt", {"session_id": self._chance.choice(self._sessions[-4:])})
