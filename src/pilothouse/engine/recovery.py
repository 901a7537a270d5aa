"""What an engine does when it opens, while it runs, and when it ends, for all sessions at once."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pilothouse.errors import PilothouseError, Refused
from pilothouse.journal.contract import Snapshot

from .foreign_asks import ForeignAsks
from .services import Services
from .session import Session
from .sessions import Sessions
from .view import View

__all__ = ["Recovery"]

log = logging.getLogger("pilothouse")

PAGE: Final = 1000
"""Entries that are read at once."""
DAY_MS: Final = 24 * 60 * 60 * 1000
RETENTION_EVERY_S: Final = 60 * 60.0
"""Seconds between two looks for what is no longer to be kept."""


class Recovery:
    """Restores sessions from the journal, keeps it small, and lets go of every CLI at the end."""

    def __init__(self, services: Services, sessions: Sessions, asks: ForeignAsks) -> None:
        self.left = 0
        """How many CLIs went on when this engine ended."""
        self._services = services
        self._sessions = sessions
        self._asks = asks
        self._tasks: list[asyncio.Task[None]] = []

    # At the beginning

    async def open(self) -> None:
        """Restore every session, and note what ended while no engine ran."""
        services = self._services
        await services.spending.restore(services.journal)
        for snapshot in await services.journal.sessions():
            session = self._sessions.keep(self._sessions.restored(await self._folded(snapshot)))
            lost = await self._taken_up(session)
            if lost:
                session.cli.lost(lost)
            self._asks.restore(session)
        services.routes.tidy({each.view.run for each in self._sessions.all.values()})
        self._finish_plans()
        self._tasks = [
            services.tasks.spawn(self._retain_regularly()),
            services.tasks.spawn(self._watch_journal()),
        ]

    async def _folded(self, snapshot: Snapshot) -> View:
        """What is known of a session: its snapshot, and what came after it."""
        try:
            view = View.restore(snapshot)
        except ValueError:
            view = View(session_id=snapshot.session_id)
        cursor = view.last_seq
        while True:
            batch = await self._services.journal.read(
                cursor, session_id=view.session_id, limit=PAGE, partials=False
            )
            for event in batch.events:
                view.apply(event.seq, event.kind, event.at, bytes(event.body))
            if not batch.events:
                return view
            cursor = batch.events[-1].seq

    async def _taken_up(self, session: Session) -> str:
        """Why a session has lost its CLI; empty if it rests, or its CLI goes on."""
        view = session.view
        if not (view.live or view.busy or view.own_questions):
            return ""
        if not view.run:
            return "the server ended"
        try:
            goes_on = await session.cli.take_up()
        except PilothouseError as error:
            log.error("session %s cannot go on: %s", session.session_id, error)
            return f"the server came back and could not go on with it: {error}"
        return "" if goes_on else "its relay was gone when the server came back"

    def _finish_plans(self) -> None:
        """Make up for what was cut off after a plan was handed to a new session."""
        sessions = self._sessions.all
        for session in list(sessions.values()):
            successor = sessions.get(session.view.successor or "")
            if successor is None or successor.view.run_seq or not successor.view.queued:
                continue
            if not successor.has_cli:
                self._services.tasks.spawn(_hand_over(session, successor))

    # While it runs

    async def retain(self) -> int:
        """Remove the sessions that the retention setting no longer keeps; how many entries."""
        services, sessions = self._services, self._sessions.all
        days = services.settings.retention_days
        if not days:
            return 0
        at_work = [name for name, each in sessions.items() if self._is_at_work(each)]
        before = services.recorder.clock() - days * DAY_MS
        removed = await services.journal.retain(before=before, keep=at_work)
        kept = {snapshot.session_id for snapshot in await services.journal.sessions()}
        for name in [name for name in sessions if name not in kept]:
            if not self._is_at_work(sessions[name]):
                del sessions[name]
        return removed

    def _is_at_work(self, session: Session) -> bool:
        """Whether anything of a session is yet to come, perhaps for a foreign CLI."""
        return session.is_at_work or session.session_id in self._services.foreign.waiting

    async def _retain_regularly(self) -> None:
        while True:
            await self.retain()
            await asyncio.sleep(RETENTION_EVERY_S)

    async def _watch_journal(self) -> None:
        """Let go of every CLI once nothing can be kept: those behind relays wait for a server that
        can, with what they say, and every other one is ended."""
        journal = self._services.journal
        await journal.broken()
        log.error("nothing can be kept any more, so every CLI is let go of: %s", journal.failed)
        self._asks.leave()
        await self._let_go("nothing can be kept")

    # At the end

    async def close(self) -> None:
        """Leave every CLI that goes on behind its relay, end every other one in order, and close
        the journal."""
        self._services.is_closing = True
        for task in self._tasks:
            task.cancel()
        self._asks.leave()
        await self._let_go("the server stopped")
        await self._services.tasks.settle()
        await self._services.journal.aclose()

    async def _let_go(self, reason: str) -> None:
        sessions = list(self._sessions.all.values())
        # What goes wrong with one is logged, and keeps no other and no file open.
        left = await asyncio.gather(
            *(_let_go_of(each, reason) for each in sessions), return_exceptions=True
        )
        for error in (each for each in left if isinstance(each, Exception)):
            log.error("a session could not be let go of: %s", error, exc_info=error)
        self.left += sum(each is True for each in left)


async def _let_go_of(session: Session, reason: str) -> bool:
    """Leave the session's CLI, or end it; whether it goes on."""
    if await session.cli.leave():
        return True
    await session.cli.close(reason, decidable=True)
    return False


async def _hand_over(session: Session, successor: Session) -> None:
    if session.has_cli:
        await session.stop()
    try:
        await successor.cli.reserve()
    except Refused as refused:
        log.warning("session %s does not begin: %s", successor.session_id, refused)
    else:
        successor.deliver()
