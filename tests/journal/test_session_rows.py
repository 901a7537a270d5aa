"""How sessions are found by the rows that are written with their entries."""

from __future__ import annotations

import asyncio
from typing import Any

from pilothouse.journal import database, stored
from pilothouse.journal.contract import Changes, SessionRow, Snapshot
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep, seqs


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
    page = await either.resting(cwd="/harbour", limit=9)
    assert page.summaries == [b"s5", b"s4", b"s3", b"s2", b"s1", b"s0"]
    assert (await either.resting(cwd="/nowhere", limit=9)).total == 0


async def test_sessions_at_rest_are_counted_by_state(either: SqliteJournal) -> None:
    await note(either, resting("a", 1), resting("b", 2, state="error"), resting("c", 3))
    assert (await either.resting()).states == {"done": 2, "error": 1}
    assert (await either.resting(besides=["b", "c"])).states == {"done": 1}


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
    assert (await either.near("c-boot"))[0] == "x-boat"
    assert "c-boat" in await either.near("c-boot")


async def test_a_session_that_retention_removes_is_found_no_more(either: SqliteJournal) -> None:
    await note(either, resting("old", 10, conversation="talk"), resting("new", 1000))
    assert await either.retain(before=100) == 1
    assert await either.sessions() == ["new"]
    assert (await either.holder("talk"), await either.snapshot("old")) == (None, None)
    assert (await either.owned(["old", "talk", "new"]), await either.near("old")) == (
        *({"new"}, ["new"]),
    )
    assert (await either.resting(limit=9)).summaries == [b"new"]


async def test_a_directory_that_is_no_text_stops_nothing(either: SqliteJournal) -> None:
    await note(either, resting("one", 1, cwd="/\udcff"))
    assert either.failed is None
    assert (await either.resting(cwd="/\udcff", limit=1)).total == 1


async def test_a_name_that_is_no_text_is_nobodys(either: SqliteJournal) -> None:
    await note(either, resting("one", 1))
    odd = "half \ud800"
    assert (await either.snapshot(odd), await either.holder(odd)) == (None, None)
    assert seqs(await either.read_back(None, session_id=odd)) == []
    assert await either.near(odd) == ["one"]


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
