"""What an engine does when it opens, while it runs, and when it ends, for all sessions at once."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Final

from pilothouse.errors import PilothouseError, Refused

from .foreign_asks import ForeignAsks
from .services import Services
from .session import Session
from .session_changes import SessionChangesFeed
from .sessions import Sessions

__all__ = ["Recovery"]

log = logging.getLogger("pilothouse")

DAY_MS: Final = 24 * 60 * 60 * 1000
MARKED_AT_ONCE: Final = 1000
REST_EVERY_S: Final = 60.0
"""Seconds after which a session at rest that nobody touches is let go of."""
HAND_STARTED: Final = (
    "the server ended, and a CLI that was started by hand is not taken up by the next one"
)
RETENTION_EVERY: Final = 60
"""After so many of those, what has rested for too long is removed."""


class Recovery:
    """Restores sessions from the journal, removes old ones, and lets go of every CLI at the end."""

    def __init__(
        self,
        services: Services,
        sessions: Sessions,
        asks: ForeignAsks,
        changes: SessionChangesFeed,
    ) -> None:
        self.left = 0
        """How many CLIs went on when this engine ended."""
        self._services = services
        self._sessions = sessions
        self._asks = asks
        self._changes = changes
        self._tasks: list[asyncio.Task[None]] = []

    # At the beginning

    async def open(self) -> None:
        """Restore every session at work, and note what ended while no engine ran.

        The others are restored when somebody touches them. See `SessionRow`.
        """
        services = self._services
        await services.spending.restore(services.journal)
        resting: list[Session] = []
        for session_id in await services.journal.sessions(at_work=True):
            session = await self._sessions.get(session_id)
            if session is not None and not await self._go_on(session):
                resting.append(session)
            if len(resting) == MARKED_AT_ONCE:
                await self._mark(resting)
        await self._mark(resting)
        services.routes.tidy({each.view.run for each in self._sessions.all.values()})
        await self._finish_plans()
        self._tasks = [
            services.tasks.spawn(self._tidy_regularly()),
            services.tasks.spawn(self._watch_journal()),
        ]

    async def _go_on(self, session: Session) -> bool:
        """Take up or end what a session was at; whether there was anything."""
        lost = await self._taken_up(session)
        if lost:
            session.cli.lost(lost)
        self._asks.restore(session)
        return bool(lost) or self._sessions.is_at_work(session)

    async def _mark(self, resting: list[Session]) -> None:
        """Mark what rests in the journal of an older version, which did not, and let go of it."""
        if resting:
            await self._services.recorder.mark([each.view for each in resting]).committed
            for each in resting:
                self._sessions.let_go(each)
            resting.clear()

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
        if view.via == "dial-in":
            return HAND_STARTED
        return "" if goes_on else "its relay was gone when the server came back"

    async def _finish_plans(self) -> None:
        """Make up for what was cut off after a plan was handed to a new session."""
        for successor in list(self._sessions.all.values()):
            view = successor.view
            if view.parent is None or view.run_seq or not view.queued or successor.has_cli:
                continue
            session = await self._sessions.get(view.parent)
            if session is not None and session.view.successor == view.session_id:
                self._services.tasks.spawn(_hand_over(session, successor))

    # While it runs

    async def retain(self) -> int:
        """Remove sessions that have rested for longer than is set; return the number of entries."""
        services, sessions = self._services, self._sessions.all
        days = services.settings.retention_days
        if not days:
            return 0
        at_work = [name for name, each in sessions.items() if self._sessions.is_at_work(each)]
        before = services.recorder.clock() - days * DAY_MS
        removed = await services.journal.retain(before=before, keep=at_work)
        for name in list(sessions):
            is_gone = await services.journal.snapshot(name) is None
            if is_gone and name in sessions and not self._sessions.is_at_work(sessions[name]):
                self._sessions.forget(name)
        if removed:
            self._changes.reset()
        return removed

    async def _tidy_regularly(self) -> None:
        for minute in itertools.count():
            if minute % RETENTION_EVERY == 0:
                await self.retain()
            await asyncio.sleep(REST_EVERY_S)
            self._sessions.let_rest()

    async def _watch_journal(self) -> None:
        """Let go of every CLI once nothing can be stored: those behind relays wait, with their
        lines, for a server that can, and every other one is ended."""
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
        self._services.slow_disk.close()
        await self._services.journal.aclose()

    async def _let_go(self, reason: str) -> None:
        sessions = list(self._sessions.all.values())
        # What goes wrong with one is logged, and neither another nor a file stays open for it.
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
