"""A journal over a store: numbers, the newest entries in memory, who waits, what has failed.

The store works on threads of ours and knows none of this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from msgspec import Raw

from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.questions import Question, QuestionState
from pilothouse.api.records import KINDS, PARTIAL
from pilothouse.api.results import Activity, CostGroup, CostLine
from pilothouse.errors import JournalError

from .contract import (
    EVERY_SESSION,
    MAX_BATCH_BYTES,
    Changes,
    Draft,
    KeyRow,
    Posted,
    RestingPage,
    RunRow,
    SessionFilter,
    Snapshot,
    Touched,
)
from .session_changes import OF_QUESTIONS
from .writer import Ears, Job, Post, Removed, Writer

__all__ = ["Store", "StoredJournal", "Tail"]

P = ParamSpec("P")
T = TypeVar("T")

_KINDS = frozenset(KINDS)
MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 16 << 20

MOST_NAMES: Final = 2000
"""Names that are looked up at once: about 5 ms."""
MOST_NEAR: Final = 5
MOST_NEWEST: Final = 20_000
"""Sessions whose newest entry is remembered; twice as many as the tail can have."""


class StoredSums(Protocol):
    """What a store adds up; on any thread."""

    def costs(
        self, by: str, session_id: str | None, since: int | None, day: str | None
    ) -> list[CostLine]: ...

    def activity(self, since: int, until: int) -> Activity: ...


class Store(Protocol):
    """Where rows are. `append` and the steps of removals run on one thread, reads on another."""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        ...

    @property
    def sums(self) -> StoredSums: ...

    @property
    def damage(self) -> tuple[type[Exception], ...]:
        """The errors of a read or a write that mean it cannot be trusted any more."""
        ...

    def append(self, posts: Sequence[Post]) -> None: ...

    def page(
        self, after: int, upto: int, session_id: str | None, limit: int, *, partials: bool
    ) -> Batch: ...

    def page_back(self, upto: int, session_id: str, limit: int, *, partials: bool) -> Batch: ...
    def lines_with(self, after: int, session_id: str, words: Sequence[bytes]) -> list[bytes]: ...

    def prune(self, session_id: str, first: int, last: int) -> Iterator[Removed]: ...
    def retain(self, before: int, keep: Collection[str]) -> Iterator[Removed]: ...
    def newest(self, session_id: str) -> int: ...
    def sessions(self, *, at_work: bool) -> list[str]: ...
    def snapshot(self, session_id: str) -> Snapshot | None: ...
    def holder(self, conversation: str) -> str | None: ...
    def owned(self, names: Collection[str]) -> set[str]: ...
    def near(self, session_id: str, most: int) -> list[str]: ...
    def resting(
        self, which: SessionFilter, limit: int, besides: Collection[str]
    ) -> RestingPage: ...

    def touched(
        self,
        after: int,
        upto: int,
        newer: Sequence[Event] | None,
        most: int,
        besides: Collection[str],
    ) -> Touched | None: ...

    def questions(
        self, session_id: str | None, state: str | None, limit: int | None, before: str | None
    ) -> list[Question]: ...

    def question(self, question_id: str) -> Question | None: ...
    def key(self, key: str) -> KeyRow | None: ...

    def run(self, run: str) -> RunRow: ...
    def backup(self, path: Path) -> None: ...
    def close(self) -> None: ...


class _Asking(Protocol):
    def __call__(
        self, read: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...


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

    def whole(self, after: int) -> list[Event]:
        """Every entry after a cursor that is covered, but pieces of messages."""
        return list(_chosen(self._newer(after), None, partials=False))

    def _newer(self, after: int) -> list[Event | None]:
        return self._entries[max(after + 1 - self._first, 0) :]

    def read(self, after: int, session_id: str | None, limit: int, *, partials: bool) -> Batch:
        """What a journal's `read` promises, for a cursor that is covered."""
        found, full = _fitting(_chosen(self._newer(after), session_id, partials), limit)
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


class JournalSums:
    """Implements `contract.Sums`."""

    def __init__(self, sums: StoredSums, ask: _Asking) -> None:
        self._sums = sums
        self._ask = ask

    async def costs(
        self,
        by: CostGroup,
        *,
        session_id: str | None = None,
        since: int | None = None,
        day: str | None = None,
    ) -> list[CostLine]:
        """Sums; a turn's group is its session and the number of the entry that ended it."""
        return await self._ask(self._sums.costs, by, session_id, since, day)

    async def activity(self, since: int, until: int) -> Activity:
        """What happened between two moments, added up by day and by rule."""
        return await self._ask(self._sums.activity, since, until)


class StoredJournal:
    """Implements `Journal`, on the event loop that made it."""

    def __init__(self, store: Store, last: int) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._next = last + 1
        self._newest: dict[str, int] = {}
        """The newest entry of each session that is in the tail, and of some others."""
        self._tail = Tail(last)
        self._waiters = Waiters()
        self._failed: JournalError | None = None
        self._broken = asyncio.Event()
        self._closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._reader = ThreadPoolExecutor(1, "journal-reader")
        self._adder = ThreadPoolExecutor(1, "journal-adder")
        self.sums = JournalSums(store.sums, self._ask_apart)
        self._writer = Writer(
            store.append, Ears(self._on_committed, self._on_removed, self._on_ended)
        )
        self._writer.start()

    @property
    def last(self) -> int:
        """The number of the newest committed entry."""
        return self._tail.last

    @property
    def next(self) -> int:
        """The number the next draft will get."""
        return self._next

    @property
    def failed(self) -> BaseException | None:
        """Why nothing can be written any more, if so."""
        return self._failed

    async def broken(self) -> None:
        """Return once nothing can be written any more."""
        await self._broken.wait()

    # Writing

    def post(self, drafts: Sequence[Draft], changes: Changes | None = None) -> Posted:
        """Number the entries and hand them to the writer. Raises once the journal has failed."""
        self._check()
        first = self._next
        events = [
            Event(seq, draft.session_id, draft.kind, draft.at, Raw(draft.body))
            if draft.told is None
            else Event(seq, draft.session_id, draft.kind, draft.at, Raw(draft.told), draft.body)
            for seq, draft in enumerate(drafts, first)
        ]
        if not _KINDS.issuperset([draft.kind for draft in drafts]):
            raise JournalError(f"no such kind of entry: { ({d.kind for d in drafts} - _KINDS) }")
        self._next += len(events)
        committed: asyncio.Future[None] = self._loop.create_future()
        size = sum([len(draft.body) for draft in drafts])
        self._writer.put(Post(events, size, changes, committed))
        return Posted(first, self._next - 1, committed)

    async def prune_partials(self, session_id: str, first: int, last: int) -> int:
        """Remove the pieces of an ended turn between two entries; how many there were."""
        return await self._do(self._store.prune(session_id, first, last))

    async def retain(self, *, before: int, keep: Collection[str] = ()) -> int:
        """Remove entries older than this moment, of sessions at rest since; how many.

        Sessions with an open question, and those in `keep`, are left alone.
        """
        return await self._do(self._store.retain(before, frozenset(keep)))

    async def _do(self, steps: Iterator[Removed]) -> int:
        self._check()
        done: asyncio.Future[int] = self._loop.create_future()
        self._writer.put(Job(steps, done))
        return await done

    # Reading

    async def read(
        self,
        after: int,
        *,
        session_id: str | None = None,
        limit: int = 500,
        partials: bool = True,
    ) -> Batch:
        """Up to `limit` committed entries after the cursor, and the gaps among them.

        Large bodies make a batch short. A cursor this journal never gave is set back to the end;
        one that is posted and not committed yet, as a status may have it, stays as it is.
        """
        if after >= self._next:
            return _reset(after, self.last)
        if self._tail.covers(after):
            return self._tail.read(after, session_id, max(limit, 1), partials=partials)
        return await self._ask(
            self._store.page, after, self.last, session_id, max(limit, 1), partials=partials
        )

    async def read_back(
        self, before: int | None, *, session_id: str, limit: int = 500, partials: bool = False
    ) -> Batch:
        """The last `limit` entries before a cursor (None: the end), in order.

        The batch's cursor is where reading on from them begins.
        """
        upto = self.last if before is None else min(before - 1, self.last)
        return await self._ask(
            self._store.page_back, upto, session_id, max(limit, 1), partials=partials
        )

    async def lines_with(
        self, after: int, words: Sequence[bytes], *, session_id: str
    ) -> list[bytes]:
        """The CLI's lines after a cursor that have one of these words in them, in order."""
        return await self._ask(self._store.lines_with, after, session_id, words)

    async def wait(self, after: int, *, session_id: str | None = None) -> None:
        """Return once an entry after the cursor is committed, of this session or of any."""
        while await self._newest_of(session_id, after) <= after:
            self._check()
            await self._waiters.wait(session_id)

    async def _newest_of(self, session_id: str | None, after: int) -> int:
        """The newest entry of a session or of any, if it comes after this one."""
        if session_id is None:
            return self.last
        if session_id not in self._newest and not self._tail.covers(after):
            stored = await self._ask(self._store.newest, session_id)
            # Something may have been committed meanwhile.
            return max(stored, self._newest.get(session_id, 0))
        return self._newest.get(session_id, 0)

    async def sessions(self, *, at_work: bool = False, near: str | None = None) -> list[str]:
        """The ids of every session, of every one at work, or of some that begin like one."""
        if near is not None:
            return await self._ask(self._store.near, near, MOST_NEAR)
        return await self._ask(self._store.sessions, at_work=at_work)

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """A session's newest snapshot (`upto` 0 and no body: none was taken); None: no session."""
        return await self._ask(self._store.snapshot, session_id)

    async def holder(self, conversation: str) -> str | None:
        """Return the session whose row has this conversation."""
        return await self._ask(self._store.holder, conversation)

    async def owned(self, names: Collection[str]) -> set[str]:
        """Return those names that are a session's or a conversation's in the rows."""
        found: set[str] = set()
        # In parts, so that others who read need not wait for all of it.
        every = list(names)
        for first in range(0, len(every), MOST_NAMES):
            found |= await self._ask(self._store.owned, every[first : first + MOST_NAMES])
        return found

    async def resting(
        self,
        which: SessionFilter = EVERY_SESSION,
        *,
        limit: int = 0,
        besides: Collection[str] = (),
    ) -> RestingPage:
        """The newest sessions, as their rows were when they last came to rest."""
        return await self._ask(self._store.resting, which, limit, besides)

    async def touched(
        self, after: int, *, most: int, besides: Collection[str] = ()
    ) -> Touched | None:
        """Which sessions changed after a cursor; None: list them all instead."""
        if after >= self._next:
            return None
        newer = self._tail.whole(after) if self._tail.covers(after) else None
        cursor = max(after, self.last)
        if newer is not None and not any(event.kind in OF_QUESTIONS for event in newer):
            names = {event.session_id for event in newer}
            if len(names) <= most and names.issubset(besides):
                # Nearly always: those who work are in their engine's memory.
                return Touched(cursor=cursor, sessions=sorted(names), summaries={}, questions=[])
        return await self._ask(self._store.touched, after, cursor, newer, most, set(besides))

    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: QuestionState | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Question]:
        """Questions in the order they were asked; with a limit, the last of them."""
        return await self._ask(self._store.questions, session_id, state, limit, before)

    async def question(self, question_id: str) -> Question | None:
        """The question with this id."""
        return await self._ask(self._store.question, question_id)

    async def key(self, key: str) -> KeyRow | None:
        """Return the row of an idempotency key. Of two rows for one key the first counts."""
        return await self._ask(self._store.key, key)

    async def run(self, run: str) -> RunRow:
        """How far a run has come; of one that is unknown, nothing."""
        return await self._ask(self._store.run, run)

    async def backup(self, path: Path) -> None:
        """A consistent copy, while the journal is in use. The file must not exist yet."""
        self._check_open()
        await asyncio.to_thread(self._store.backup, path)

    async def _ask(self, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await self._on(self._reader, read, *args, **named)

    async def _ask_apart(self, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Ask for what takes long, which the other readers do not wait for."""
        return await self._on(self._adder, read, *args, **named)

    async def _on(
        self,
        threads: ThreadPoolExecutor,
        read: Callable[P, T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        self._check_open()
        try:
            return await self._loop.run_in_executor(threads, lambda: read(*args, **named))
        except self._store.damage as error:
            self._fail(error, "read")
            raise JournalError(f"{self._store.name} cannot be read: {error}") from error

    # What the writer reports

    def _on_committed(self, posts: Sequence[Post]) -> None:
        touched: dict[str, int] = {}
        for post in posts:
            self._tail.extend(post.events, post.size)
            touched.update({event.session_id: event.seq for event in post.events})
            if not post.committed.done():
                post.committed.set_result(None)
        self._tail.trim()
        self._newest.update(touched)
        if len(self._newest) > MOST_NEWEST:
            self._newest = {
                name: seq for name, seq in self._newest.items() if self._tail.covers(seq - 1)
            }
        if touched:
            self._waiters.wake(touched)

    def _on_removed(self, removed: Removed) -> None:
        self._tail.remove(*removed)

    def _on_ended(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error, "written")
        for item in self._writer.left_over():
            _give_up(item.committed if isinstance(item, Post) else item.done, self._refusal())
        if not self._ended.done():
            self._ended.set_result(None)

    # Ending

    def _fail(self, error: Exception, what: str) -> None:
        if self._failed is None:
            self._failed = JournalError(
                f"{self._store.name} cannot be {what}: {error}; "
                "see to its disk, then start the server again"
            )
            self._failed.__cause__ = error
            self._broken.set()
            self._waiters.fail(self._refusal())

    def _refusal(self) -> JournalError:
        # A fresh one each time: one that is raised in many places collects all their tracebacks.
        return JournalError(str(self._failed or f"{self._store.name} is closed"))

    def _check_open(self) -> None:
        if self._closed:
            raise self._refusal()

    def _check(self) -> None:
        if self._closed or self._failed is not None:
            raise self._refusal() from self._failed

    async def aclose(self) -> None:
        """Commit what was posted, and close. Removals that have not ended are given up."""
        if self._closed:
            await self._ended
            return
        self._closed = True
        self._writer.stop()
        await self._ended
        self._waiters.fail(self._refusal())
        await asyncio.to_thread(self._close_files)

    def _close_files(self) -> None:
        self._reader.shutdown()
        self._adder.shutdown()
        self._store.close()


def _reset(after: int, last: int) -> Batch:
    gap = Gap(first=last + 1, last=after, count=0, reason="reset")
    return Batch(events=[], cursor=last, gaps=[gap])


def _give_up(future: asyncio.Future[Any], error: JournalError) -> None:
    if not future.done():
        future.set_exception(error)
        # Looked at here, since most posts are awaited by nobody; `failed` has the reason for all.
        future.exception()
