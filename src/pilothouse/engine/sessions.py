"""The sessions an engine has: those at work in memory, the rest in the journal until touched.

A session is one object however many requests touch it. `all` holds those at work and those that
were touched lately. One that is let go of is still found here for as long as somebody has it, and
whoever loads it again reads everything that was written before.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from pilothouse.api.records import AnyRecord
from pilothouse.errors import UnknownSession
from pilothouse.journal.contract import Journal, KeyRow, Snapshot

from .keyed_locks import KeyedLocks
from .services import Services
from .session import Session
from .view import View

__all__ = ["Sessions"]

PAGE: Final = 1000
"""Entries that are read at once."""


class Sessions:
    """Finds every session of the engine by its id, or by that of its conversation."""

    def __init__(self, services: Services) -> None:
        self.all: dict[str, Session] = {}
        """Those in memory. Whatever has a CLI, a queue or a question is among them."""
        self._services = services
        self._objects: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._loading = KeyedLocks()
        self._touched: set[str] = set()
        """Since the last time that sessions were let go of."""

    # Which there are

    async def get(self, session_id: str) -> Session | None:
        """The session with this id."""
        session = self._touch(session_id)
        if session is None:
            async with self._loading.hold(session_id):
                session = self._touch(session_id) or await self._load(session_id)
        return session

    async def find(self, session_id: str) -> Session | None:
        """A session by its own id, or by that of its conversation: after /clear they differ."""
        session = await self.get(session_id)
        if session is None:
            holder = await self._services.journal.holder(session_id)
            session = None if holder is None else await self.get(holder)
        # It may have been begun under this id meanwhile.
        return session or self._touch(session_id)

    async def unknown(self, session_id: str) -> UnknownSession:
        """The error for an id that no session has, with ids that begin nearly the same."""
        ids = await self._services.journal.sessions(near=session_id)
        near = difflib.get_close_matches(session_id, ids, n=3, cutoff=0.4)
        advice = f"did you mean {', '.join(near)}?" if near else "list the sessions"
        return UnknownSession(f"there is no session {session_id}", advice=advice)

    def _touch(self, session_id: str) -> Session | None:
        session = self._objects.get(session_id)
        return None if session is None else self.add(session)

    async def _load(self, session_id: str) -> Session | None:
        journal = self._services.journal
        # What was written to an object that is gone may not be committed yet.
        await self._services.recorder.kept()
        snapshot = await journal.snapshot(session_id)
        if snapshot is None:
            return None
        view = await _folded(journal, snapshot)
        return self._touch(session_id) or self.add(Session(self._services, view, self.all))

    # Which are in memory

    def new(self, session_id: str | None = None) -> Session:
        """A session of which nothing is written yet, and that is not among the others."""
        view = View(session_id=session_id or str(uuid.uuid4()))
        return Session(self._services, view, self.all)

    def add(self, session: Session) -> Session:
        """Have it among the others from now on."""
        self._objects[session.session_id] = self.all[session.session_id] = session
        self._touched.add(session.session_id)
        return session

    def forget(self, session_id: str) -> None:
        """Have a session no longer that the journal has no longer."""
        self.all.pop(session_id, None)
        self._objects.pop(session_id, None)

    def let_rest(self) -> None:
        """Let go of every session at rest that nobody has touched since this was last called."""
        for session_id, session in list(self.all.items()):
            # Lists take what is not in memory from the journal, so all of it must be there.
            is_written = session.view.last_seq <= self._services.journal.last
            if session_id not in self._touched and is_written and not self.is_at_work(session):
                self.let_go(session)
        self._touched.clear()

    def let_go(self, session: Session) -> None:
        """Keep a session at rest in memory no longer than somebody else has it."""
        del self.all[session.session_id]

    def is_at_work(self, session: Session) -> bool:
        """Whether anything of a session is yet to come, perhaps for a foreign CLI."""
        return session.is_at_work or session.session_id in self._services.foreign.waiting

    async def write_new(
        self,
        session: Session,
        records: Sequence[AnyRecord],
        *,
        before: Sequence[tuple[View, AnyRecord]] = (),
        keys: Sequence[KeyRow] = (),
    ) -> None:
        """Store a new session with its first records; if that fails, free what it has reserved."""
        try:
            pairs = [*before, *((session.view, record) for record in records)]
            posted = self._services.recorder.write_all(pairs, keys=keys)
            self.add(session)
            await posted.committed
        except BaseException:
            session.cli.release()
            raise


async def _folded(journal: Journal, snapshot: Snapshot) -> View:
    """What is known of a session: its snapshot, and what came after it."""
    try:
        view = View.restore(snapshot)
    except ValueError:
        view = View(session_id=snapshot.session_id)
    cursor = view.last_seq
    while True:
        batch = await journal.read(cursor, session_id=view.session_id, limit=PAGE, partials=False)
        for event in batch.events:
            view.apply(event.seq, event.kind, event.at, bytes(event.body))
        if not batch.events:
            return view
        cursor = batch.events[-1].seq
