"""Reading by cursor, waiting, and what is told of entries that were removed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pilothouse.api.events import Gap
from pilothouse.errors import JournalError
from pilothouse.journal import database, stored
from pilothouse.journal.contract import Changes, Draft, KeyRow, Snapshot
from pilothouse.journal.schema import scalar
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.journal.stored import Tail
from pilothouse.journal.writer import Removed
from tests.support.journal.drafts import drafts, keep, question, seqs


def forget(journal: SqliteJournal) -> None:
    """Leave nothing in memory, so that the store is read."""
    journal._tail = Tail(journal.last)


async def test_a_session_is_read_past_the_others_and_the_cursor_goes_to_the_end(
    either: SqliteJournal,
) -> None:
    await keep(either, drafts(2, "a"), drafts(2, "b"), drafts(1, "a"), drafts(3, "b"))
    for _ in range(2):
        batch = await either.read(0, session_id="a")
        assert (seqs(batch), batch.cursor, batch.gaps) == ([1, 2, 5], 8, [])
        batch = await either.read(0, session_id="a", limit=2)
        assert (seqs(batch), batch.cursor) == ([1, 2], 2)
        assert (await either.read(0, session_id="none")).cursor == 8
        forget(either)


async def test_partials_are_left_out_when_they_are_not_wanted(either: SqliteJournal) -> None:
    await keep(either, drafts(2), drafts(3, kind="partial"), drafts(1))
    for _ in range(2):
        assert seqs(await either.read(0, partials=False)) == [1, 2, 6]
        assert seqs(await either.read(0, session_id="one", partials=False)) == [1, 2, 6]
        assert seqs(await either.read_back(None, session_id="one", limit=2)) == [2, 6]
        forget(either)


@pytest.mark.parametrize("session_id", [None, "one", "none"])
async def test_a_cursor_beyond_the_end_is_told_once_and_set_back(
    either: SqliteJournal, session_id: str | None
) -> None:
    await keep(either, drafts(2))
    batch = await either.read(10, session_id=session_id)
    assert (seqs(batch), batch.cursor) == ([], 2)
    assert batch.gaps == [Gap(first=3, last=10, count=0, reason="reset")]
    batch = await either.read(batch.cursor, session_id=session_id)
    assert (seqs(batch), batch.cursor, batch.gaps) == ([], 2, [])


async def test_a_cursor_that_is_posted_and_not_committed_is_no_stranger(
    journal: SqliteJournal,
) -> None:
    await keep(journal, drafts(2))
    posted = journal.post(drafts(3))
    batch = await journal.read(4)
    assert (seqs(batch), batch.cursor, batch.gaps) == ([], 4, [])
    await posted.committed
    assert seqs(await journal.read(batch.cursor)) == [5]


async def test_who_read_a_journal_that_was_put_back_is_told(path: Path, tmp_path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(2))
    await journal.backup(tmp_path / "copy.db")
    cursor = await keep(journal, drafts(3))
    await journal.aclose()
    journal = await SqliteJournal.open(tmp_path / "copy.db")
    batch = await journal.read(cursor)
    assert ([gap.reason for gap in batch.gaps], batch.cursor) == (["reset"], 2)
    await keep(journal, drafts(1))
    assert seqs(await journal.read(batch.cursor)) == [3]
    await journal.aclose()


async def test_reading_back_gives_the_last_ones_in_order(either: SqliteJournal) -> None:
    await keep(either, drafts(5, "a"), drafts(5, "b"), drafts(5, "a"))
    batch = await either.read_back(None, session_id="a", limit=6)
    assert (seqs(batch), batch.cursor) == ([5, 11, 12, 13, 14, 15], 15)
    batch = await either.read_back(5, session_id="a", limit=6)
    assert (seqs(batch), batch.cursor) == ([1, 2, 3, 4], 4)
    assert seqs(await either.read_back(1, session_id="a")) == []


async def test_large_bodies_make_a_batch_short(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MAX_BATCH_BYTES", 2500)
    monkeypatch.setattr(stored, "MAX_BATCH_BYTES", 2500)
    await keep(journal, [Draft("s", "cli", 0, b"%01000d" % n) for n in range(5)])
    await keep(journal, [Draft("s", "cli", 0, b"%05000d" % 0)], drafts(1))
    for _ in range(2):
        cursor, pages = 0, list[list[int]]()
        while cursor < journal.last:
            batch = await journal.read(cursor)
            cursor = batch.cursor
            pages.append(seqs(batch))
        assert pages == [[1, 2], [3, 4], [5], [6], [7]]
        forget(journal)


async def test_a_watcher_that_is_stuck_holds_one_small_batch(either: SqliteJournal) -> None:
    body = b'"%b"' % (b"x" * 10_000)
    await keep(either, [Draft("s", "cli", 0, body) for _ in range(500)])
    for _ in range(2):
        batch = await either.read(0, session_id="s", limit=1000)
        assert 0 < sum(len(event.body) for event in batch.events) <= 256 * 1024
        assert batch.cursor == batch.events[-1].seq
        forget(either)


async def test_reading_back_is_not_cut_to_the_size_of_a_batch(journal: SqliteJournal) -> None:
    await keep(journal, [Draft("s", "cli", 0, b"%0100000d" % n) for n in range(5)])
    assert seqs(await journal.read_back(None, session_id="s")) == [1, 2, 3, 4, 5]


async def test_a_kind_of_a_newer_version_is_named_by_its_number(journal: SqliteJournal) -> None:
    await keep(journal, drafts(2))
    journal._store._db.execute("UPDATE events SET kind = 99 WHERE seq = 1")  # type: ignore[attr-defined]
    forget(journal)
    assert [e.kind for e in (await journal.read(0)).events] == ["unknown.99", "cli"]


# Waiting


async def test_waiting_ends_at_the_next_entry_of_that_session(either: SqliteJournal) -> None:
    await keep(either, drafts(1, "a"))
    one = asyncio.ensure_future(either.wait(1, session_id="a"))
    every = asyncio.ensure_future(either.wait(1))
    await keep(either, drafts(1, "b"))
    await every
    assert not one.done()
    await keep(either, drafts(1, "a"))
    await one


async def test_waiting_for_what_is_there_returns_at_once(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(2, "a"), drafts(2, "b"))
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    await journal.wait(3)
    await journal.wait(1, session_id="a")
    waiting = asyncio.ensure_future(journal.wait(2, session_id="a"))
    await keep(journal, drafts(1, "b"))
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert journal._waiters._waiting == {}
    await journal.aclose()


async def test_two_hundred_sessions_reach_every_watcher_once(journal: SqliteJournal) -> None:
    total = 4000

    async def watch(session_id: str | None, count: int) -> list[int]:
        cursor, seen = 0, list[int]()
        while len(seen) < count:
            await journal.wait(cursor, session_id=session_id)
            batch = await journal.read(cursor, session_id=session_id)
            cursor = batch.cursor
            seen += seqs(batch)
        return seen

    watchers = [asyncio.ensure_future(watch(None, total)) for _ in range(2)]
    ones = [asyncio.ensure_future(watch(f"s{n}", total // 200)) for n in range(18)]
    for n in range(total):
        journal.post(drafts(1, f"s{n % 200}"))
        if n % 50 == 0:
            await asyncio.sleep(0)
    for seen in await asyncio.gather(*watchers):
        assert seen == list(range(1, total + 1))
    for n, seen in enumerate(await asyncio.gather(*ones)):
        assert seen == list(range(n + 1, total + 1, 200))


# Removing


def tell_of_steps(journal: SqliteJournal, order: list[str]) -> asyncio.Event:
    stepped = asyncio.Event()

    def on_removed(removed: Removed) -> None:
        order.append("step")
        stepped.set()
        journal._on_removed(removed)

    journal._writer._ears = journal._writer._ears._replace(removed=on_removed)
    return stepped


async def test_pruned_partials_leave_a_gap_in_memory_and_on_disk(either: SqliteJournal) -> None:
    await keep(either, drafts(1), drafts(3, kind="partial"), drafts(1), drafts(2, kind="partial"))
    await keep(either, drafts(2, "two", kind="partial"))
    assert await either.prune_partials("one", 1, 5) == 3
    assert await either.prune_partials("one", 1, 5) == 0
    assert await either.prune_partials("none", 1, 5) == 0
    gap = Gap(first=2, last=4, count=3, reason="partials")
    for _ in range(2):
        batch = await either.read(0)
        assert (seqs(batch), batch.gaps) == ([1, 5, 6, 7, 8, 9], [gap])
        assert (await either.read(3)).gaps == [gap]
        assert (await either.read(4)).gaps == []
        assert (await either.read(0, limit=1)).gaps == []
        assert (await either.read(0, session_id="two")).gaps == []
        assert (await either.read(0, partials=False)).gaps == []
        forget(either)
        back = await either.read_back(None, session_id="one", partials=True)
        assert back.gaps == [gap]
        either._tail.remove("one", [], [gap])


async def test_a_long_turn_is_pruned_in_steps_between_which_entries_are_committed(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHUNK", 10)
    await keep(journal, drafts(3000, kind="partial"))
    order: list[str] = []
    stepped = tell_of_steps(journal, order)
    pruning = asyncio.ensure_future(journal.prune_partials("one", 1, 3000))
    await stepped.wait()
    await keep(journal, drafts(1))
    order.append("committed")
    assert await pruning == 3000
    assert 0 < order.index("committed") < 300
    batch = await journal.read(0)
    assert seqs(batch) == [3001]
    assert sum(gap.count for gap in batch.gaps) == 3000


async def test_gaps_do_not_reach_over_a_block_and_are_found_from_anywhere_in_it(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BLOCK", 8)
    await keep(journal, drafts(30, kind="partial"))
    await journal.prune_partials("one", 3, 28)
    forget(journal)
    for after in range(30):
        gaps = (await journal.read(after)).gaps
        assert gaps == [g for g in gaps if g.last > after]
        assert sum(g.last - max(g.first, after + 1) + 1 for g in gaps) == max(0, 28 - max(after, 2))


async def test_a_number_is_not_used_twice_when_the_newest_entries_were_removed(
    path: Path,
) -> None:
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(2), drafts(3, kind="partial"))
    assert await journal.prune_partials("one", 1, 5) == 3
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    assert journal.last == 5
    batch = await journal.read(4)
    assert (seqs(batch), batch.cursor) == ([], 5)
    assert batch.gaps == [Gap(first=3, last=5, count=3, reason="partials")]
    assert await keep(journal, drafts(1)) == 6
    assert seqs(await journal.read(5)) == [6]
    await journal.aclose()


async def test_retention_removes_sessions_at_rest_and_keeps_the_others(
    either: SqliteJournal,
) -> None:
    await keep(either, drafts(3, "old", at=10), drafts(2, "kept", at=10))
    rows = Changes(
        questions=[question("q", "asking")],
        keys=[KeyRow(key="k", digest=b"", result=b"")],
        snapshots=[Snapshot(session_id="old", upto=3, body=b"v")],
    )
    await either.post(drafts(1, "asking", at=10), rows).committed
    await keep(either, drafts(1, "awake", at=10), drafts(1, "awake", at=1000))
    assert await either.retain(before=100, keep=["kept"]) == 3
    gap = Gap(first=1, last=3, count=3, reason="retention")
    for _ in range(2):
        batch = await either.read(0)
        assert (seqs(batch), batch.gaps) == ([4, 5, 6, 7, 8], [gap])
        batch = await either.read(0, session_id="old")
        assert (seqs(batch), batch.gaps, batch.cursor) == ([], [gap], 8)
        forget(either)
        either._tail.remove("old", [], [gap])
    assert await either.sessions() == ["kept", "asking", "awake"]
    assert await either.key("k") is not None
    assert await keep(either, drafts(1, "old", at=2000)) == 9
    assert (await either.sessions())[0] == "old"


async def test_retention_stops_at_a_session_that_wakes(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHUNK", 10)
    await keep(journal, drafts(3000, at=10))
    stepped = tell_of_steps(journal, [])
    retaining = asyncio.ensure_future(journal.retain(before=100))
    await stepped.wait()
    last = await keep(journal, drafts(1, at=1000))
    removed = await retaining
    assert 0 < removed < 3000
    assert seqs(await journal.read(0, limit=5000)) == list(range(removed + 1, last + 1))


@pytest.mark.parametrize("count", [9, 10, 11, 20])
async def test_retention_leaves_nothing_of_a_session_however_many_entries_it_has(
    either: SqliteJournal, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(database, "CHUNK", 10)
    rows = Changes(
        questions=[question("q", state="answered")],
        snapshots=[Snapshot(session_id="one", upto=count, body=b"v")],
    )
    await either.post(drafts(count, at=10), rows).committed
    assert await either.retain(before=100) == count
    assert await either.sessions() == []
    assert await either.questions() == []


async def test_the_file_shrinks_after_a_retention(journal: SqliteJournal) -> None:
    body = b"%010000d" % 0
    await keep(journal, [Draft("old", "cli", 10, body) for _ in range(300)], drafts(1))
    db = journal._store._db  # type: ignore[attr-defined]
    assert scalar(db, "PRAGMA page_count") > 600
    assert await journal.retain(before=100) == 300
    assert scalar(db, "PRAGMA freelist_count") == 0
    assert scalar(db, "PRAGMA page_count") < 60
    assert seqs(await journal.read(0)) == [301]


async def test_a_file_made_without_a_list_of_free_pages_is_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 0")
        db.execute("PRAGMA journal_mode = WAL")
    journal = await SqliteJournal.open(path)
    await keep(journal, [Draft("old", "cli", 10, b"%010000d" % 0) for _ in range(99)], drafts(1))
    assert await journal.retain(before=100) == 99
    assert scalar(journal._store._db, "PRAGMA freelist_count") > 0  # type: ignore[attr-defined]
    assert seqs(await journal.read(0)) == [100]
    await journal.aclose()


async def test_closing_gives_up_a_removal_and_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHUNK", 1)
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(1000, kind="partial"))
    pruning = asyncio.ensure_future(journal.prune_partials("one", 1, 1000))
    await asyncio.sleep(0)
    await journal.aclose()
    with pytest.raises(JournalError, match="closed"):
        await pruning


async def test_a_clis_lines_are_found_by_their_words(journal: SqliteJournal) -> None:
    lines = [
        Draft("one", "cli", 0, b'{"type":"control_request","n":1}'),
        Draft("one", "cli", 0, b'{"type":"assistant"}'),
        Draft("one", "partial", 0, b'{"type":"control_request","n":2}'),
        Draft("two", "cli", 0, b'{"type":"control_request","n":3}'),
        Draft("one", "cli", 0, b'{"subtype":"init"}'),
    ]
    await journal.post(lines).committed
    words = (b"control_", b'"init"')
    found = await journal.lines_with(0, words, session_id="one")
    assert found == [lines[0].body, lines[4].body]
    assert await journal.lines_with(1, words, session_id="one") == [lines[4].body]
    assert await journal.lines_with(0, words, session_id="three") == []
