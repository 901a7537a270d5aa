"""An engine whose CLIs are played in memory, and that can be killed and opened again.

What the CLIs wrote and heard, and what callers were told, is noted here, outside of the engine:
`auditing` holds the journal against it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sqlite3
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch, Event
from pilothouse.api.questions import Answered, Question
from pilothouse.api.requests import Say, Start
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.engine import session
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.services import ClientMaker
from pilothouse.engine.session import Session
from pilothouse.errors import JournalError, Refused, SessionEnded
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.settings import load
from tests.support.engine.played_cli import MARK, PlayedCLI, mark
from tests.support.waiting import DEADLINE

T = TypeVar("T")


class Follower:
    """Someone who watches from a cursor, and goes on from there whenever an engine is back."""

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        self.cursor = 0
        self.events: list[Event] = []
        self.gaps: list[Any] = []
        self.task: asyncio.Task[None] | None = None

    def follow(self, engine: SessionEngine) -> None:
        self.task = asyncio.get_running_loop().create_task(self._follow(engine))

    async def _follow(self, engine: SessionEngine) -> None:
        try:
            async with aclosing(engine.watch(self.cursor, session_id=self.session_id)) as all_:
                async for batch in all_:
                    self.events += batch.events
                    self.gaps += batch.gaps
                    self.cursor = batch.cursor
        except JournalError:
            return

    async def leave(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None


class EngineStage:
    """An engine, its CLIs, and what callers were told."""

    def __init__(self, folder: Path, *, modern: bool = True, **flags: Any) -> None:
        self.folder = folder
        self.modern = modern
        self.flags = flags
        self.engine: SessionEngine
        self._earlier: list[PlayedCLI] = []
        self._newest: list[PlayedCLI] = []
        self.sessions: list[str] = []
        self.said: dict[str, str] = {}
        """Messages whose callers were told that they are kept, and their sessions."""
        self.settled: list[tuple[str, Answer, Answered]] = []
        """Answers whose givers were told that they are kept."""
        self.certain: set[str] = set()
        """Marks of asks that stood for a while: there must be a question."""
        self.followers = [Follower()]
        """One of everything, and one of the first session."""
        self.failures: list[str] = []
        self._life = 0
        self._base = 0
        self._before = set[str]()
        self._verbs: set[asyncio.Task[Any]] = set()

    # Life

    async def open(self) -> None:
        """Open an engine on the newest journal there is."""
        home = self.folder / "home"
        env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
        settings = load(env=env, flags=self.flags)
        journal = await SqliteJournal.open(self._journal(self._life))
        self._base = journal.last
        self.engine = await SessionEngine.open(
            settings, journal=journal, make_client=self._company(), simulated=True
        )
        self._before = {
            queued.id
            for each in self.engine.sessions.values()
            for queued in each.view.queued.values()
        }
        for follower in self.followers:
            follower.follow(self.engine)

    def _journal(self, life: int) -> Path:
        return self.folder / str(life) / "journal.db"

    def _company(self) -> ClientMaker:
        clis = self._newest = list[PlayedCLI]()

        def make(options: Options, *, sink: Sink, **_: Any) -> Client:
            assert isinstance(sink, Session)
            clis.append(PlayedCLI(self, sink.session_id, modern=self.modern))
            return Client(options, transport=clis[-1].transport, sink=sink)

        return make

    @property
    def clis(self) -> list[PlayedCLI]:
        """All there have been, but for those of engines that were dead already."""
        return self._earlier + self._newest

    async def close(self) -> None:
        """End the engine in order."""
        async with asyncio.timeout(DEADLINE):
            await self.engine.aclose()
            await self._finish_verbs()
            await self._part()
        self._earlier, self._newest = self.clis, []

    async def crash(self) -> None:
        """End the engine as a kill would: all that is left of it is what was committed."""
        old, path = self.engine, self._journal(self._life)
        self._life += 1
        # Nothing runs in between, so this is one moment; from here on its engine is a ghost.
        copy = self._journal(self._life)
        copy.parent.mkdir()
        with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(copy)) as other:
            one.backup(other)
        self._earlier, self._newest = self.clis, []
        for cli in self._earlier:
            cli.is_cut = cli.is_cut or not cli.is_kept
            # Also one that its engine has yet to start.
            cli.is_lost = True
            cli.die(signal=9)
        for verb in self._verbs:
            verb.cancel()
        await self._part()
        async with asyncio.timeout(DEADLINE):
            await old.aclose()
            await self._finish_verbs()

    async def _part(self) -> None:
        await asyncio.gather(*(each.leave() for each in self.followers))

    async def _finish_verbs(self) -> None:
        while self._verbs:
            await asyncio.wait(set(self._verbs))

    async def settle(self) -> None:
        """Wait until every verb has returned, and everything is committed and heard."""
        async with asyncio.timeout(DEADLINE):
            await self._finish_verbs()
            was = -1
            while not self._rests_at(was):
                was = self.engine.journal.next
                while working := self._work():
                    await asyncio.wait(working)
                await self.engine.journal.post([]).committed
                for _ in range(10):
                    await asyncio.sleep(0)
        for cli in self.clis:
            cli.is_kept = cli.is_kept or not cli.is_alive
        self.certain |= {
            cli.asks[each] for cli in self.clis if cli.is_alive for each in cli.waiting
        }
        assert not self.failures, self.failures

    def _rests_at(self, number: int) -> bool:
        """Whether nothing came after this number was next, and followers have seen all before."""
        journal = self.engine.journal
        if not number == journal.next == journal.last + 1 == self.followers[0].cursor + 1:
            return False
        last: dict[str | None, int] = {
            each.session_id: each.seq for each in self.followers[0].events if each.kind != "partial"
        }
        return all(each.cursor >= last.get(each.session_id, 0) for each in self.followers)

    def _work(self) -> set[asyncio.Task[Any]]:
        """What the engine does on its own, also for callers that have left."""
        return self.engine.services.tasks._running - set(self.engine._recovery._tasks)

    # What callers do

    def call(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Let a verb run beside everything else; a refusal is an answer too."""
        task = asyncio.get_running_loop().create_task(work)
        self._verbs.add(task)
        task.add_done_callback(self._returned)
        return task

    def _returned(self, task: asyncio.Task[Any]) -> None:
        self._verbs.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Refused | SessionEnded | JournalError):
            self.failures.append(repr(error))

    async def start(self) -> str:
        life = self._life
        started = await self.engine.start(Start(prompt=mark(), cwd=str(self.folder)))
        if life == self._life:
            self.sessions.append(started.session_id)
            if len(self.followers) == 1:
                self.followers.append(Follower(started.session_id))
                self.followers[-1].follow(self.engine)
            self.said[str(started.prompt_id)] = started.session_id
        return started.session_id

    async def say(self, session_id: str, key: str | None = None) -> str:
        life = self._life
        request = Say(content=key or mark(), key=key)
        said = await self.engine.say(session_id, request)
        if life == self._life:
            self.said[said.prompt_id] = session_id
        return said.prompt_id

    async def answer(self, question_id: str, answer: Answer) -> Answered:
        life = self._life
        answered = await self.engine.answer(question_id, answer)
        if life == self._life:
            self.settled.append((question_id, answer, answered))
            if answered.new_session_id is not None and not answered.repeated:
                self.sessions.append(answered.new_session_id)
        return answered

    # What is there

    def cli(self, session_id: str) -> PlayedCLI | None:
        """The one that is alive for a session."""
        found = [each for each in self.clis if each.session_id == session_id]
        return found[-1] if found and found[-1].is_alive and not found[-1].is_lost else None

    def session(self, session_id: str) -> Session:
        return self.engine.sessions[session_id]

    async def touch_all(self) -> None:
        """Have every session in memory, also those that rest."""
        for session_id in await self.engine.journal.sessions():
            await self.engine.status(session_id)

    def let_rest(self) -> None:
        """Have no session in memory that rests, unless somebody is busy with it."""
        for _ in range(2):
            self.engine._recovery._sessions.let_rest()
        gc.collect()

    @property
    def questions(self) -> list[Question]:
        """Those that take an answer."""
        views = (each.view for each in self.engine.sessions.values())
        return [question for view in views for question in view.questions.values()]

    async def events(self) -> list[Event]:
        """All of the journal."""
        found: list[Event] = []
        while True:
            batch = await self.engine.read(found[-1].seq if found else 0, limit=1000)
            if not batch.events:
                return found
            found += batch.events

    def check_committed(self, shown: str, response: dict[str, Any]) -> None:
        """What a CLI hears at this moment must be in the journal already, and be the same."""
        question_id, told = None, ""
        for event in self._committed():
            body = json.loads(bytes(event.body))
            if event.kind == "question.opened" and shown in json.dumps(body):
                question_id = body["question"]["id"]
            elif event.kind == "question.closed" and body["id"] == question_id:
                told = told or json.dumps(body)
        self.expect(bool(told), f"an answer was not committed: {response}")
        answer = json.loads(told or "{}").get("answer") or {}
        # The CLI whose plan goes to another session hears of that alone.
        marks = [] if answer.get("kind") == "clear_context" else MARK.findall(json.dumps(answer))
        missing = [each for each in marks if each not in json.dumps(response)]
        self.expect(not missing, f"{told} became {response}")

    def is_kept(self, prompt_id: str) -> bool:
        """Whether a message is committed at this moment."""
        said = (each for each in self._committed() if each.kind == "prompt.said")
        return prompt_id in self._before or any(prompt_id.encode() in bytes(e.body) for e in said)

    def _committed(self) -> Sequence[Event]:
        found: list[Event] = []
        batch = _at_once(self.engine.journal.read(self._base, limit=100_000))
        while batch.events:
            found += batch.events
            batch = _at_once(self.engine.journal.read(batch.cursor, limit=100_000))
        return found

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note what is wrong, where an exception would get lost."""
        if not holds:
            self.failures.append(otherwise)


def _at_once(work: Coroutine[Any, Any, Batch]) -> Batch:
    """What it returns, where it does not have to wait."""
    try:
        work.send(None)
    except StopIteration as returned:
        return returned.value
    work.close()
    raise AssertionError("it had to wait")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory, where there is one: what a kill leaves is the same there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="pilothouse-", dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


class _Errors(logging.Handler):
    def __init__(self, failures: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        self._failures.append(self.format(record))


@asynccontextmanager
async def staged(folder: Path, *, modern: bool = True, **flags: Any) -> AsyncGenerator[EngineStage]:
    """An engine to play with."""
    stage = EngineStage(folder, modern=modern, **flags)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: stage.failures.append(str(context)))
    log = logging.getLogger("pilothouse")
    errors = _Errors(stage.failures)
    log.addHandler(errors)
    # A turn of a played CLI begins when its author says so, and not because of an interrupt.
    # And a snapshot is taken so often that a restart goes on from one in the middle of a turn.
    with patch.object(session, "BEGIN_WITHIN_S", 0.0), patch.object(session, "SAVED_EVERY", 3):
        await stage.open()
        try:
            yield stage
        finally:
            await stage.close()
            log.removeHandler(errors)
