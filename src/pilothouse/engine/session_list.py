"""One list of an engine's sessions and of those that stand on disk."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection, Iterable

import msgspec

from pilothouse.api.statuses import Listed, Listing
from pilothouse.history import FoundSession, HistoryPage

from .services import Services
from .sessions import Sessions

__all__ = ["SessionList", "resolved"]

_listed = msgspec.json.Decoder(Listed)


class SessionList:
    """Lists sessions, the most recent first, without restoring those that rest."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions

    async def live(self, *, cwd: str | None, limit: int, offset: int) -> Listing:
        """A page of those that have a CLI."""
        wanted = await _place(cwd)
        live = [each.view for each in self._sessions.all.values() if each.has_cli]
        ours = [view.listed() for view in live if wanted in (None, view.cwd)]
        return Listing(sessions=_page(ours, limit, offset), total=len(ours))

    async def page(self, *, cwd: str | None, limit: int, offset: int) -> Listing:
        """A page of all of them. A session of ours stands for its transcript, whatever that is
        called."""
        journal, wanted = self._services.journal, await _place(cwd)
        on_disk = await self._services.history.list(cwd=cwd, limit=sys.maxsize)
        owned = await journal.owned([each.session_id for each in on_disk.found])
        views = [each.view for each in self._sessions.all.values()]
        ours = [view.listed() for view in views if wanted in (None, view.cwd)]
        known = owned.union(
            (view.session_id for view in views), (view.claude_session_id for view in views)
        )
        resting = await journal.resting(
            cwd=wanted, limit=offset + limit, besides=[view.session_id for view in views]
        )
        others = await asyncio.to_thread(_others, on_disk, known)
        newest = others[: offset + limit]
        found = [self._of_transcript(each) for each in newest]
        every = [*ours, *map(_listed.decode, resting.summaries), *found]
        return Listing(
            sessions=_page(every, limit, offset),
            unreadable=list(on_disk.unreadable),
            total=len(ours) + resting.total + len(others),
        )

    def _of_transcript(self, found: FoundSession) -> Listed:
        return Listed(
            session_id=found.session_id,
            cwd=found.cwd,
            title=found.title,
            updated_at=found.updated_at,
            interactive=found.interactive,
            simulated=self._services.simulated,
            source="transcript",
        )


async def _place(cwd: str | None) -> str | None:
    return None if cwd is None else await asyncio.to_thread(resolved, cwd)


def resolved(path: str) -> str:
    """The path without links. One that no file system can have is nobody's, and stays as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _others(on_disk: HistoryPage, known: Collection[str]) -> list[FoundSession]:
    return [each for each in on_disk.found if each.session_id not in known]


def _page(every: Iterable[Listed], limit: int, offset: int) -> list[Listed]:
    newest_first = sorted(every, key=lambda each: (-each.updated_at, each.session_id))
    return newest_first[offset : offset + limit]
