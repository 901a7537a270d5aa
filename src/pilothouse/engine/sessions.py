"""The sessions an engine has."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Sequence

from pilothouse.api.records import AnyRecord
from pilothouse.errors import UnknownSession
from pilothouse.journal.contract import KeyRow

from .services import Services
from .session import Session
from .view import View

__all__ = ["Sessions"]


class Sessions:
    """Every session this engine knows, by id."""

    def __init__(self, services: Services) -> None:
        self.all: dict[str, Session] = {}
        self._services = services

    def new(self, session_id: str | None = None) -> Session:
        """A session of which nothing is kept yet."""
        return self.restored(View(session_id=session_id or str(uuid.uuid4())))

    def restored(self, view: View) -> Session:
        """The session of which this is known."""
        return Session(self._services, view)

    def keep(self, session: Session) -> Session:
        """Have it among the others from now on."""
        self.all[session.session_id] = session
        return session

    def find(self, session_id: str) -> Session | None:
        """A session by its own id, or by that of its conversation: after /clear they differ."""
        return self.all.get(session_id) or next(
            (each for each in self.all.values() if each.view.claude_session_id == session_id), None
        )

    def unknown(self, session_id: str) -> UnknownSession:
        """The error that says so, with ids that are nearly the same."""
        near = difflib.get_close_matches(session_id, self.all, n=3, cutoff=0.4)
        advice = f"did you mean {', '.join(near)}?" if near else "list the sessions"
        return UnknownSession(f"there is no session {session_id}", advice=advice)

    async def write_new(
        self,
        session: Session,
        records: Sequence[AnyRecord],
        *,
        before: Sequence[tuple[View, AnyRecord]] = (),
        keys: Sequence[KeyRow] = (),
    ) -> None:
        """Keep a new session with its first records; what was reserved for it is freed if not."""
        try:
            pairs = [*before, *((session.view, record) for record in records)]
            posted = self._services.recorder.write_all(pairs, keys=keys)
            self.keep(session)
            await posted.committed
        except BaseException:
            session.cli.release()
            raise
