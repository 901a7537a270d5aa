"""How sessions are found by the rows that are written with their entries."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pilothouse.journal import database, schema, stored
from pilothouse.journal.contract import Changes, SessionFilter, SessionRow, Snapshot
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep, question, seqs


def resting(session_id: str, at: int, **members: Any) -> SessionRow:
    known: dict[str, Any] = {
        "conversation": session_id,
        "cwd": "/harbour",
        "state": "done",
        "summary": session_id.encode(),
    }
    return SessionRow(session_id=session_id, at_work=False, updated_at=at, **(known | members))


def at_work(session_id: str, conversation: str = "") -> SessionRow:
    return SessionRow(session_id=session_id, at_work=True, conversation=conversation or session_id)


async def note(journal: SqliteJournal, *rows: SessionRow) -> None:
    entries = [draft for row in rows for draft in drafts(1, row.session_id, at=row.updated_at)]
    await journal.post(entries, Changes(sessions=rows)).committed


async def test_a_session_is_at_work_until_its_row_says_that_it_rests(
    either: SqliteJournal,
) -> None:
    await keep(either, drafts(1, "one"), drafts(1, "two"))
    assert await either.sessions(at_work=True) == ["one", "two"]
    await note(either, resting("one", 5))
    assert await either.sessions(at_work=True) == ["two"]
    await note(either, at_work("one"))
    assert await either.sessions(at_work=True) == ["one", "two"]
    assert await either.sessions() == ["one", "two"]


async def test_the_newest_at_rest_come_first_without_those_the_caller_knows(
    either: SqliteJournal,
) -> None:
    await note(either, *(resting(f"s{at}", at) for at in range(6)), resting("odd", 9, cwd="/sea"))
    page = await either.resting(limit=2, besides=["s5", "nobody"])
    assert (page.summaries, page.total) == ([b"odd", b"s4"], 6)
    page = await either.resting(SessionFilter(cwd="/harbour"), limit=9)
    assert page.summaries == [b"s5", b"s4", b"s3", b"s2", b"s1", b"s0"]
    assert (await either.resting(SessionFilter(cwd="/nowhere"), limit=9)).total == 0


async def test_sessions_at_rest_are_counted_by_state(either: SqliteJournal) -> None:
    await note(either, resting("a", 1), resting("b", 2, state="error"), resting("c", 3))
    assert (await either.resting()).states == {"done": 2, "error": 1}
    assert (await either.resting(besides=["b", "c"])).states == {"done": 1}


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (SessionFilter(state="error"), [b"c"]),
        (SessionFilter(label="night run"), [b"b"]),
        (SessionFilter(machine="dock"), [b"c"]),
        (SessionFilter(archived=True), [b"d"]),
        (SessionFilter(archived=False), [b"c", b"b", b"a"]),
        (SessionFilter(words=("moor", "boats")), [b"a"]),
        (SessionFilter(words=("%",)), []),
        (SessionFilter(words=("half \ud800",)), []),
        (SessionFilter(archived=False, words=("boats",), label="night run"), [b"b"]),
    ],
)
async def test_sessions_at_rest_are_found_by_what_a_list_shows_of_them(
    either: SqliteJournal, which: SessionFilter, found: list[bytes]
) -> None:
    await note(
        either,
        resting("a", 1, search="moor the boats"),
        resting("b", 2, search="count the boats", label="night run"),
        resting("c", 3, state="error", machine="dock"),
        resting("d", 4, archived=True),
    )
    page = await either.resting(which, limit=9)
    assert (page.summaries, page.total) == (found, len(found))


async def test_a_session_is_found_by_its_conversation(either: SqliteJournal) -> None:
    await note(either, resting("one", 1, conversation="first"), at_work("two", "second"))
    assert [await either.holder(each) for each in ("first", "second", "third")] == [
        *("one", "two", None)
    ]
    await note(either, at_work("two", "third"))
    assert (await either.holder("second"), await either.holder("third")) == (None, "two")


async def test_names_of_sessions_and_conversations_are_told_from_others(
    either: SqliteJournal, monkeypatch: Any
) -> None:
    monkeypatch.setattr(stored, "MOST_NAMES", 2)
    await note(either, resting("one", 1, conversation="first"), at_work("two", "second"))
    asked = ["one", "other", "first", "two", "second"]
    assert await either.owned(asked) == {"one", "first", "two", "second"}


async def test_ids_that_begin_alike_are_near(either: SqliteJournal) -> None:
    await note(either, *(resting(f"{letter}-boat", 1) for letter in "abcxyz"))
    assert (await either.sessions(near="c-boot"))[0] == "x-boat"
    assert "c-boat" in await either.sessions(near="c-boot")


async def test_a_session_that_retention_removes_is_found_no_more(either: SqliteJournal) -> None:
    await note(either, resting("old", 10, conversation="talk"), resting("new", 1000))
    assert await either.retain(before=100) == 1
    assert await either.sessions() == ["new"]
    assert (await either.holder("talk"), await either.snapshot("old")) == (None, None)
    assert (await either.owned(["old", "talk", "new"]), await either.sessions(near="old")) == (
        *({"new"}, ["new"]),
    )
    assert (await either.resting(limit=9)).summaries == [b"new"]


async def test_a_directory_that_is_no_text_stops_nothing(either: SqliteJournal) -> None:
    await note(either, resting("one", 1, cwd="/\udcff"))
    assert either.failed is None
    assert (await either.resting(SessionFilter(cwd="/\udcff"), limit=1)).total == 1


async def test_a_name_that_is_no_text_is_nobodys(either: SqliteJournal) -> None:
    await note(either, resting("one", 1))
    odd = "half \ud800"
    assert (await either.snapshot(odd), await either.holder(odd)) == (None, None)
    assert seqs(await either.read_back(None, session_id=odd)) == []
    assert await either.sessions(near=odd) == ["one"]


async def test_more_sessions_than_are_remembered_are_told_apart(
    either: SqliteJournal, monkeypatch: Any
) -> None:
    monkeypatch.setattr(database, "MOST_NUMBERS", 2)
    names = [f"s{number}" for number in range(9)]
    for _ in range(2):
        await keep(either, *(drafts(1, name) for name in names))
    for number, name in enumerate(names, 1):
        assert seqs(await either.read_back(None, session_id=name)) == [number, number + 9]
    assert await either.sessions() == names


async def test_whoever_waits_for_a_session_that_rested_before_is_told_of_what_is_there(
    journal: SqliteJournal, monkeypatch: Any
) -> None:
    monkeypatch.setattr(stored, "MOST_NEWEST", 1)
    journal._tail._max_entries = 1
    await keep(journal, drafts(1, "one"), drafts(1, "two"), drafts(1, "three"))
    assert "one" not in journal._newest
    async with asyncio.timeout(10):
        await journal.wait(0, session_id="one")
        waiting = asyncio.ensure_future(journal.wait(1, session_id="one"))
        await asyncio.sleep(0)
        await keep(journal, drafts(1, "one"))
        await waiting


async def test_a_session_without_a_snapshot_has_an_empty_one(either: SqliteJournal) -> None:
    await keep(either, drafts(1, "one"))
    assert await either.snapshot("one") == Snapshot(session_id="one", upto=0, body=b"")
    assert await either.snapshot("two") is None


async def test_sessions_with_entries_after_a_cursor_are_told(either: SqliteJournal) -> None:
    await keep(either, drafts(2, "one"), drafts(1, "two"))
    for cursor, names in {0: ["one", "two"], 1: ["one", "two"], 2: ["two"], 3: list[str]()}.items():
        told = await either.touched(cursor, most=9)
        assert told is not None
        assert (told.sessions, told.cursor, told.questions) == (names, 3, [])
    assert await either.touched(0, most=1) is None
    assert await either.touched(4, most=9) is None


async def test_pieces_of_messages_touch_nothing(either: SqliteJournal) -> None:
    await keep(either, drafts(2, "one"), drafts(3, "two", kind="partial"))
    told = await either.touched(0, most=9)
    assert told is not None
    assert (told.sessions, told.cursor) == (["one"], 5)


async def test_a_cursor_of_long_ago_is_told_the_same(
    either: SqliteJournal, monkeypatch: Any
) -> None:
    monkeypatch.setattr(either._tail, "covers", lambda _: False)
    await keep(either, drafts(2, "one"), drafts(1, "two"))
    told = await either.touched(2, most=9)
    assert told is not None
    assert (told.sessions, told.cursor) == (["two"], 3)
    assert await either.touched(0, most=1) is None


async def test_what_changed_comes_with_the_rows_that_the_caller_does_not_know(
    either: SqliteJournal,
) -> None:
    await note(either, resting("one", 1), resting("two", 2), at_work("three"))
    told = await either.touched(0, most=9, besides=["one"])
    assert told is not None
    assert (told.sessions, told.summaries) == (["one", "three", "two"], {"two": b"two"})


@pytest.mark.parametrize("is_at_hand", [True, False])
async def test_questions_that_were_asked_or_settled_come_with_their_sessions(
    either: SqliteJournal, monkeypatch: pytest.MonkeyPatch, is_at_hand: bool
) -> None:
    if not is_at_hand:
        monkeypatch.setattr(either._tail, "covers", lambda _: False)
    of_old = replace(question("old", state="answered"), closed_at=10)
    settled = replace(question("new", state="answered"), closed_at=10**6)
    entry = drafts(1, at=10**6, kind="question.closed")
    await either.post(drafts(1, at=10**6 - 1), Changes(questions=[of_old])).committed
    await either.post(entry, Changes(questions=[settled, question("open")])).committed
    told = await either.touched(1, most=9)
    assert told is not None
    assert {each.id for each in told.questions} == {"new", "open"}


async def test_rows_of_an_older_file_are_found_by_what_they_show(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    shown = {"session_id": "one", "title": "Moor ÄLL BOATS", "cwd": "/harbour", "label": "night"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:6])
        await (await SqliteJournal.open(path)).aclose()
    with closing(sqlite3.connect(path)) as db, db:
        insert = "INSERT INTO sessions (id, at_work, updated_at, cwd, state, summary)"
        rows = [("one", json.dumps(shown).encode()), ("odd", b"no JSON")]
        for name, summary in rows:
            db.execute(f"{insert} VALUES (?, 0, 1, '/harbour', 'done', ?)", (name, summary))
    journal = await SqliteJournal.open(path)
    found = await journal.resting(SessionFilter(words=("äll", "harbour")), limit=9)
    assert found.summaries == [rows[0][1]]
    assert (await journal.resting(SessionFilter(label="night"), limit=9)).total == 1
    assert (await journal.resting(SessionFilter(archived=False), limit=9)).total == 2
    await journal.aclose()
