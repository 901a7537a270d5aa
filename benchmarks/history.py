"""A list of all sessions on the machine, made from their transcripts."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness

COUNT, QUICK = 10_000, 300
FOLDERS = 100
KINDS = ((31_000, 70), (150_000, 25), (880_000, 5))
"""Bytes of a transcript, and how many in a hundred are so long; about 100 kB on the average."""

OURS = """
import asyncio, json, sys, time
from pathlib import Path
from pilothouse.history import History

async def main(folder, task, count):
    config, index = Path(folder), Path(folder) / "index"
    history = History(config, index=None if task == "cold" else index)
    if task in ("warm", "grown"):
        await history.refresh()
    if task == "grown":
        for path in sorted(config.glob("projects/*/*.jsonl"))[::count // 10]:
            with path.open("a") as file:
                file.write('{"type":"last-prompt","lastPrompt":"and then?"}\\n')
    start = time.perf_counter()
    page = await history.list(limit=count)
    elapsed = time.perf_counter() - start
    print(json.dumps({"seen": len(page.found), "ms": elapsed * 1000}))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
PEER = """
import json, os, sys, time
from claude_agent_sdk import list_sessions

os.environ["CLAUDE_CONFIG_DIR"] = sys.argv[1]
start = time.perf_counter()
found = list_sessions()
elapsed = time.perf_counter() - start
print(json.dumps({"seen": len(found), "ms": elapsed * 1000}))
"""
LIMIT = """
import json, os, sys, time

start, seen = time.perf_counter(), 0
for folder in os.scandir(sys.argv[1] + "/projects"):
    for entry in os.scandir(folder):
        seen += entry.stat().st_size > 0
elapsed = time.perf_counter() - start
print(json.dumps({"seen": seen, "ms": elapsed * 1000}))
"""


def main() -> None:
    """List the same folder in turn."""
    chosen = harness.settings()
    count = QUICK if chosen.quick else COUNT
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    names = [*chosen.contenders, "cold", "indexed", "grown"]
    with transcripts(count) as (folder, size):
        for name in names:  # the index is made here, and all files are in the page cache
            listed(chosen, folder, name, count)
        measured = harness.interleave(
            names, rounds, lambda name: listed(chosen, folder, name, count)
        )
    harness.report(
        {
            "name": "history",
            "unit": "ms for a list of all sessions",
            **compared(measured, "ours"),
            "target": {"vs_peer": 20},
            "ten_grown": compared(measured, "grown"),
            "new_process": compared(measured, "indexed"),
            "without_index": compared(measured, "cold"),
            "count": count,
            "megabytes": round(size / 1e6),
            "rounds": rounds,
        }
    )


def compared(measured: list[dict[str, harness.Figures]], ours: str) -> dict[str, float | None]:
    """One way of ours against the others; more is better in the ratios."""
    return {
        "ours": harness.middle(measured, ours, "ms"),
        "peer": harness.middle(measured, "peer", "ms"),
        "limit": harness.middle(measured, "limit", "ms"),
        "vs_peer": harness.ratio(measured, "peer", ours, "ms"),
        "vs_limit": harness.ratio(measured, "limit", ours, "ms"),
    }


def listed(chosen: harness.Settings, folder: Path, name: str, count: int) -> harness.Figures:
    """The time of one list in a fresh process; all have to see all sessions."""
    code = {"peer": PEER, "limit": LIMIT}.get(name, OURS)
    task = "warm" if name == "ours" else name
    output = harness.run([chosen.python(name), "-c", code, str(folder), task, str(count)])
    figures: harness.Figures = json.loads(output.splitlines()[-1])
    if figures["seen"] != count:
        sys.exit(f"{name} saw {figures['seen']} of {count} sessions")
    return figures


# Transcripts


@contextmanager
def transcripts(count: int) -> Iterator[tuple[Path, int]]:
    """A configuration folder with so many sessions in it, and the bytes of them all."""
    chance = random.Random(1)
    sizes, weights = zip(*KINDS, strict=True)
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        folder, written = Path(name), 0
        for number, size in enumerate(chance.choices(sizes, weights, k=count)):
            project = folder / "projects" / f"-srv-project-{number % FOLDERS}"
            project.mkdir(parents=True, exist_ok=True)
            session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            data = transcript(session, f"/srv/project/{number % FOLDERS}", size)
            written += (project / f"{session}.jsonl").write_bytes(data)
        yield folder, written


def transcript(session: str, cwd: str, size: int) -> bytes:
    """A session of so many bytes, with the lines that the CLI writes."""
    place = {
        "userType": "external",
        "entrypoint": "sdk-cli",
        "cwd": cwd,
        "sessionId": session,
        "version": "2.1.325",
        "gitBranch": "main",
    }
    begun = [
        line("queue-operation", {"operation": "enqueue", "content": f"Tidy {cwd}"}, session),
        spoken("user", f"Tidy {cwd} and say what you did, please.", place),
        line("api-request-shape", {"shape": {"tools": "x" * 12_000}}, session),
    ]
    turn = [
        spoken(
            "assistant", [{"type": "tool_use", "name": "Read", "input": {"x": "y" * 300}}], place
        ),
        spoken("user", [{"type": "tool_result", "content": "a line of a file\n" * 300}], place),
        spoken("assistant", [{"type": "text", "text": "That is done, now the next. " * 20}], place),
    ]
    ended = [line("last-prompt", {"lastPrompt": f"Thanks for {cwd}"}, session)]
    room = size - sum(map(len, (*begun, *ended)))
    return b"".join([*begun, *turn * max(1, room // sum(map(len, turn))), *ended])


def spoken(type_: str, content: Any, place: dict[str, Any]) -> bytes:
    """A line of the conversation."""
    message = {"role": type_, "content": content}
    uuids = {"parentUuid": str(uuid.UUID(int=1)), "uuid": str(uuid.UUID(int=2))}
    more = {**uuids, "isSidechain": False, "message": message, **place}
    return line(type_, more, place["sessionId"])


def line(type_: str, members: dict[str, Any], session: str) -> bytes:
    """Any line."""
    when = {"timestamp": "2026-11-15T19:16:31.065Z", "sessionId": session}
    whole = json.dumps({"type": type_, **members, **when}, separators=(",", ":"))
    return whole.encode() + b"\n"


if __name__ == "__main__":
    main()
