"""What is posted is numbered at once, committed in groups, and only then told."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from pilothouse.api.events import Event
from pilothouse.api.statuses import Tokens
from pilothouse.errors import JournalError
from pilothouse.journal import writer
from pilothouse.journal.contract import Changes, CostRow, Draft, KeyRow, Snapshot
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep, question, read_all, seqs


def on_disk(path: Path, sql: str = "SELECT seq FROM events ORDER BY seq") -> list[int]:
    with closing(sqlite3.connect(path)) as other:
        return [row[0] for row in other.execute(sql)]


async def test_numbers_are_given_at_once_and_in_order(either: SqliteJournal) -> None:
    first = either.post(drafts(3))
    second = either.post(drafts(2, "two"))
    assert (first.first, first.last, second.first, second.last) == (1, 3, 4, 5)
    assert either.last == 0
    await second.committed
    assert first.committed.done()
    assert either.last == 5


async def test_every_post_is_there_once_in_order(either: SqliteJournal) -> None:
    posted = [either.post(drafts(1, f"s{n % 7}")) for n in range(3000)]
    await asyncio.gather(*(each.committed for each in posted))
    batch = await either.read(0, limit=5000)
    assert seqs(batch) == list(range(1, 3001))
    assert [e.session_id for e in batch.events] == [f"s{n % 7}" for n in range(3000)]


async def test_what_is_queued_is_one_transaction(journal: SqliteJournal) -> None:
    groups: list[int] = []
    append = journal._store.append
    started, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def watched(posts: list[writer.Post]) -> None:
        groups.append(len(posts))
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        append(posts)

    journal._writer._commit = watched  # type: ignore[assignment]
    journal.post(drafts(1))
    await started.wait()
    others = [journal.post(drafts(2)) for _ in range(50)]
    go_on.set()
    await others[-1].committed
    assert groups == [1, 50]


async def test_acknowledged_means_on_disk(journal: SqliteJournal, path: Path) -> None:
    for count in (1, 5, 1500):
        last = await keep(journal, drafts(count))
        assert on_disk(path) == list(range(1, last + 1))


async def test_nobody_reads_what_is_not_committed(journal: SqliteJournal) -> None:
    await keep(journal, drafts(2))
    posted = journal.post(drafts(3))
    assert seqs(await journal.read(0)) == [1, 2]
    assert seqs(await journal.read_back(None, session_id="one")) == [1, 2]
    await posted.committed
    assert seqs(await journal.read(0)) == [1, 2, 3, 4, 5]


async def test_an_entry_comes_back_as_it_was_posted(either: SqliteJournal) -> None:
    bodies = [b'{"a": [1,2 ]}', b'"\xc3\xa9"', b"x\x00y", b"\xff", b"0"]
    await keep(either, [Draft("s", "noise", n, body) for n, body in enumerate(bodies)])
    either._tail.__init__(either.last)  # nothing in memory: from the store
    for limit in (1, 2, 5):
        cursor, got = 0, list[Event]()
        while cursor < either.last:
            batch = await either.read(cursor, limit=limit)
            cursor = batch.cursor
            got += batch.events
        assert [(e.kind, e.at, bytes(e.body)) for e in got] == [
            ("noise", n, body) for n, body in enumerate(bodies)
        ]


async def test_a_kind_that_does_not_exist_is_refused_and_takes_no_number(
    journal: SqliteJournal,
) -> None:
    with pytest.raises(JournalError, match=r"no\.such"):
        journal.post([Draft("s", "no.such", 0, b"1")])
    assert journal.post(drafts(1)).first == 1


async def test_rows_are_written_with_their_entries(either: SqliteJournal) -> None:
    changes = Changes(
        questions=[question("q1"), question("q2", "two")],
        keys=[KeyRow(key="k", digest=b"d", result=b"r")],
        snapshots=[Snapshot(session_id="one", upto=1, body=b"view")],
    )
    await either.post(drafts(1), changes).committed
    assert await either.questions() == [question("q1"), question("q2", "two")]
    assert await either.key("k") == KeyRow(key="k", digest=b"d", result=b"r")
    assert await either.sessions() == ["one"]
    assert await either.snapshot("one") == Snapshot(session_id="one", upto=1, body=b"view")


async def test_a_post_may_carry_rows_alone(either: SqliteJournal) -> None:
    await keep(either, drafts(1))
    posted = either.post([], Changes(snapshots=[Snapshot(session_id="one", upto=1, body=b"v")]))
    await posted.committed
    assert (posted.first, posted.last, either.last) == (2, 1, 1)
    assert await either.sessions() == ["one"]
    assert await either.snapshot("one") == Snapshot(session_id="one", upto=1, body=b"v")


async def test_an_older_snapshot_does_not_replace_a_newer_one(journal: SqliteJournal) -> None:
    for upto in (5, 3):
        row = Snapshot(session_id="one", upto=upto, body=b"%d" % upto)
        await journal.post(drafts(1), Changes(snapshots=[row])).committed
    kept = await journal.snapshot("one")
    assert kept is not None
    assert (kept.upto, kept.body) == (5, b"5")


async def test_questions_keep_their_place_when_their_state_changes(either: SqliteJournal) -> None:
    for name in ("q1", "q2", "q3"):
        await either.post(drafts(1), Changes(questions=[question(name)])).committed
    await either.post(drafts(1), Changes(questions=[question("q1", state="answered")])).committed
    assert [q.id for q in await either.questions()] == ["q1", "q2", "q3"]
    assert [q.id for q in await either.questions(state="open")] == ["q2", "q3"]
    assert [q.id for q in await either.questions(limit=2)] == ["q2", "q3"]
    assert [q.id for q in await either.questions(session_id="none")] == []
    assert await either.question("q1") == question("q1", state="answered")
    assert await either.question("q9") is None


async def test_the_first_row_of_a_key_stays(journal: SqliteJournal) -> None:
    for result in (b"first", b"second"):
        row = KeyRow(key="k", digest=b"", result=result)
        await journal.post(drafts(1), Changes(keys=[row])).committed
    kept = await journal.key("k")
    assert kept is not None
    assert kept.result == b"first"
    assert await journal.key("other") is None


def cost(session_id: str, project: str, at: int, day: str, usd: float) -> CostRow:
    tokens = Tokens(input=1, output=2, cache_read=3, cache_write=4)
    return CostRow(session_id=session_id, project=project, at=at, day=day, usd=usd, tokens=tokens)


async def test_costs_are_summed_by_turn_session_project_and_day(either: SqliteJournal) -> None:
    rows = [
        cost("a", "/p", 1, "2026-01-01", 1.0),
        cost("a", "/p", 2, "2026-01-02", 2.0),
        cost("b", "/p", 3, "2026-01-02", 4.0),
        cost("c", "/q", 4, "2026-01-02", 8.0),
    ]
    for row in rows:
        await either.post(drafts(2, row.session_id), Changes(costs=[row])).committed

    async def sums(**given: object) -> dict[str, float]:
        return {line.group: line.usd for line in await either.sums.costs(**given)}  # type: ignore[arg-type]

    assert await sums(by="turn", session_id="a") == {"a/2": 1.0, "a/4": 2.0}
    assert await sums(by="session") == {"a": 3.0, "b": 4.0, "c": 8.0}
    assert await sums(by="project") == {"/p": 7.0, "/q": 8.0}
    assert await sums(by="day") == {"2026-01-01": 1.0, "2026-01-02": 14.0}
    assert await sums(by="day", day="2026-01-02", session_id="a") == {"2026-01-02": 2.0}
    assert await sums(by="session", since=3) == {"b": 4.0, "c": 8.0}
    (whole,) = await either.sums.costs("project", since=3, session_id="b")
    assert (whole.turns, whole.tokens) == (1, rows[0].tokens)


# Failing


async def test_a_full_disk_fails_every_post_and_acknowledges_none(
    journal: SqliteJournal, path: Path
) -> None:
    await keep(journal, drafts(10))
    waiting = asyncio.ensure_future(journal.wait(10, session_id="one"))
    pages = journal._store._db.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
    journal._store._db.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]
    big = [Draft("one", "cli", 0, b'"%s"' % (b"x" * 100_000))]
    posted = [journal.post(big), journal.post(drafts(1))]
    for each in posted:
        with pytest.raises(JournalError, match="full"):
            await each.committed
    with pytest.raises(JournalError, match="full"):
        await waiting
    with pytest.raises(JournalError, match="full"):
        journal.post(drafts(1))
    with pytest.raises(JournalError, match="full"):
        await journal.wait(10)
    with pytest.raises(JournalError, match="full"):
        await journal.prune_partials("one", 1, 10)
    assert "full" in str(journal.failed)
    assert str(path) in str(journal.failed)
    assert on_disk(path) == list(range(1, 11))
    assert seqs(await journal.read(0)) == list(range(1, 11))


LIMITED = """
import asyncio, resource, signal, sys
from pathlib import Path
from pilothouse.errors import JournalError
from pilothouse.journal.contract import Draft
from pilothouse.journal.sqlite import SqliteJournal

async def main(path):
    journal = await SqliteJournal.open(path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        while True:
            posted = journal.post([Draft("s", "cli", 0, b'"' + b"x" * 5000 + b'"')] * 10)
            await posted.committed
            print(posted.last, flush=True)
    except JournalError:
        print("refused" if journal.failed else "?", flush=True)
    await journal.aclose()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_what_was_acknowledged_before_the_disk_was_full_is_kept(path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", LIMITED, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    *acknowledged, last = done.stdout.split()
    assert last == "refused", done.stderr
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    assert journal.last >= int(acknowledged[-1]) > 0
    assert len((await read_all(journal)).events) == journal.last
    await journal.aclose()


async def test_an_error_nobody_thought_of_fails_the_journal_instead_of_hanging(
    journal: SqliteJournal,
) -> None:
    posted = journal.post([Draft("s", "cli", 1 << 70, b"1")])
    with pytest.raises(JournalError):
        await posted.committed
    assert journal.failed is not None


# Closing


async def test_closing_commits_what_was_posted(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    posted = [journal.post(drafts(10)) for _ in range(100)]
    await journal.aclose()
    assert all(each.committed.done() for each in posted)
    assert on_disk(path) == list(range(1, 1001))


async def test_a_closed_journal_refuses_and_lets_nobody_wait(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    waiting = asyncio.ensure_future(journal.wait(0))
    await asyncio.sleep(0)
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(JournalError, match="closed"):
        await waiting
    with pytest.raises(JournalError, match="closed"):
        journal.post(drafts(1))
    with pytest.raises(JournalError, match="closed"):
        await journal.sessions()
    assert journal.failed is None


async def test_numbers_go_on_after_opening_again(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(3))
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    assert journal.last == 3
    assert await keep(journal, drafts(1)) == 4
    assert seqs(await journal.read(0)) == [1, 2, 3, 4]
    await journal.aclose()


async def test_nothing_a_cli_counts_or_spells_stops_the_journal(journal: SqliteJournal) -> None:
    odd = replace(question("q"), title="half \ud800 a pair", input={"command": "\udfff"})
    tokens = Tokens(input=2**70, output=-1)
    cost = CostRow(session_id="one", project="", at=0, day="2026-01-31", usd=0.0, tokens=tokens)
    await journal.post(drafts(1), Changes(questions=[odd], costs=[cost])).committed
    kept = await journal.question("q")
    assert kept is not None
    assert (kept.title, kept.input) == ("half \ufffd a pair", {"command": "\ufffd"})
    assert journal.failed is None
