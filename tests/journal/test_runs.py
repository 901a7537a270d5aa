"""How far a run has come and what is kept for it, in the transaction of the entries beside it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.codec import encode_strictly
from pilothouse.errors import JournalError
from pilothouse.journal import database, schema, writer
from pilothouse.journal.contract import (
    Changes,
    KeyRow,
    ReceivedRow,
    RunRow,
    SendingRow,
    Snapshot,
    TakenRow,
)
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.relay.door_frames import FrameKind
from tests.support.journal.drafts import drafts, keep, question, seqs


def sending(number: int, ref: str = "", run: str = "run", session_id: str = "one") -> SendingRow:
    return SendingRow(session_id, run, number, FrameKind.LINES, ref, b"line %d\n" % number)


async def kept(journal: SqliteJournal, **changes: object) -> None:
    """Post changes alone, and wait for the disk."""
    await journal.post([], Changes(**changes)).committed  # type: ignore[arg-type]


async def under_way(journal: SqliteJournal) -> RunRow:
    """A run with lines both ways, of which the CLI has the first two; what is to be read of it."""
    rows = [sending(1, "a"), sending(2), sending(3, "b"), sending(4, "c, d")]
    await journal.post(
        drafts(2), Changes(received=[ReceivedRow("one", "run", 7)], sending=rows)
    ).committed
    await kept(journal, taken=[TakenRow("run", 2)])
    return RunRow(7, 4, tuple(rows[2:]), frozenset({"a", "b", "c, d"}))


def counted(journal: SqliteJournal) -> tuple[int, int]:
    """Rows of runs and of what is sent to them."""
    db = journal._store._db  # type: ignore[attr-defined]
    return tuple(schema.scalar(db, f"SELECT count(*) FROM {t}") for t in ("runs", "sendings"))  # type: ignore[return-value]


def held(journal: SqliteJournal) -> tuple[asyncio.Event, asyncio.Event]:
    """The writer waits within its first commit: an event when it does, and one to let it go on."""
    append, loop = journal._store.append, asyncio.get_running_loop()
    started, go_on = asyncio.Event(), asyncio.Event()

    def watched(posts: list[writer.Post]) -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        append(posts)

    journal._writer._commit = watched  # type: ignore[assignment]
    return started, go_on


async def test_of_an_unknown_run_there_is_nothing(either: SqliteJournal) -> None:
    await under_way(either)
    assert await either.run("other") == RunRow()


async def test_a_run_is_read_as_it_was_posted(either: SqliteJournal) -> None:
    expected = await under_way(either)
    assert await either.run("run") == expected


async def test_what_is_received_replaces_what_was(either: SqliteJournal) -> None:
    for upto in (3, 9):
        await kept(either, received=[ReceivedRow("one", "run", upto)])
        assert await either.run("run") == RunRow(received=upto)


async def test_the_last_of_several_rows_in_one_post_counts(either: SqliteJournal) -> None:
    await kept(either, received=[ReceivedRow("one", "run", n) for n in (1, 2, 5)])
    assert (await either.run("run")).received == 5


async def test_what_is_sent_first_leaves_what_was_received_alone(either: SqliteJournal) -> None:
    await kept(either, sending=[sending(1)])
    assert (await either.run("run")).received == 0
    await kept(either, received=[ReceivedRow("one", "run", 4)])
    await kept(either, sending=[sending(2)])
    assert await either.run("run") == RunRow(4, 2, (sending(1), sending(2)))


async def test_runs_do_not_touch_each_other(either: SqliteJournal) -> None:
    await kept(
        either,
        received=[ReceivedRow("one", "a", 1), ReceivedRow("two", "b", 2)],
        sending=[sending(1, "x", "a"), sending(1, "y", "b", "two"), sending(2, "z", "a")],
        taken=[TakenRow("a", 1)],
    )
    assert await either.run("a") == RunRow(1, 2, (sending(2, "z", "a"),), frozenset({"x", "z"}))
    assert await either.run("b") == RunRow(2, 1, (sending(1, "y", "b", "two"),), frozenset({"y"}))


async def test_bodies_that_were_taken_are_gone_and_their_refs_stay(
    journal: SqliteJournal, path: Path
) -> None:
    await under_way(journal)
    await kept(journal, taken=[TakenRow("run", 4), TakenRow("run", 1)])
    assert await journal.run("run") == RunRow(7, 4, (), frozenset({"a", "b", "c, d"}))
    with closing(sqlite3.connect(path)) as other:
        left = other.execute("SELECT number, ref, body FROM sendings ORDER BY number").fetchall()
    assert left == [(1, "a", None), (2, "", None), (3, "b", None), (4, "c, d", None)]


async def test_an_empty_body_is_kept_until_it_is_taken(either: SqliteJournal) -> None:
    order = sending(1)._replace(kind=FrameKind.ORDER, body=b"")
    await kept(either, sending=[order])
    assert (await either.run("run")).untaken == (order,)
    await kept(either, taken=[TakenRow("run", 1)])
    assert await either.run("run") == RunRow(sent=1)


async def test_bodies_and_refs_come_back_whatever_is_in_them(either: SqliteJournal) -> None:
    row = sending(1, 'x,y\n"\u00e9\u2028;')._replace(body=b"\x00\xff\r\n" * 50_000)
    await kept(either, sending=[row])
    assert await either.run("run") == RunRow(0, 1, (row,), frozenset({row.ref}))


async def test_taking_from_a_run_that_is_unknown_makes_none(either: SqliteJournal) -> None:
    await kept(either, taken=[TakenRow("run", 3)], ended_runs=["other"])
    assert counted(either) == (0, 0)


async def test_rows_of_runs_make_no_session(either: SqliteJournal) -> None:
    await kept(either, received=[ReceivedRow("new", "run", 1)])
    assert await either.sessions() == []


async def test_a_run_is_not_read_before_it_is_committed(journal: SqliteJournal) -> None:
    started, go_on = held(journal)
    posted = journal.post(drafts(1), Changes(sending=[sending(1)]))
    await started.wait()
    assert await journal.run("run") == RunRow()
    go_on.set()
    await posted.committed
    assert (await journal.run("run")).untaken == (sending(1),)


async def test_thousands_of_runs_in_one_group_are_all_written(journal: SqliteJournal) -> None:
    started, go_on = held(journal)
    journal.post(drafts(1))
    await started.wait()
    for n in range(1, 6001):
        journal.post([], Changes(received=[ReceivedRow("one", f"r{n % 2500}", n)]))
    go_on.set()
    await journal.post([]).committed
    db = journal._store._db  # type: ignore[attr-defined]
    found = dict(db.execute("SELECT id, received FROM runs"))
    assert found == {f"r{n % 2500}": n for n in range(3501, 6001)}


async def test_what_is_kept_of_a_run_is_found_by_an_index(journal: SqliteJournal) -> None:
    asked: list[str] = []
    connections = (journal._store._db, journal._store._reading)  # type: ignore[attr-defined]
    for each in connections:
        each.set_trace_callback(asked.append)
    await under_way(journal)
    await journal.run("run")
    await kept(journal, ended_runs=["run"])
    for each in connections:
        each.set_trace_callback(None)
    touching = {each for each in asked if "sendings" in each or "runs" in each}
    assert {each.split()[0] for each in touching} == {"INSERT", "UPDATE", "SELECT", "DELETE"}
    for statement in touching:
        rows = connections[1].execute(f"EXPLAIN QUERY PLAN {statement}")
        plan = " ".join(row[3] for row in rows)
        assert "SCAN" not in plan, statement
        assert ("sendings_untaken" in plan) == ("body IS NOT NULL" in statement), plan


# Ends


async def test_nothing_is_left_of_an_ended_run_but_its_entries(either: SqliteJournal) -> None:
    await under_way(either)
    await kept(either, sending=[sending(1, run="other")])
    last = Changes(
        received=[ReceivedRow("one", "run", 8)], sending=[sending(5)], ended_runs=["run"]
    )
    await either.post(drafts(1), last).committed
    assert await either.run("run") == RunRow()
    assert counted(either) == (1, 1)
    assert seqs(await either.read(0)) == [1, 2, 3]


async def test_a_session_that_is_removed_takes_its_runs_along(either: SqliteJournal) -> None:
    await keep(either, drafts(3, "old", at=10), drafts(3, "kept", at=10), drafts(1, "awake"))
    for name in ("old", "kept", "awake"):
        await kept(
            either,
            received=[ReceivedRow(name, f"{name} 1", 1), ReceivedRow(name, f"{name} 2", 2)],
            sending=[sending(1, run=f"{name} 1", session_id=name)],
        )
    assert await either.retain(before=100, keep=["kept"]) == 3
    assert await either.run("old 1") == await either.run("old 2") == RunRow()
    assert counted(either) == (4, 2)
    for name in ("kept", "awake"):
        assert (await either.run(f"{name} 1")).untaken
        assert (await either.run(f"{name} 2")).received == 2


async def test_a_session_of_which_entries_are_left_keeps_its_runs(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHUNK", 10)
    await keep(journal, drafts(3000, at=10))
    expected = (sending(1),)
    await kept(journal, sending=expected)
    stepped, tell = asyncio.Event(), journal._writer._ears.removed

    def on_removed(removed: writer.Removed) -> None:
        stepped.set()
        tell(removed)

    journal._writer._ears = journal._writer._ears._replace(removed=on_removed)
    retaining = asyncio.ensure_future(journal.retain(before=100))
    await stepped.wait()
    await keep(journal, drafts(1, at=1000))
    assert 0 < await retaining < 3000
    assert (await journal.run("run")).untaken == expected


# In one transaction with the entries


async def test_a_post_that_fails_leaves_neither_its_entries_nor_its_rows(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    expected = await under_way(journal)
    rows = Changes(
        received=[ReceivedRow("one", "run", 9)],
        sending=[sending(5, "e"), sending(1, "twice")],
        taken=[TakenRow("run", 4)],
    )
    posted = journal.post(drafts(3), rows)
    with pytest.raises(JournalError, match="UNIQUE"):
        await posted.committed
    assert journal.failed is not None
    assert await journal.run("run") == expected
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    assert await journal.run("run") == expected
    assert seqs(await journal.read(0)) == [1, 2]
    await journal.aclose()


async def test_entries_that_fail_take_the_rows_beside_them_along(journal: SqliteJournal) -> None:
    expected = await under_way(journal)
    wrong = drafts(1, at=1 << 70)
    rows = Changes(received=[ReceivedRow("one", "run", 9)], ended_runs=["run"])
    with pytest.raises(JournalError):
        await journal.post(wrong, rows).committed
    assert await journal.run("run") == expected


# Files


async def test_all_is_there_after_opening_again(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    expected = await under_way(journal)
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    assert await journal.run("run") == expected
    await kept(journal, sending=[sending(5)], taken=[TakenRow("run", 4)])
    assert await journal.run("run") == expected._replace(sent=5, untaken=(sending(5),))
    await journal.aclose()


async def test_what_was_committed_is_in_the_files_a_crash_leaves(
    journal: SqliteJournal, path: Path, tmp_path: Path
) -> None:
    expected = await under_way(journal)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for each in (path, path.with_name("journal.db-wal")):
        shutil.copy(each, crashed)
    copy = await SqliteJournal.open(crashed / "journal.db")
    assert copy.set_aside is None
    assert await copy.run("run") == expected
    assert seqs(await copy.read(0)) == [1, 2]
    await copy.aclose()


async def test_a_backup_has_the_runs(either: SqliteJournal, tmp_path: Path) -> None:
    expected = await under_way(either)
    await either.backup(tmp_path / "copy.db")
    copy = await SqliteJournal.open(tmp_path / "copy.db")
    assert await copy.run("run") == expected
    await copy.aclose()


def make_version_1(path: Path) -> None:
    """A file as the first version left it, with something in every table."""
    # The writer of that version, which knew of fewer tables and columns.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        patch.setattr(database, "write_runs", lambda *_: None)
        asyncio.run(_fill(path))
    rows = {
        "questions": (1, "q", 1, "open", 1, encode_strictly(question("q"))),
        "costs": (3, 1, "/p", 1, "2026-01-01", 2.0, 1, 2, 3, 4),
        "keys": ("k", b"d", b"r", 1),
        "snapshots": (1, 2, b"view"),
    }
    with closing(sqlite3.connect(path)) as db, db:
        for table, values in rows.items():
            places = ", ".join("?" * len(values))
            db.execute(f"INSERT INTO {table} VALUES ({places})", values)


async def _fill(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.post(drafts(3)).committed
    await keep(journal, drafts(2, kind="partial"))
    await journal.prune_partials("one", 1, 9)
    await journal.aclose()


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return schema.scalar(db, "PRAGMA user_version")


async def test_a_file_of_the_first_version_keeps_everything_and_takes_runs(path: Path) -> None:
    await asyncio.to_thread(make_version_1, path)
    assert version(path) == 1
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    batch = await journal.read(0)
    assert (seqs(batch), [gap.count for gap in batch.gaps], journal.last) == ([1, 2, 3], [2], 5)
    assert await journal.questions() == [question("q")]
    assert [(line.group, line.usd) for line in await journal.sums.costs("turn")] == [("one/3", 2.0)]
    assert await journal.key("k") == KeyRow(key="k", digest=b"d", result=b"r")
    assert await journal.sessions() == ["one"]
    assert await journal.snapshot("one") == Snapshot(session_id="one", upto=2, body=b"view")
    assert await journal.run("run") == RunRow()
    expected = await under_way(journal)
    await journal.aclose()
    assert version(path) == len(schema.MIGRATIONS)
    journal = await SqliteJournal.open(path)
    assert await journal.run("run") == expected
    assert seqs(await journal.read(0)) == [1, 2, 3, 6, 7]
    await journal.aclose()


# Any order of changes, however it is cut into groups


RUNS = ("a", "b")
numbers = st.integers(1, 6)
steps = st.lists(
    st.tuples(
        st.sampled_from(["received", "sending", "taken", "ended"]), st.sampled_from(RUNS), numbers
    ),
    max_size=30,
)


class Model:
    """What is kept, as the contract has it."""

    def __init__(self) -> None:
        self.received: dict[str, int] = dict.fromkeys(RUNS, 0)
        self.sent: dict[str, list[SendingRow]] = {run: [] for run in RUNS}
        self.taken: dict[str, int] = dict.fromkeys(RUNS, 0)

    def make(self, what: str, run: str, number: int) -> Changes:
        """A change that may happen next."""
        match what:
            case "received":
                self.received[run] = number
                return Changes(received=[ReceivedRow("one", run, number)])
            case "sending":
                row = sending(len(self.sent[run]) + 1, "ref" * (number % 2), run)
                self.sent[run].append(row)
                return Changes(sending=[row])
            case "taken":
                upto = min(number, len(self.sent[run]))
                self.taken[run] = max(upto, self.taken[run])
                return Changes(taken=[TakenRow(run, upto)])
            case _:
                self.received[run], self.sent[run], self.taken[run] = 0, [], 0
                return Changes(ended_runs=[run])

    def row(self, run: str) -> RunRow:
        sent = self.sent[run]
        refs = frozenset(row.ref for row in sent if row.ref)
        return RunRow(self.received[run], len(sent), tuple(sent[self.taken[run] :]), refs)


@given(st.lists(steps, max_size=6))
def test_the_outcome_does_not_depend_on_how_changes_are_grouped(
    groups: list[list[tuple[str, str, int]]],
) -> None:
    store, model = database.prepared(None, check=False), Model()
    loop = asyncio.new_event_loop()
    with closing(store), closing(loop):
        for group in groups:
            changes = [model.make(*step) for step in group]
            store.append([writer.Post([], 0, each, loop.create_future()) for each in changes])
            assert [store.run(run) for run in RUNS] == [model.row(run) for run in RUNS]
