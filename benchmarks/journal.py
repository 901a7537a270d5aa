"""What the journal costs: entries committed through it, and catching up in a long one."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import harness

BATCH = 100
"""Lines posted at a time, as one read of a CLI's output gives them."""
OUTSTANDING = 50
"""Posts that may wait for the disk before the next."""
GROUP = 1000
"""Lines that the bare loop inserts in one transaction."""
BEHIND = 1000
SESSIONS = 20
LINE = b'{"type":"stream_event","event":{"type":"content_block_delta","text":"%s"}}' % (b"x" * 210)


def main() -> None:
    """Post and insert in turn; catch up in a short journal and in a long one in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 7)
    count = 5_000 if chosen.quick else 200_000
    short, long = (2_000, 20_000) if chosen.quick else (10_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        place = Path(folder)
        posted = harness.interleave(
            ["ours", "limit"], rounds, lambda who: task(who, place / "new.db", count)
        )
        for size in (short, long):
            task("make", place / f"{size}.db", size)
        caught_up = harness.interleave(
            ["short", "long"],
            rounds,
            lambda who: task("catch_up", place / f"{short if who == 'short' else long}.db", BEHIND),
        )
    harness.report(
        {
            "name": "journal",
            "unit": "entries committed a second",
            "ours": harness.middle(posted, "ours", "per_second"),
            "peer": None,
            "limit": harness.middle(posted, "limit", "per_second"),
            "vs_peer": None,
            "vs_limit": harness.ratio(posted, "ours", "limit", "per_second"),
            "target": {"vs_limit": 0.5, "catch_up": 1.5},
            "catch_up": {
                "unit": f"ms to read the last {BEHIND} entries",
                "short": harness.middle(caught_up, "short", "ms"),
                "long": harness.middle(caught_up, "long", "ms"),
                "long_to_short": harness.ratio(caught_up, "long", "short", "ms"),
                "entries": [short, long],
            },
            "open_ms": {who: harness.middle(caught_up, who, "open_ms") for who in caught_up[0]},
            "count": count,
            "rounds": rounds,
        }
    )


def task(name: str, path: Path, count: int) -> harness.Figures:
    """One task in a fresh process; what it posted into a new file is thrown away."""
    output = harness.run([sys.executable, str(Path(__file__)), "task", name, str(path), str(count)])
    figures: harness.Figures = json.loads(output)
    if figures["seen"] != count:
        sys.exit(f"{name} saw {figures['seen']} of {count}")
    if path.name == "new.db":
        for each in path.parent.glob("new.db*"):
            each.unlink()
    return figures


# What runs in the fresh process


def perform(name: str, path: Path, count: int) -> None:
    """Do one task and print its figures."""
    tasks: dict[str, Callable[[Path, int], dict[str, float]]] = {
        "ours": lambda path, count: asyncio.run(post(path, count)),
        "make": lambda path, count: asyncio.run(post(path, count)),
        "limit": insert,
        "catch_up": lambda path, count: asyncio.run(catch_up(path, count)),
    }
    print(json.dumps(tasks[name](path, count)))


async def post(path: Path, count: int) -> dict[str, float]:
    """Post everything, never further ahead of the disk than `OUTSTANDING` posts."""
    from pilothouse.journal.contract import Draft, Posted
    from pilothouse.journal.sqlite import SqliteJournal

    journal = await SqliteJournal.open(path)
    waiting: list[Posted] = []
    started = time.perf_counter()
    for number in range(0, count, BATCH):
        session_id = f"session-{number // BATCH % SESSIONS}"
        waiting.append(journal.post([Draft(session_id, "cli", number, LINE)] * BATCH))
        if len(waiting) > OUTSTANDING:
            await waiting.pop(0).committed
    await waiting[-1].committed
    seconds = time.perf_counter() - started
    await journal.aclose()
    return {"per_second": count / seconds, "seen": journal.last}


def insert(path: Path, count: int) -> dict[str, float]:
    """The same lines into the same tables, with nothing around."""
    from pilothouse.journal.sqlite import SqliteJournal

    async def make_tables() -> None:
        await (await SqliteJournal.open(path)).aclose()

    asyncio.run(make_tables())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")
        started = time.perf_counter()
        for first in range(0, count, GROUP):
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows(first))
            db.execute("COMMIT")
        seconds = time.perf_counter() - started
        (seen,) = db.execute("SELECT count(*) FROM events").fetchone()
    return {"per_second": count / seconds, "seen": seen}


def rows(first: int) -> Iterator[tuple[int, int, int, int, bytes]]:
    """One group of the bare loop."""
    for number in range(first, first + GROUP):
        yield number + 1, number // BATCH % SESSIONS + 1, 0, number, LINE


async def catch_up(path: Path, behind: int) -> dict[str, float]:
    """From a cursor to the end, in pages, from the disk: a journal just opened has no tail.

    The best of many, since what disturbs them would be most of so short a time.
    """
    from pilothouse.journal.sqlite import SqliteJournal

    started = time.perf_counter()
    journal = await SqliteJournal.open(path)
    opened = time.perf_counter() - started
    times: list[float] = []
    seen = 0
    for _ in range(100):
        started = time.perf_counter()
        cursor, seen = journal.last - behind, 0
        while cursor < journal.last:
            batch = await journal.read(cursor)
            cursor, seen = batch.cursor, seen + len(batch.events)
        times.append(time.perf_counter() - started)
    await journal.aclose()
    return {"ms": min(times) * 1000, "open_ms": opened * 1000, "seen": seen}


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        perform(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
