"""Who follows by cursor sees each entry once or is told of the gap, whatever is removed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.events import Gap
from pilothouse.api.records import PARTIAL
from pilothouse.journal.contract import Draft
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.journal.stored import Tail
from tests.support.waiting import DEADLINE

SESSIONS = ("a", "b", "c")
HOWS = [(None, True), (None, False), ("a", True), ("b", False)]

steps = st.one_of(
    st.tuples(
        st.just("post"),
        st.lists(
            st.tuples(st.sampled_from(SESSIONS), st.sampled_from(["cli", PARTIAL])), max_size=8
        ),
    ),
    st.tuples(st.just("wait"), st.none()),
    st.tuples(st.just("prune"), st.tuples(st.sampled_from(SESSIONS), st.integers(1, 40))),
    st.tuples(st.just("retain"), st.integers(0, 30)),
    st.tuples(st.just("forget"), st.integers(0, 10)),
    st.tuples(st.just("open again"), st.none()),
    st.tuples(st.just("read"), st.tuples(st.integers(0, len(HOWS) - 1), st.integers(1, 9))),
)


class Follower:
    """Reads by cursor, and holds what it saw against what was posted."""

    def __init__(self, session_id: str | None, partials: bool) -> None:
        self.session_id = session_id
        self.partials = partials
        self.cursor = 0
        self.seen: list[int] = []
        self.gaps: list[Gap] = []

    async def read(self, journal: SqliteJournal, limit: int) -> None:
        last = journal.last
        batch = await journal.read(
            self.cursor, session_id=self.session_id, limit=limit, partials=self.partials
        )
        seqs = [event.seq for event in batch.events]
        assert self.cursor <= batch.cursor <= max(self.cursor, journal.last)
        assert all(self.cursor < seq <= batch.cursor for seq in seqs)
        assert all(gap.last > self.cursor and gap.first <= batch.cursor for gap in batch.gaps)
        assert len(seqs) <= limit
        if len(seqs) < limit:
            assert batch.cursor >= last
        self.seen += seqs
        self.gaps += batch.gaps
        self.cursor = batch.cursor

    def check(self, posted: dict[int, Draft]) -> None:
        assert self.seen == sorted(set(self.seen))
        for seq, draft in posted.items():
            others = self.session_id not in (None, draft.session_id)
            if others or (draft.kind == PARTIAL and not self.partials):
                assert seq not in self.seen
            elif seq <= self.cursor and seq not in self.seen:
                assert any(gap.first <= seq <= gap.last for gap in self.gaps), seq


class Run:
    """One journal and all who follow it."""

    def __init__(self, journal: SqliteJournal, path: Path) -> None:
        self.journal = journal
        self.path = path
        self.posted: dict[int, Draft] = {}
        self.followers = [Follower(*how) for how in HOWS]

    async def step(self, name: str, given: Any) -> None:
        match name:
            case "post":
                self.post([Draft(s, kind, len(self.posted), b"1") for s, kind in given])
            case "wait":
                await self.journal.post([]).committed
            case "prune":
                await self.journal.prune_partials(given[0], 1, given[1])
            case "retain":
                await self.journal.retain(before=given)
            case "forget":
                await self.journal.post([]).committed
                self.journal._tail._max_entries = given
                self.journal._tail.trim()
            case "open again":
                await self.journal.aclose()
                self.journal = await SqliteJournal.open(self.path)
            case _:
                await self.followers[given[0]].read(self.journal, given[1])

    def post(self, drafts: list[Draft]) -> None:
        first, last, _ = self.journal.post(drafts)
        assert last - first + 1 == len(drafts)
        assert first > max(self.posted, default=0)
        self.posted |= dict(zip(range(first, last + 1), drafts, strict=True))

    async def finish(self) -> None:
        await self.journal.post([]).committed
        for follower in self.followers:
            while follower.cursor < self.journal.last:
                await follower.read(self.journal, 7)
            follower.check(self.posted)
        await self.agree()

    async def agree(self) -> None:
        """What is read from memory is what is read from disk."""
        journal, whole = self.journal, self.journal._tail
        for after in range(journal.last + 1):
            for session_id, partials in HOWS:
                journal._tail = whole
                memory = await journal.read(after, session_id=session_id, partials=partials)
                journal._tail = Tail(journal.last)
                disk = await journal.read(after, session_id=session_id, partials=partials)
                assert memory == disk
        journal._tail = whole


@given(st.lists(steps, max_size=40))
def test_each_entry_is_seen_once_or_in_a_gap(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.db"
            run = Run(await SqliteJournal.open(path), path)
            try:
                async with asyncio.timeout(DEADLINE):
                    for name, given in steps:
                        await run.step(name, given)
                    await run.finish()
            finally:
                await run.journal.aclose()

    asyncio.run(run())
