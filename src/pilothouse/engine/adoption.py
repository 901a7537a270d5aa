"""Finds the session a caller means, and takes over those that were begun elsewhere."""

from __future__ import annotations

import asyncio

from pilothouse.api.records import SessionStarted
from pilothouse.errors import NotNow
from pilothouse.history import FoundSession

from .launch_options import permitted_directory
from .services import Services
from .session import Session
from .sessions import Sessions

__all__ = ["Adoption"]


class Adoption:
    """Makes sessions the engine's own: by id, from a transcript, or from a CLI that has gone."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions

    async def known(self, session_id: str) -> Session:
        """One of ours; whatever its CLI is."""
        # First of all: a session that was let go of would seem to be somebody else's.
        self._services.recorder.check()
        session = await self._sessions.find(session_id)
        if session is None:
            raise await self._sessions.unknown(session_id)
        return session

    async def own(self, session_id: str) -> Session:
        """One of ours whose CLI, if it has one, is ours as well."""
        session = await self.known(session_id)
        self._check_alone(session)
        return session

    async def adopted(self, session_id: str) -> Session:
        """One of ours that a CLI of ours may go on with, or one that has a transcript here."""
        self._services.recorder.check()
        session = await self._sessions.find(session_id)
        if session is not None:
            await self._make_ours(session)
            return session
        found = await self._services.history.find(session_id)
        if found is None or found.cwd is None:
            raise await self._sessions.unknown(session_id)
        cwd = await self._permitted(found.cwd)
        if session_id in self._sessions.all:
            return self._sessions.all[session_id]
        session = self._sessions.add(self._sessions.new(session_id))
        record = SessionStarted(
            cwd=cwd,
            origin="adopted",
            title=found.title,
            claude_session_id=session_id,
            simulated=self._services.simulated,
        )
        await session.write(record).committed
        return session

    async def _make_ours(self, session: Session) -> None:
        view = session.view
        self._check_alone(session)
        if session.cli.is_held or not (view.origin == "foreign" or view.guest_at):
            return
        found = await self._services.history.find(view.claude_session_id)
        if found is not None:
            self._services.foreign.check_silent(view, found.updated_at)
        if view.origin == "foreign":
            await self._take_over(session, found)

    async def _take_over(self, session: Session, found: FoundSession | None) -> None:
        """Go on with the session of a foreign CLI that has gone, where its transcript is."""
        view = session.view
        if found is None or found.cwd is None:
            raise NotNow(
                f"the conversation of session {session.session_id} is not on this machine",
                advice="go on with it where it was begun",
            )
        cwd = await self._permitted(found.cwd)
        self._check_alone(session)
        if view.origin == "foreign":
            record = SessionStarted(
                cwd=cwd,
                label=view.label,
                origin="adopted",
                title=view.title or found.title,
                claude_session_id=view.claude_session_id,
                simulated=self._services.simulated,
            )
            await session.write(record).committed

    def _check_alone(self, session: Session) -> None:
        if not session.cli.is_held:
            self._services.foreign.check_absent(session.view)

    async def _permitted(self, cwd: str) -> str:
        roots = self._services.settings.allowed_roots
        return await asyncio.to_thread(permitted_directory, cwd, roots)
