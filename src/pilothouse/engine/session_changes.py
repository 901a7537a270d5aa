"""What changes of the list of sessions, for whoever shows it.

The journal has every change, so nobody notes any: a reader looks, a few times a second at most,
which sessions have entries after its cursor, and gets their rows as they are then. One that is
slow, or comes back later, looks once for all that happened meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.statuses import Listed, SessionChanges
from pilothouse.journal.contract import Touched

from .services import Services
from .session import Session
from .sessions import Sessions

__all__ = ["SessionChangesFeed"]

PAUSE_S: Final = 0.25
"""How long changes gather before a reader gets the next ones."""
LOOK_AGAIN_S: Final = 2.0
"""How soon it is seen that a session's relay or machine has gone, or is back."""
MOST: Final = 1000
"""Rows or questions that are sent at once. Whoever has missed more lists them again."""

_listed = msgspec.json.Decoder(Listed)


class SessionChangesFeed:
    """Tells readers which rows have changed."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions
        self._resets = 0
        self._reset_at = -1
        """The newest entry at the last reset."""
        self._news = asyncio.Event()

    async def follow(self, after: int | None) -> AsyncGenerator[SessionChanges]:
        """Yield what changes after a cursor (None: from now on), without an end."""
        journal = self._services.journal
        cursor = journal.last if after is None else after
        resets = self._resets if after is None or after > self._reset_at else -1
        cut_off = self._cut_off()
        while True:
            if cursor < journal.next:
                await self._wait(cursor, resets, cut_off)
            is_reset, resets = self._resets != resets, self._resets
            # Those that come to rest meanwhile are known here all the same.
            loaded = dict(self._sessions.all)
            told = None if is_reset else await journal.touched(cursor, most=MOST, besides=loaded)
            cursor = journal.last if told is None else told.cursor
            before, cut_off = cut_off, self._cut_off()
            if told is None:
                yield SessionChanges(cursor=cursor, reset=True)
            elif names := {*told.sessions, *(before ^ cut_off)}:
                yield await self._changes(told, names, loaded)
            # After a silence the first change goes at once; meanwhile the next ones gather.
            await asyncio.sleep(PAUSE_S)

    def reset(self) -> None:
        """Let every reader list the sessions again: some are gone, and no entry tells of it."""
        self._resets += 1
        self._reset_at = self._services.journal.last
        self._news.set()
        self._news = asyncio.Event()

    def _cut_off(self) -> set[str]:
        """The sessions whose CLI cannot be reached: it comes and goes without an entry."""
        return {name for name, each in self._sessions.all.items() if each.is_cut_off}

    async def _wait(self, cursor: int, resets: int, cut_off: set[str]) -> None:
        """Wait for an entry after the cursor, for a reset, or for a CLI that comes or goes."""
        journal = self._services.journal
        if self._resets != resets or journal.last > cursor:
            return
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(journal.wait(cursor)),
            asyncio.ensure_future(self._news.wait()),
        ]
        try:
            done: set[asyncio.Future[Any]] = set()
            while not done and self._cut_off() == cut_off:
                done, _ = await asyncio.wait(
                    waiting, timeout=LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for each in done:
            each.result()

    async def _changes(
        self, told: Touched, names: Collection[str], loaded: Mapping[str, Session]
    ) -> SessionChanges:
        rows = {name: loaded[name].listed() for name in names if name in loaded}
        stored = {name: _listed.decode(summary) for name, summary in told.summaries.items()}
        rows = stored | rows
        # Nobody may see what a crash undoes.
        await self._services.recorder.kept()
        return SessionChanges(
            cursor=told.cursor,
            changed=list(rows.values()),
            questions=told.questions,
            removed=[name for name in told.sessions if name not in rows],
        )
