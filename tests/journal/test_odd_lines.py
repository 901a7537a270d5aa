"""Lines that not every reader of JSON takes: kept byte for byte, told as all of them take it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.events import Event
from pilothouse.api.records import KINDS
from pilothouse.api.statuses import Tokens
from pilothouse.journal.contract import Changes, CostRow, Draft
from pilothouse.journal.kinds import NUMBERS, ODD
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.protocol.strict import is_strict, strict
from tests.support.journal.drafts import drafts, keep, question, read_all

LINES = [
    b'{"type":"x","text":"cut \\ud83d"}',
    b'{"type":"x","text":"\xff"}',
    b'{"type":"x","n":' + b"9" * 10_000 + b"}",
    b'{"type":"x","a":' + b"[" * 5000 + b"]" * 5000 + b"}",
]


def odd(line: bytes, kind: str = "cli") -> Draft:
    return Draft("one", kind, 1000, line, strict(line))


def alter(path: Path, sql: str, *rows: Sequence[Any]) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(sql, rows)


def look(event: Event) -> None:
    assert is_strict(bytes(event.body))
    assert json.loads(bytes(event.body))["type"] == "x"


@pytest.mark.parametrize("line", LINES, ids=["half", "bytes", "digits", "deep"])
async def test_it_is_told_alike_from_memory_and_from_disk(tmp_path: Path, line: bytes) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    await keep(journal, [*drafts(1), odd(line), *drafts(1)])
    told = (await read_all(journal)).events
    await journal.aclose()
    again = await SqliteJournal.open(tmp_path / "j.db")
    read = (await read_all(again)).events
    await again.aclose()
    assert [(e.seq, e.kind, bytes(e.body), e.raw) for e in told] == [
        (e.seq, e.kind, bytes(e.body), e.raw) for e in read
    ]
    assert [event.raw for event in read] == [None, line, None]
    look(read[1])


async def test_lines_are_found_with_the_bytes_they_came_with(journal: SqliteJournal) -> None:
    await keep(journal, [odd(LINES[0])])
    assert await journal.lines_with(0, [b"cut"], session_id="one") == [LINES[0]]


async def test_pieces_go_with_their_turn(either: SqliteJournal) -> None:
    await keep(either, [odd(LINES[0], "partial"), odd(LINES[1]), *drafts(1, kind="partial")])
    whole = await either.read(0, partials=False)
    assert [event.seq for event in whole.events] == [2]
    assert await either.prune_partials("one", 1, 3) == 2


async def test_noise_keeps_its_bytes(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    await keep(journal, [Draft("one", "noise", 1, b"\xffoh", '"\ufffdoh"'.encode())])
    await journal.aclose()
    again = await SqliteJournal.open(tmp_path / "j.db")
    (event,) = (await read_all(again)).events
    await again.aclose()
    assert (event.kind, json.loads(bytes(event.body)), event.raw) == (
        "noise",
        "\ufffdoh",
        b"\xffoh",
    )


async def test_a_batch_from_memory_is_as_large_as_one_from_disk(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    large = Draft("one", "noise", 1, b"\xff" * (100 << 10), b'"?"')
    await keep(journal, [large] * 4)
    told = await journal.read(0)
    await journal.aclose()
    again = await SqliteJournal.open(tmp_path / "j.db")
    assert [event.seq for event in (await again.read(0)).events] == [1, 2]
    assert [event.seq for event in told.events] == [1, 2]
    await again.aclose()


def test_kinds_keep_their_numbers() -> None:
    assert set(NUMBERS) == {*KINDS, *ODD.values()}
    assert [NUMBERS[kind] for kind in ("cli", "lines.lost", "cli.odd", "noise.odd")] == [
        0,
        18,
        19,
        21,
    ]


async def test_a_journal_of_the_version_before_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    journal = await SqliteJournal.open(path)
    record = b'{"record":"prompt.said","id":"p","content":"half \\ud83d"}'
    bodies = [*LINES, b'{"type":"x"}', LINES[0], record]
    kinds = ["cli"] * 5 + ["partial", "prompt.said"]
    await keep(journal, [Draft("one", k, 1, body) for k, body in zip(kinds, bodies, strict=True)])
    await journal.aclose()
    alter(path, "PRAGMA user_version = 2", ())
    again = await SqliteJournal.open(path)
    events = (await read_all(again)).events
    await again.aclose()
    assert [event.raw for event in events] == [*LINES, None, LINES[0], None]
    assert [event.kind for event in events] == kinds
    assert all(is_strict(bytes(event.body)) for event in events)
    assert json.loads(bytes(events[-1].body))["content"] == "half \ufffd"


async def test_no_sum_of_what_clis_have_counted_is_too_large(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    row = (1, 1, "p", 1, "2026-01-31", 1.7e308, *[2**63 - 1] * 4, 1)
    # As an earlier version has kept it.
    alter(tmp_path / "j.db", f"INSERT INTO costs VALUES ({','.join('?' * 11)})", row, row)
    (line,) = await journal.sums.costs("project")
    assert (line.usd, line.turns, line.tokens.input) == (2e9, 2, 2**53 - 1)
    assert journal.failed is None
    await journal.aclose()


async def test_no_cost_and_no_project_stops_the_journal(journal: SqliteJournal) -> None:
    tokens = Tokens(input=2**70)
    cost = CostRow(
        session_id="one", project="/\udcff", at=0, day="2026-01-31", usd=float("inf"), tokens=tokens
    )
    await journal.post(drafts(1), Changes(costs=[cost])).committed
    (line,) = await journal.sums.costs("project")
    assert (line.group, line.usd) == ("/\ufffd", 0.0)


async def test_a_question_that_cannot_be_read_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    await journal.post([], Changes(questions=[question("a"), question("b")])).committed
    alter(tmp_path / "j.db", "UPDATE questions SET body = ? WHERE id = 'a'", (b'{"id":1}',))
    assert [each.id for each in await journal.questions()] == ["b"]
    assert await journal.question("a") is None
    assert "cannot be read" in caplog.text
    await journal.aclose()
