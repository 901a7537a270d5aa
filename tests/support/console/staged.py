"""A machine at work: several projects, and sessions that wait, work and have ended."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.async_api import Browser

from pilothouse_sim.clis import Room, SimulatedCLI
from pilothouse_sim.scenario import Branch, Scenario, Usage, When, gate, reply, thinking, tool
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.waiting import until

POLICY: Final = """\
[[rule]]
name = "no pushes"
command = ["git push", "git push *"]
action = "deny"
reason = "Pushing is for people."

[[rule]]
name = "look around"
tool = ["Read", "Glob", "Grep"]
action = "allow"

[[rule]]
name = "edit the project"
tool = ["Edit", "Write"]
directory = "**/harbour"
action = "allow"

[[rule]]
name = "run the tests"
command = ["pytest", "pytest *", "npm test"]
action = "allow"
"""
TIDES: Final = '''\
"""Heights of the tide, from the harbour's own table."""

from bisect import bisect
from datetime import datetime, timedelta

DAY = timedelta(days=1)


def height(table: list[Tide], at: datetime) -> float:
    """The height at a moment, between the two tides around it."""
    index = bisect(table, at, key=lambda tide: tide.at)
    before, after = table[index - 1], table[index]
    share = (at - before.at) / (after.at - before.at)
    return before.height + share * (after.height - before.height)
'''
OLD: Final = "    before, after = table[index - 1], table[index]\n"
NEW: Final = """\
    # The first tide of the day needs the last one of the day before.
    before = table[index - 1] if index else table[-1].shifted(-DAY)
    after = table[index] if index < len(table) else table[0].shifted(DAY)
"""
PLAN: Final = """\
# Keep the charts in SQLite

Today each chart is a JSON file, and opening the list reads all 2,400 of them.

1. **A table for what the list shows**: name, scale, bounds, last change
2. **Move the files over** when the app starts, once, in one transaction
3. **Ask the table** in `charts/list.py`; the chart itself stays a file
4. **A test** with 5,000 charts: the list is there in under 50 ms

What stays as it is: the format of a chart, and the export.
"""
MAPS: Final = {
    "question": "Which map library shall the log book use?",
    "header": "Map",
    "options": [
        {
            "label": "MapLibre",
            "description": "Vector tiles, free, 210 kB",
            "preview": 'import { Map } from "maplibre-gl";\n\nnew Map({\n'
            '  style: "/tiles/sea.json",\n'
            "  bounds: trip.bounds,\n});",
        },
        {
            "label": "Leaflet",
            "description": "Raster tiles, small and simple, 42 kB",
            "preview": 'import L from "leaflet";\n\nL.map("log").fitBounds(trip.bounds);',
        },
        {
            "label": "No library",
            "description": "Draw the track alone as SVG",
            "preview": "<svg viewBox={box(trip)}>\n  <path d={line(trip)} />\n</svg>",
        },
    ],
    "multiSelect": False,
}
BEGINNING: Final = (
    "The first tide of a day has no tide before it in the table, so `height` looks at the last one "
    "of the same day and counts backwards."
)
ENDING: Final = (
    "All 48 tests pass. What was wrong:\n\n"
    "- before the first tide of a day, `table[index - 1]` was the **last** tide of the same day\n"
    "- after the last one, `table[index]` did not exist\n\n"
    "Both now take the neighbouring day, as the printed tables"
)
EXPLAINED: Final = "Each change has a number; a device asks for those after its last one."


def _used(read: int, kept: int, wrote: int) -> Usage:
    return Usage(input_tokens=read, cache_read_input_tokens=kept, output_tokens=wrote)


def _of(prompt: str, *replies: Any) -> Branch:
    return Branch(when=When(prompt_contains=prompt), replies=replies)


SCENARIO: Final = Scenario(
    replies=[reply("Done.")] * 9,
    branches=[
        _of(
            "tide heights",
            reply(
                thinking("The table ends at midnight. What does bisect give there?"),
                tool("Read", file_path="{{cwd}}/tides.py"),
                usage=_used(4200, 18_000, 160),
            ),
            reply(
                BEGINNING,
                tool("Edit", file_path="{{cwd}}/tides.py", old_string=OLD, new_string=NEW),
                usage=_used(900, 23_000, 420),
            ),
            reply(
                tool("Bash", command="pytest -q tests/test_tides.py", description="Run its tests"),
                usage=_used(700, 24_000, 80),
            ),
            reply(ENDING, gate("streaming"), " do.", usage=_used(500, 25_000, 120)),
        ),
        _of(
            "0.9 release",
            reply(
                "The changelog and the version agree, and the tests pass. One step is left.",
                tool(
                    "Bash",
                    command="npm publish --tag next --access public",
                    description="Publish lighthouse 0.9.0 to the registry",
                ),
                usage=_used(12_000, 41_000, 900),
            ),
        ),
        _of(
            "chart list",
            reply(
                tool("Write", file_path="{{plan_file}}", content=PLAN),
                usage=_used(22_000, 64_000, 1800),
            ),
            reply(
                tool("ExitPlanMode", allowedPrompts=[{"tool": "Bash", "prompt": "run the tests"}]),
                usage=_used(600, 86_000, 60),
            ),
        ),
        _of(
            "map to the log book",
            reply(tool("AskUserQuestion", questions=[MAPS]), usage=_used(8000, 30_000, 400)),
        ),
        _of("sync protocol", reply(EXPLAINED, usage=_used(16_000, 52_000, 2100))),
        _of(
            "dependencies",
            reply(
                tool("Bash", command="npm test", description="Run all tests"),
                usage=_used(9000, 21_000, 300),
            ),
            reply("All twelve are up to date, and the tests pass.", usage=_used(400, 30_000, 90)),
        ),
        _of(
            "unused code",
            reply(
                tool("Bash", command="git push origin main", description="Push it"),
                usage=_used(3000, 15_000, 200),
            ),
            reply("It is removed. I was not allowed to push.", usage=_used(300, 18_000, 40)),
        ),
    ],
)
PROGRAMS: Final = {"pytest": 48, "npm": 112}
"""Commands that the sessions run, with how many tests each has."""


class Staged(NamedTuple):
    """A server with its sessions, by a word of what each is about."""

    house: House
    sessions: dict[str, str]
    projects: Path


@asynccontextmanager
async def staged(folder: Path, browser: Browser) -> AsyncGenerator[Staged]:
    """Everything as it is to be seen, in a folder that is there."""
    cli = SimulatedCLI(Room(folder / "room"), SCENARIO, strict=False)
    search = f"{folder / 'programs'}:/usr/bin:/bin"
    async with house_on(cli, folder / "house", browser, PATH=search) as house:
        projects = _projects(folder)
        policy = {"text": POLICY}
        house.ask("PUT", "/api/policy", policy)
        try:
            sessions = await _start(house, projects)
            await cli.reached("streaming")
            _spend(house, projects)
            yield Staged(house, sessions, projects)
        finally:
            cli.finish()


def _projects(folder: Path) -> Path:
    projects = folder / "code"
    for name in ("harbour", "lighthouse", "log-book"):
        (projects / name).mkdir(parents=True)
    (projects / "harbour/tides.py").write_text(TIDES)
    programs = folder / "programs"
    programs.mkdir()
    for name, tests in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\necho '{tests} passed in 0.61s'\n")
        (programs / name).chmod(0o755)
    return projects


async def _start(house: House, projects: Path) -> dict[str, str]:
    """One after the other, so that they are listed in this order."""

    def start(project: str, prompt: str, **options: Any) -> str:
        return house.start(prompt, cwd=str(projects / project), options=options)

    def state(session: str) -> str:
        return house.ask("GET", f"/api/sessions/{session}")["state"]

    done = [
        start("log-book", "Explain the sync protocol to me", model="sonnet"),
        start("lighthouse", "Update the dependencies", model="sonnet"),
        start("lighthouse", "Remove unused code"),
    ]
    for each in done:
        await until(lambda each=each: state(each) == "done")
    waiting: dict[str, str] = {}
    for name, project, prompt, options in (
        ("release", "lighthouse", "Prepare the 0.9 release and publish it", {}),
        ("plan", "harbour", "Make the chart list fast", {"mode": "plan"}),
        ("question", "log-book", "Add a map to the log book", {}),
    ):
        waiting[name] = start(project, prompt, **options)
        await until(lambda name=name: state(waiting[name]) == "awaiting_input")
    working = start("harbour", "Why are tide heights wrong around midnight? Mend it.")
    return {**waiting, "conversation": working, "done": done[0]}


def _spend(house: House, projects: Path) -> None:
    """What the days before would have cost, written where the server adds it up from."""
    lots = random.Random(7)
    file = next(house.machine.folder.rglob("*.db"))
    today = datetime.now().astimezone()
    with sqlite3.connect(file, timeout=20) as db:
        [session] = db.execute("SELECT min(key) FROM sessions").fetchone()
        for back in range(1, 30):
            at = today - timedelta(days=back)
            if at.weekday() == 6:
                continue
            for project, most in (("harbour", 9), ("lighthouse", 6), ("log-book", 4)):
                usd = lots.uniform(0.2, 1.0) * most * (0.3 if at.weekday() == 5 else 1)
                row = (int(at.timestamp() * 1000), at.date().isoformat(), usd)
                tokens = [int(usd * each) for each in (40_000, 9000, 900_000, 60_000)]
                db.execute(
                    "INSERT INTO costs VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (session, str(projects / project), *row, *tokens),
                )
                model = "claude-sonnet-5" if project == "log-book" else "claude-opus-5-5"
                db.execute(
                    "INSERT INTO model_costs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (session, model, *row, *tokens),
                )
