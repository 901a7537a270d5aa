"""Entries as lines of JSON."""

from __future__ import annotations

import io
import json

import pytest

from pilothouse.journal import export as exporting
from pilothouse.journal.export import export
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep


async def test_every_entry_is_one_line(
    either: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAGE", 3)
    await keep(either, drafts(5, "a"), drafts(5, "b"))
    out = io.BytesIO()
    assert await export(either, out.write) == 10
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0] == {"seq": 1, "session_id": "a", "kind": "cli", "at": 1000, "body": {"n": 0}}
    assert [line["seq"] for line in lines] == list(range(1, 11))


async def test_one_session_after_a_cursor(either: SqliteJournal) -> None:
    await keep(either, drafts(5, "a"), drafts(5, "b"), drafts(2, "a"))
    out = io.BytesIO()
    assert await export(either, out.write, session_id="a", after=3) == 4
    assert [json.loads(line)["seq"] for line in out.getvalue().splitlines()] == [4, 5, 11, 12]


async def test_an_empty_journal_writes_nothing(either: SqliteJournal) -> None:
    out = io.BytesIO()
    assert await export(either, out.write) == 0
    assert out.getvalue() == b""
