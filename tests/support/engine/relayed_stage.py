"""An engine that reaches its played CLIs through doors, and that they outlive.

Everything behind the door is real; `played_relays` has what is before it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import Raw

from pilothouse.api.events import Event
from pilothouse.api.records import KINDS
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.doors.door import Doors
from pilothouse.doors.runners import Runners
from pilothouse.engine import session
from pilothouse.engine.door_routes import DoorRoutes
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.session import Session
from pilothouse.errors import JournalError
from pilothouse.journal.contract import Changes, Draft, Posted
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.settings import load
from tests.support.engine.played import EngineStage, _Errors
from tests.support.engine.played_relays import KEYRING, PlayedRelay, PlayedRelays, PlayedWire, Told
from tests.support.waiting import DEADLINE


class RelayedStage(EngineStage):
    """An engine whose CLIs go on without it."""

    def __init__(self, folder: Path, *, modern: bool = True, **flags: Any) -> None:
        super().__init__(folder, modern=modern, **flags)
        self.doors: Doors | None = None
        """Where relays find the engine; None while none runs."""
        self.relays: dict[str, PlayedRelay] = {}
        """Those that live, by run."""
        self.runs: dict[str, PlayedRelay] = {}
        """All there have been."""
        self.routes: DoorRoutes
        self.local: PlayedRelays
        self._wires: set[PlayedWire] = set()
        self._kept: asyncio.Future[None] | None = None
        self._never_kept: list[asyncio.Future[None]] = []
        self._ghosts: set[asyncio.Task[Any]] = set()

    # Relays

    async def add_relay(self, session_id: str, run: str, held: list[int]) -> None:
        relay = PlayedRelay(self, session_id, run, held)
        self.relays[run] = self.runs[run] = relay
        self._newest.append(relay.cli)
        await relay.start()

    def connect(self, session_id: str, run: str, told: Told) -> PlayedWire:
        assert self.doors is not None
        wire = PlayedWire(self.doors, session_id, run, told)
        self._wires.add(wire)
        wire.visit.add_done_callback(lambda done: self._visited(wire, done))
        return wire

    def _visited(self, wire: PlayedWire, done: asyncio.Future[None]) -> None:
        self._wires.discard(wire)
        if done.exception() is not None:
            self.failures.append(f"a door fell: {done.exception()!r}")

    def _shut(self, *, delivers: bool) -> None:
        self.doors = None
        for wire in list(self._wires):
            wire.cut(delivers=delivers)
        for relay in list(self.relays.values()):
            if relay.wire is not None:
                relay.session.abandon()

    # Life

    @property
    def is_down(self) -> bool:
        return self.doors is None

    async def open(self) -> None:
        home = self.folder / "home"
        env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
        settings = load(env=env, flags=self.flags)
        journal = await SqliteJournal.open(self._journal(self._life))
        runners = Runners(self.folder / "runners.json")
        doors = Doors(KEYRING, runners=runners)
        local: Any = PlayedRelays(self)
        self.local = local
        cli = Path("claude")
        self.routes = DoorRoutes(
            journal, doors, local, runners, KEYRING, cli=cli, env={}, last_will=3600.0
        )
        self.engine = await SessionEngine.open(
            settings, journal=journal, make_client=_client, simulated=True, routes=self.routes
        )
        self._before = {
            queued.id
            for each in self.engine.sessions.values()
            for queued in each.view.queued.values()
        }
        for follower in self.followers:
            follower.follow(self.engine)
        self.doors = doors
        for relay in list(self.relays.values()):
            relay.find_door()

    async def close(self) -> None:
        """End the engine in order; its CLIs go on."""
        if self.is_down:
            return
        async with asyncio.timeout(DEADLINE):
            await self.routes.aclose()
            await self.engine.aclose()
            self._shut(delivers=True)
            await self._finish_visits()
            await self._finish_verbs()
            await self._part()

    async def crash(self, *, delivers: bool = False) -> None:
        """End the engine as a kill would; its CLIs go on.

        What it has sent may reach the relays still.
        """
        if self.is_down:
            return
        old, routes = self.engine, self.routes
        self._leave_copy()
        self.local.is_dead = True
        old.services.is_closing = True
        self._shut(delivers=delivers)
        before = list(self.failures)
        is_frozen = self._thaw(old)
        _drop_locks(old)
        for verb in self._verbs:
            verb.cancel()
        # The ghost must not wait for what never comes.
        for route in list(routes._routes.values()):
            route.lost("its engine was killed")
        await self._part()
        async with asyncio.timeout(DEADLINE):
            await routes.aclose()
            await old.aclose()
            await self._finish_verbs()
            await self._finish_visits()
        if is_frozen:
            # That nothing could be kept is a ghost's complaint.
            self.failures[:] = before
            # So is what it never ended, which would be missed when it is collected.
            self._ghosts |= asyncio.all_tasks()

    def freeze(self, after: int) -> None:
        """From now on, keep that many posts and no more: the next thing is a crash."""
        journal: Any = self.engine.journal
        post, left = journal.post, after

        def keep(drafts: Sequence[Draft], changes: Changes | None = None) -> Posted:
            nonlocal left
            left -= 1
            if left >= 0:
                posted: Posted = post(drafts, changes)
                self._kept = posted.committed
                return posted
            first, journal._next = journal.next, journal.next + len(drafts)
            self._never_kept.append(asyncio.get_running_loop().create_future())
            return Posted(first, journal.next - 1, self._never_kept[-1])

        journal.post = keep

    async def until_frozen(self) -> None:
        """Wait until there is something that is not kept, or until there is nothing to do."""
        async with asyncio.timeout(DEADLINE):
            while not self._never_kept and not self._rests():  # noqa: ASYNC110 - every turn counts
                await asyncio.sleep(0)
            if self._kept is not None:
                await asyncio.wait([self._kept])

    def _thaw(self, engine: SessionEngine) -> bool:
        """Let a ghost end, which can keep nothing."""
        waiting, self._never_kept, self._kept = self._never_kept, [], None
        journal: Any = engine.journal
        if "post" not in vars(journal):
            return False
        journal._failed = JournalError("it was killed")
        del journal.post
        for each in waiting:
            if not each.done():
                each.set_exception(journal._failed)
                each.exception()
        return True

    def _leave_copy(self) -> None:
        path = self._journal(self._life)
        self._life += 1
        copy = self._journal(self._life)
        copy.parent.mkdir()
        with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(copy)) as other:
            one.backup(other)

    async def _finish_visits(self) -> None:
        while self._wires:
            await asyncio.wait([each.visit for each in self._wires])
            await asyncio.sleep(0)

    # Rest

    async def settle(self) -> None:
        """Wait until everything is committed and heard, and nothing is on its way anywhere."""
        async with asyncio.timeout(DEADLINE):
            rested = 0
            while rested < 2:
                await self._pass_time()
                rested = rested + 1 if self._rests() else 0
        if not self.is_down:
            alive = [each for each in self.clis if each.is_alive]
            self.certain |= {cli.asks[each] for cli in alive for each in cli.waiting}
        assert not self.failures, self.failures

    async def _pass_time(self) -> None:
        if self.is_down:
            await asyncio.sleep(0)
            return
        await self._finish_verbs()
        while working := self._work():
            await asyncio.wait(working)
        await self.engine.journal.post([]).committed
        await asyncio.sleep(0)

    def _rests(self) -> bool:
        if not all(relay.rests for relay in self.relays.values()):
            return False
        if self.is_down:
            return True
        return (
            not self._verbs
            and not self._work()
            and self._rests_at(self.engine.journal.next)
            and all(relay.rests_at_door for relay in self.relays.values())
            and len(self._wires) == len(self.relays)
            and all(wire.rests for wire in self._wires)
            and all(map(_rests, self.engine.sessions.values()))
        )

    # What is there

    def relay(self, session_id: str) -> PlayedRelay | None:
        """The one that lives for a session."""
        found = [each for each in self.relays.values() if each.session_id == session_id]
        return found[-1] if found else None

    def _committed(self) -> Sequence[Event]:
        rows = self.query(
            "SELECT seq, sessions.id, kind, at, body FROM events"
            " JOIN sessions ON sessions.key = events.session ORDER BY seq"
        )
        return [Event(seq, name, KINDS[kind], at, Raw(body)) for seq, name, kind, at, body in rows]

    def query(self, statement: str) -> list[Any]:
        """Rows of the newest journal that are committed at this moment."""
        with closing(sqlite3.connect(self._journal(self._life))) as db:
            return db.execute(statement).fetchall()


def _client(options: Options, *, sink: Sink, **parts: Any) -> Client:
    # No program is looked for: there is none.
    parts["command"] = lambda: ["claude"]
    return Client(options, sink=sink, **parts)


def _drop_locks(engine: SessionEngine) -> None:
    """What the kernel does with the locks of a killed process."""
    for each in engine.sessions.values():
        for writer in each.cli._writers.values():
            writer.leave()
        each.cli._writers.clear()


def _rests(one: Session) -> bool:
    """Whether neither the session nor its client does anything but wait for people."""
    if one.cli.is_starting or one.cli.is_closing:
        return False
    client, asks = one.cli.client, one.cli.asks
    if client is None or asks is None:
        return True
    channel: Any = client._channel
    link = channel._transport._link
    waiting = [each for each in asks._waiting.values() if not each.done()]
    return (
        not channel._waiters
        and not channel._flushing
        and len(channel._handlers) == len(waiting) == len(one.view.open_questions)
        and link._outgoing.taken == link._outgoing.last
        and link._committed == link._received
    )


@asynccontextmanager
async def relayed(
    folder: Path, *, modern: bool = True, **flags: Any
) -> AsyncGenerator[RelayedStage]:
    """An engine to play with, whose CLIs outlive it until the end of the play."""
    stage = RelayedStage(folder, modern=modern, **flags)
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
            for relay in list(stage.relays.values()):
                relay.be_killed()
            await stage.close()
            log.removeHandler(errors)
