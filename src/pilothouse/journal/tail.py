"""The newest entries, in memory: watchers read them without asking the disk, and wait for more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.records import PARTIAL
from pilothouse.errors import JournalError

from .contract import MAX_BATCH_BYTES

__all__ = ["Tail", "Waiters"]

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 16 << 20


class Tail:
    """Committed entries without a break up to the newest; those removed since leave a hole.

    The place of an entry follows from its number, so a cursor is found without a search. Entries
    of one session are picked out of the rest: 18 watchers of one among 200 sessions cost less so
    than keeping a list for each.
    """

    def __init__(
        self, last: int, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._first = last + 1
        self._entries: list[Event | None] = []
        self._posts: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._gaps: list[tuple[str, Gap]] = []
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._first + len(self._entries) - 1

    def covers(self, after: int) -> bool:
        """Whether every entry after this cursor is here."""
        return after >= self._first - 1

    def extend(self, events: Sequence[Event], size: int) -> None:
        """Take the entries of one post, whose bodies have this size together."""
        self._entries.extend(events)
        self._posts.append((len(events), size))
        self._bytes += size

    def trim(self) -> None:
        """Let go of the oldest posts until the rest is within its bounds."""
        excess, dropped = len(self._entries) - self._max_entries, 0
        while self._posts and (dropped < excess or self._bytes > self._max_bytes):
            count, size = self._posts.popleft()
            dropped += count
            self._bytes -= size
        if dropped:
            del self._entries[:dropped]
            self._first += dropped
            self._gaps = [each for each in self._gaps if each[1].last >= self._first]

    def remove(self, session_id: str, seqs: Iterable[int], gaps: Iterable[Gap]) -> None:
        """Forget entries that were removed from the disk."""
        for seq in seqs:
            if seq >= self._first:
                self._entries[seq - self._first] = None
        self._gaps.extend((session_id, gap) for gap in gaps if gap.last >= self._first)

    def read(self, after: int, session_id: str | None, limit: int, *, partials: bool) -> Batch:
        """What a journal's `read` promises, for a cursor that is covered."""
        newer = self._entries[max(after + 1 - self._first, 0) :]
        found, full = _fitting(_chosen(newer, session_id, partials), limit)
        cursor = found[-1].seq if full else max(after, self.last)
        gaps = [
            gap
            for owner, gap in self._gaps
            if gap.last > after
            and gap.first <= cursor
            and (session_id is None or owner == session_id)
            and (partials or gap.reason != "partials")
        ]
        return Batch(events=found, cursor=cursor, gaps=sorted(gaps, key=_place))


def _fitting(chosen: Iterable[Event], limit: int) -> tuple[list[Event], bool]:
    """As many as make a batch, and whether more may be left; one in any case."""
    found: list[Event] = []
    size = 0
    for event in islice(chosen, limit):
        size += len(event.body if event.raw is None else event.raw)
        if size > MAX_BATCH_BYTES and found:
            return found, True
        found.append(event)
    return found, len(found) == limit


def _place(gap: Gap) -> tuple[int, int]:
    return gap.first, gap.last


def _chosen(entries: list[Event | None], session_id: str | None, partials: bool) -> Iterable[Event]:
    if session_id is None:
        return (e for e in entries if e is not None and (partials or e.kind != PARTIAL))
    return (
        e
        for e in entries
        if e is not None and e.session_id == session_id and (partials or e.kind != PARTIAL)
    )


class Waiters:
    """Those who wait for an entry, of one session or (None) of any."""

    def __init__(self) -> None:
        self._waiting: dict[str | None, set[asyncio.Future[None]]] = {}

    async def wait(self, session_id: str | None) -> None:
        """Return at the next entry."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(session_id, set())
        waiting.add(future)
        try:
            await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(session_id) is waiting:
                del self._waiting[session_id]

    def wake(self, session_ids: Iterable[str]) -> None:
        """Entries of these sessions are there."""
        for session_id in (None, *session_ids):
            for future in self._waiting.pop(session_id, ()):
                if not future.done():
                    future.set_result(None)

    def fail(self, error: JournalError) -> None:
        """There will be no more entries."""
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        self._waiting.clear()
