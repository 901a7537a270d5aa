"""One list of an engine's sessions and of those that stand on disk."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from pilothouse.api.statuses import Listed, Listing
from pilothouse.errors import UsageError
from pilothouse.history import FoundSession
from pilothouse.journal.contract import SessionFilter

from .services import Services
from .sessions import Sessions
from .view import View

__all__ = ["SessionList", "resolved", "words_of"]

MOST_WORDS: Final = 32
"""Of one search: each is looked for in every row."""

_listed = msgspec.json.Decoder(Listed)


class SessionList:
    """Lists sessions, the most recent first, without restoring those that rest."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions

    async def live(self, which: SessionFilter, *, limit: int, offset: int) -> Listing:
        """A page of those that have a CLI."""
        # A CLI that runs is seen wherever its session was put.
        which = replace(which, cwd=await _place(which.cwd), archived=which.archived or None)
        cursor = self._services.journal.last
        live = [each.listed() for each in self._sessions.all.values() if each.has_cli]
        ours = [row for row in live if _fits(row, which)]
        return Listing(sessions=_page(ours, limit, offset), total=len(ours), cursor=cursor)

    async def page(self, which: SessionFilter, *, limit: int, offset: int) -> Listing:
        """A page of all of them. A session of ours stands for its transcript, whatever that is
        called."""
        journal = self._services.journal
        on_disk = await self._services.history.list(cwd=which.cwd, limit=sys.maxsize)
        which = replace(which, cwd=await _place(which.cwd))
        owned = await journal.owned([each.session_id for each in on_disk.found])
        cursor = journal.last
        loaded = list(self._sessions.all.values())
        views = [each.view for each in loaded]
        ours = [row for each in loaded if _fits(row := each.listed(), which)]
        known = _with_those_of(views, owned)
        resting = await journal.resting(
            which, limit=offset + limit, besides=[view.session_id for view in views]
        )
        others = await asyncio.to_thread(self._others, on_disk.found, known, which)
        newest = map(self._of_transcript, others[: offset + limit])
        every = [*ours, *map(_listed.decode, resting.summaries), *newest]
        return Listing(
            sessions=_page(every, limit, offset),
            unreadable=list(on_disk.unreadable),
            total=len(ours) + resting.total + len(others),
            cursor=cursor,
        )

    async def transcripts(self) -> list[FoundSession]:
        """Those of which there is a transcript alone."""
        on_disk = await self._services.history.list(cwd=None, limit=sys.maxsize)
        owned = await self._services.journal.owned([each.session_id for each in on_disk.found])
        known = _with_those_of([each.view for each in self._sessions.all.values()], owned)
        return [each for each in on_disk.found if each.session_id not in known]

    def _others(
        self, found: Iterable[FoundSession], known: Collection[str], which: SessionFilter
    ) -> list[FoundSession]:
        """Those of which there is a transcript alone, and which are meant."""
        others = [each for each in found if each.session_id not in known]
        # Their directory was looked at when they were found, by the name that their CLI gave it.
        which = replace(which, cwd=None)
        if which == SessionFilter(archived=False):
            return others
        return [each for each in others if _fits(self._of_transcript(each), which)]

    def _of_transcript(self, found: FoundSession) -> Listed:
        return Listed(
            session_id=found.session_id,
            cwd=found.cwd,
            title=found.title,
            updated_at=found.updated_at,
            model=found.model,
            last_line=found.last_line or None,
            interactive=found.interactive,
            simulated=self._services.simulated,
            source="transcript",
        )


def _with_those_of(views: Collection[View], owned: set[str]) -> set[str]:
    names = ((view.session_id, view.claude_session_id) for view in views)
    return owned.union(*names)


async def _place(cwd: str | None) -> str | None:
    return None if cwd is None else await asyncio.to_thread(resolved, cwd)


def resolved(path: str) -> str:
    """The path without links. One that no file system can have is nobody's, and stays as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def words_of(search: str) -> tuple[str, ...]:
    """The words of a search, as rows are compared with them."""
    words = tuple(dict.fromkeys(search.casefold().split()))
    if len(words) > MOST_WORDS:
        raise UsageError(f"a search has at most {MOST_WORDS} words: leave some out")
    return words


def _fits(row: Listed, which: SessionFilter) -> bool:
    return (
        which.cwd in (None, row.cwd)
        and which.state in (None, row.state)
        and which.label in (None, row.label)
        and which.machine in (None, row.machine)
        and which.archived in (None, row.archived)
        and (not which.words or all(word in row.search_text for word in which.words))
    )


def _page(every: Iterable[Listed], limit: int, offset: int) -> list[Listed]:
    newest_first = sorted(every, key=lambda each: (-each.updated_at, each.session_id))
    return newest_first[offset : offset + limit]
