"""What sessions at rest cost: opening an engine on many of them, its memory, a list, a touch."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness

if TYPE_CHECKING:
    from pilothouse.engine.recorder import Recorder
    from pilothouse.engine.view import View

FEW = 10
SAID = "please look at the " + "long " * 40 + "list of boats"
TEXT = [{"type": "text", "text": "word " * 100}]


def main() -> None:
    """Make a journal of few sessions and one of many; open an engine on each in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 7)
    many = 200 if chosen.quick else 100_000
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        place = Path(folder)
        for name, count in (("few", FEW), ("many", many)):
            task("make", place / name, count)
        opened = harness.interleave(
            ["few", "many"],
            rounds,
            lambda who: task("open", place / who, FEW if who == "few" else many),
        )
    harness.report(
        {
            "name": "growth",
            "unit": f"ms to open an engine, with {many} sessions at rest",
            "ours": harness.middle(opened, "many", "open_ms"),
            "peer": None,
            "limit": harness.middle(opened, "few", "open_ms"),
            "vs_peer": None,
            "vs_limit": harness.ratio(opened, "few", "many", "open_ms"),
            "target": {"vs_limit": 0.5},
            "sessions": [FEW, many],
            **{key: both(opened, key) for key in ("memory_kib", "list_ms", "touch_ms")},
            "rounds": rounds,
        }
    )


def both(rounds: list[dict[str, harness.Figures]], key: str) -> Mapping[str, float | None]:
    """A figure with few sessions, with many, and how they compare."""
    return {
        "few": harness.middle(rounds, "few", key),
        "many": harness.middle(rounds, "many", key),
        "many_to_few": harness.ratio(rounds, "many", "few", key),
    }


def task(name: str, place: Path, count: int) -> harness.Figures:
    """One task in a fresh process."""
    script = str(Path(__file__))
    output = harness.run([sys.executable, script, "task", name, str(place), str(count)])
    figures: harness.Figures = json.loads(output)
    if figures["seen"] != count:
        sys.exit(f"{name} saw {figures['seen']} of {count}")
    return figures


# What runs in the fresh process


def perform(name: str, place: Path, count: int) -> None:
    """Do one task and print its figures."""
    figures = make(place, count) if name == "make" else asyncio.run(open_engine(place))
    print(json.dumps(figures))


def make(place: Path, count: int) -> dict[str, float]:
    """Sessions of one turn each whose CLI has ended, as an engine leaves them."""
    place.mkdir()
    asyncio.run(make_one(place / "journal.db"))
    with closing(sqlite3.connect(place / "journal.db")) as db, db:
        multiply(db, count)
    return {"seen": count}


async def make_one(path: Path) -> None:
    """The first of them, through the recorder."""
    from pilothouse.engine.recorder import Recorder
    from pilothouse.engine.view import View
    from pilothouse.journal.sqlite import SqliteJournal

    journal = await SqliteJournal.open(path)
    recorder = Recorder(journal)
    live_through(recorder, View(session_id=session_id(1)))
    await recorder.kept()
    await journal.aclose()


def multiply(db: sqlite3.Connection, count: int) -> None:
    """The others, as copies of the first: through the recorder they would take minutes."""
    first, others = session_id(1), range(2, count + 1)
    (entries,) = db.execute("SELECT count(*) FROM events").fetchone()
    for table, place in {"sessions": "key", "events": "seq", "snapshots": "session"}.items():
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        rows = [dict(zip(names, row, strict=True)) for row in db.execute(f"SELECT * FROM {table}")]
        copies = (
            tuple(renamed(value, first, session_id(number)) for value in copy.values())
            for number in others
            for row in rows
            for copy in [moved(row, place, number, entries)]
        )
        marks = ",".join("?" * len(names))
        db.executemany(f"INSERT INTO {table} VALUES ({marks})", copies)


def moved(row: dict[str, Any], place: str, number: int, entries: int) -> dict[str, Any]:
    """A row of the first session as one of another, in its place behind those before."""
    behind = (number - 1) * entries
    if place == "seq":
        return row | {"seq": row["seq"] + behind, "session": number}
    return row | {place: number} | ({"upto": row["upto"] + behind} if "upto" in row else {})


def renamed(value: Any, old: str, new: str) -> Any:
    """A value of the first session with the id of another."""
    if isinstance(value, bytes):
        return value.replace(old.encode(), new.encode())
    return value.replace(old, new) if isinstance(value, str) else value


def session_id(number: int) -> str:
    """An id as sessions have."""
    return f"{number * 2654435761 % (1 << 32):08x}-0000-4000-8000-{number:012x}"


def live_through(recorder: Recorder, view: View) -> None:
    """One session from its start to its rest."""
    from pilothouse.api.records import CLIEnded, CLIStarted, PromptSaid, PromptSent, SessionStarted
    from pilothouse.protocol import AssistantMessage, ResultMessage, decode

    recorder.write(
        view,
        SessionStarted(cwd="/harbour"),
        PromptSaid(id="p", content=SAID),
    )
    recorder.write(view, CLIStarted(run=""), PromptSent(id="p"))
    echo: dict[str, Any] = {
        "type": "user",
        "uuid": "p",
        "isReplay": True,
        "session_id": view.session_id,
        "message": {"role": "user", "content": SAID},
    }
    result: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": view.session_id,
        "result": "done " * 100,
        "total_cost_usd": 0.01,
        "num_turns": 1,
    }
    said = {"type": "assistant", "message": {"role": "assistant", "content": TEXT}}
    lines = [decode(json.dumps(each).encode()) for each in (echo, said, result)]
    recorder.lines(view, lines, {AssistantMessage, ResultMessage})
    recorder.write(view, CLIEnded(orderly=True, reason="idle for long"))
    recorder.save(view)


async def open_engine(place: Path) -> dict[str, float]:
    """Open an engine; then list the newest, and touch one of them."""
    from pilothouse.engine.engine import SessionEngine
    from pilothouse.settings import load

    flags = {"state_dir": str(place), "claude_config_dir": str(place / "config")}
    settings = load(env={"HOME": str(place)}, flags=flags)
    # What is imported and written once is no matter of how many sessions there are.
    before = memory_kib()
    started = time.perf_counter()
    engine = await SessionEngine.open(settings)
    opened = time.perf_counter()
    after = memory_kib()
    listing = await engine.list(limit=50)
    listed = time.perf_counter()
    await engine.status(listing.sessions[-1].session_id)
    touched = time.perf_counter()
    await engine.aclose()
    return {
        "open_ms": (opened - started) * 1000,
        "memory_kib": max(after - before, 1),
        "list_ms": (listed - opened) * 1000,
        "touch_ms": (touched - listed) * 1000,
        "seen": listing.total,
    }


def memory_kib() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        perform(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
