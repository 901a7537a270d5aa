"""A load of several clients on a server that is killed again and again, and what they were told.

Server    `pilothouse serve`, one process after another, on one port and one state folder
Load      what all clients share: whether to ask now, what was acknowledged, what was seen
Voice     one way to ask a server: the engine over HTTP, bare HTTP, a bare WebSocket
Person    starts sessions, talks, answers, cancels, interrupts, in an order drawn by lot
Track     what one watcher was given
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pilothouse.sessions.contract import Event, Gap

DEADLINE = 60.0
MARK = "PILOTHOUSE_TEST_MARK"
ONES_OWN_PORTS = (20000, 32000)
"""Below those the system gives to clients: one that knocks on a dead port could get it itself."""
Members = dict[str, Any]


class Lost(Exception):
    """The connection ended before the answer came: nobody knows whether it was done."""


class No(Exception):
    """The server refused, with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


# The server


class Server:
    """The only process the test kills is the one that this started last."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self.generation = 0
        self.env = {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": "/usr/bin:/bin",
            "PILOTHOUSE_SIMULATE": "always",
            "PILOTHOUSE_PORT": str(self.port),
            **env,
        }
        for name in ("home", "state", "run", "config"):
            (folder / name).mkdir(mode=0o700)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.folder / "state/pilothouse/token").read_text().strip()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def mark(self, generation: int) -> str:
        """Stands in the environment of a server and of all that comes from it."""
        return f"{self.folder}#{generation}"

    def errors(self) -> str:
        return (self.folder / f"stderr-{self.generation}").read_text()

    async def launch(self) -> None:
        """Start the next one, without a look at what becomes of it."""
        self.generation += 1
        with (self.folder / f"stderr-{self.generation}").open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "pilothouse", "serve"),
                env={**self.env, MARK: self.mark(self.generation)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=self.folder,
            )

    async def ready(self) -> None:
        """Wait until it has said where it serves."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                line = (await self._process.stdout.readline()).decode()
                assert line, f"server {self.generation} ended before it served:\n{self.errors()}"
                if self.address in line:
                    return

    def strike(self) -> None:
        """Kill it in this very moment; `kill` waits for its end."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    async def kill(self) -> None:
        if self._process is None:
            return
        self.strike()
        process, self._process = self._process, None
        async with asyncio.timeout(DEADLINE):
            await process.communicate()
        assert process.returncode == -signal.SIGKILL, self.errors()

    def living(self, generation: int) -> set[int]:
        """The processes that a server has started, itself among them."""
        mark = f"{MARK}={self.mark(generation)}".encode()
        return {pid for pid in _pids() if mark in _environment(pid)}

    async def all_gone(self, generations: Iterable[int], within: float = 20.0) -> None:
        """Wait until nothing is left that a killed server had started."""
        left = {each: self.living(each) for each in generations}
        try:
            async with asyncio.timeout(within):
                while any(left.values()):
                    await asyncio.sleep(0.05)
                    left = {each: self.living(each) for each in left}
        except TimeoutError:
            told = {pid: _command(pid) for pids in left.values() for pid in pids}
            raise AssertionError(f"left without an owner: {told}") from None


def _free_port() -> int:
    for port in random.sample(range(*ONES_OWN_PORTS), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _environment(pid: int) -> list[bytes]:
    return _read(pid, "environ").split(b"\0")


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")[:200]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


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
    """Clients ask while `asking` lets them, and note here what they learn."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.is_down = True
        self.acks: dict[str, list[Ack]] = {}
        self.wanted: dict[str, str] = {}
        """By key: what somebody has asked to be said, whatever came of it."""
        self.refused: set[str] = set()
        self.seen: dict[int, Fact] = {}
        self.tracks: list[Track] = []
        self.ticks = 0
        self.lost = 0
        """How many requests got no answer."""
        self.answers = 0
        self._asking = 0
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
    async def asking(self) -> AsyncIterator[None]:
        await self._up.wait()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
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
        self.is_down = True
        self._up.clear()
        self._serving.clear()
        self.server.strike()
        self._wake()

    async def kill(self) -> None:
        """Kill the server, and wait until everybody who had asked has noticed."""
        self.strike()
        await self.server.kill()
        await self.until(lambda: not self._asking)

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
        self._gate = load.asking if gated else nullcontext
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
            await self.ask("cancel", {"session_id": session_id, "prompt_id": prompt_id})

    async def _interrupt(self) -> None:
        await self.ask("interrupt", {"session_id": self._chance.choice(self._sessions[-4:])})
