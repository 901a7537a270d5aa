"""What the engine adds: events committed a second, the way of an event to its watchers, memory."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import fake_cli
import harness

from pilothouse.api.requests import Start
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.engine.engine import SessionEngine
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.protocol.messages import decode_lines
from pilothouse.settings import load
from pilothouse_sim.scripted_cli import ScriptedCLI

PROMPT = "go"
PER_SECOND = 10
"""Events of one session in the fan-out."""


def main() -> None:
    """Measure all of it."""
    chosen = harness.settings(None)
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    committed = measure_commits(rounds, 2_000 if chosen.quick else 100_000)
    fan_out = measure_fan_out(1 if chosen.quick else 3, seconds=1 if chosen.quick else 10)
    harness.report(
        {
            "name": "engine",
            "unit": "events committed a second",
            **committed,
            "target": {
                "vs_limit": 0.5,
                "fan_out_p99_vs_single": 5,
                "idle_session_kib": 100,
            },
            "fan_out": fan_out,
            "idle_session_kib": asyncio.run(idle_session_kib(50 if chosen.quick else 1000)),
            "rounds": rounds,
        }
    )


# The engine under measurement


class Company:
    """An engine whose CLIs are played in memory."""

    def __init__(
        self, engine: SessionEngine, made: asyncio.Queue[ScriptedCLI], folder: Path
    ) -> None:
        self.engine = engine
        self.made = made
        self.folder = folder

    async def begin(self) -> tuple[str, ScriptedCLI]:
        """A session whose CLI has taken its prompt and runs a turn."""
        started = await self.engine.start(Start(prompt=PROMPT, cwd=str(self.folder)))
        cli = await self.made.get()
        await cli.prompts.get()
        cli.write(fake_cli.init() | {"session_id": started.session_id})
        return started.session_id, cli


@asynccontextmanager
async def company() -> AsyncIterator[Company]:
    """An engine on a disk of its own, without an end to its sessions."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        made: asyncio.Queue[ScriptedCLI] = asyncio.Queue()

        def make_client(options: Options, *, sink: Sink, **_: Any) -> Client:
            cli = ScriptedCLI()
            made.put_nowait(cli)
            return Client(options, transport=cli.transport, sink=sink)

        env = {"HOME": folder, "CLAUDE_CONFIG_DIR": f"{folder}/.claude", "MAX_SESSIONS": "5000"}
        engine = await SessionEngine.open(load(env=env), make_client=make_client, simulated=True)
        try:
            yield Company(engine, made, Path(folder))
        finally:
            await engine.aclose()


# Events committed


def measure_commits(rounds: int, count: int) -> dict[str, Any]:
    """Ours against a bare loop that decodes and batch-inserts the same lines."""
    chunks = fake_cli.stream_script(count)
    figures = {
        "ours": lambda: asyncio.run(commits_of_engine(chunks)),
        "limit": lambda: commits_of_bare_loop(chunks),
    }
    measured = harness.interleave(["ours", "limit"], rounds, lambda who: figures[who]())
    return {
        "ours": harness.middle(measured, "ours", "per_second"),
        "peer": None,
        "limit": harness.middle(measured, "limit", "per_second"),
        "vs_peer": None,
        "vs_limit": harness.ratio(measured, "ours", "limit", "per_second"),
        "count": count,
    }


async def commits_of_engine(chunks: Sequence[bytes]) -> harness.Figures:
    async with company() as it:
        _, cli = await it.begin()
        before = await settled(it.engine)
        began = time.perf_counter()
        for chunk in chunks:
            cli.write_bytes(chunk)
            # One turn of the loop: the engine reads as it comes.
            await asyncio.sleep(0)
        after = await settled(it.engine)
        spent = time.perf_counter() - began
        lines = sum(chunk.count(b"\n") for chunk in chunks)
        assert after - before == lines, (after, before, lines)
    return {"per_second": lines / spent}


async def settled(engine: SessionEngine) -> int:
    """The cursor once everything that was posted is committed."""
    while True:
        # Two turns of the loop: one delivers what was written, the next lets it be posted.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        posted = engine.journal.next - 1
        if engine.journal.last == posted:
            return posted
        await engine.journal.wait(posted - 1)


def commits_of_bare_loop(chunks: Sequence[bytes]) -> harness.Figures:
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        path = Path(folder) / "journal.db"
        asyncio.run(make_empty(path))
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("INSERT INTO sessions (key, id) VALUES (1, 'bare')")
        began, seq = time.perf_counter(), 0
        for chunk in chunks:
            lines = chunk.split(b"\n")[:-1]
            decode_lines(lines)
            rows = [(seq + n, 1, 1, 0, line) for n, line in enumerate(lines, 1)]
            seq += len(rows)
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            db.execute("COMMIT")
        spent = time.perf_counter() - began
        db.close()
    return {"per_second": seq / spent}


async def make_empty(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.aclose()


# The way to the watchers


def measure_fan_out(rounds: int, *, seconds: int) -> dict[str, Any]:
    """200 sessions, two watchers of everything and eighteen of one, against one and one."""
    shapes = {"single": (1, 0, 1), "many": (200, 2, 18)}

    def measure(who: str) -> harness.Figures:
        return asyncio.run(latencies(*shapes[who], seconds=seconds))

    measured = harness.interleave(list(shapes), rounds, measure)
    return {
        "single_p99_ms": harness.middle(measured, "single", "p99_ms"),
        "many_p99_ms": harness.middle(measured, "many", "p99_ms"),
        "p99_vs_single": harness.ratio(measured, "many", "single", "p99_ms"),
        "single_p50_ms": harness.middle(measured, "single", "p50_ms"),
        "many_p50_ms": harness.middle(measured, "many", "p50_ms"),
        "deliveries": harness.middle(measured, "many", "deliveries"),
        "rounds": rounds,
    }


async def latencies(
    sessions: int, of_everything: int, of_one: int, *, seconds: int
) -> harness.Figures:
    """Milliseconds from a line's writing to a watcher's having it; every one must arrive."""
    async with company() as it:
        begun = [await it.begin() for _ in range(sessions)]
        after = await settled(it.engine)
        sent: dict[int, float] = {}
        each, total = seconds * PER_SECOND, sessions * seconds * PER_SECOND
        watchers = [follow(it.engine, after, None, total, sent) for _ in range(of_everything)]
        watchers += [
            follow(it.engine, after, begun[n % sessions][0], each, sent) for n in range(of_one)
        ]
        # Collections of what was set up here would count as latency.
        gc.collect()
        gc.freeze()
        async with asyncio.TaskGroup() as group:
            found = [group.create_task(watcher) for watcher in watchers]
            for number, (_, cli) in enumerate(begun):
                group.create_task(speak(cli, number, sessions, each, sent))
    every = [latency for task in found for latency in task.result()]
    cuts = quantiles(every, n=100)
    return {"p50_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000, "deliveries": len(every)}


async def speak(
    cli: ScriptedCLI, number: int, sessions: int, count: int, sent: dict[int, float]
) -> None:
    """One session's events, evenly, each session at its own moment of the interval."""
    interval = 1 / PER_SECOND
    at = asyncio.get_running_loop().time() + interval * (1 + number / sessions)
    for index in range(count):
        # The pace is what is measured here: so many events a second.
        await asyncio.sleep(at + index * interval - asyncio.get_running_loop().time())
        mark = number * count + index
        sent[mark] = time.perf_counter()
        cli.write_bytes(
            b'{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":'
            b'{"type":"text_delta","text":"%d"}},"session_id":"s","uuid":"u"}\n' % mark
        )


async def follow(
    engine: SessionEngine, after: int, session_id: str | None, count: int, sent: dict[int, float]
) -> list[float]:
    found: list[float] = []
    marks: set[int] = set()
    async with asyncio.timeout(120), aclosing(engine.watch(after, session_id=session_id)) as all_:
        async for batch in all_:
            now = time.perf_counter()
            for event in batch.events:
                if event.kind == "partial":
                    mark = int(bytes(event.body).partition(b'"text":"')[2].partition(b'"')[0])
                    found.append(now - sent[mark])
                    marks.add(mark)
            if len(found) >= count:
                assert len(marks) == len(found) == count, "an event was doubled"
                return found
    raise AssertionError("the events ended")


# Memory


async def idle_session_kib(count: int) -> float:
    """What one more session costs whose turn is over and whose CLI is gone."""
    async with company() as it:
        await live_once(it, 20)
        before = resident_kib()
        await live_once(it, count)
        after = resident_kib()
    return harness.significant((after - before) / count)


async def live_once(it: Company, count: int) -> None:
    for _ in range(count):
        session_id, cli = await it.begin()
        cli.write(fake_cli.result() | {"session_id": session_id})
        await settled(it.engine)
        await it.engine.stop(session_id)
    gc.collect()


def resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    main()
