"""A journal that an older version could not go on with is opened, read, and gone on with."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, suppress
from datetime import date
from pathlib import Path

import pytest

from pilothouse.api.requests import Say
from pilothouse.errors import Refused
from tests.support.fuzz.findings import Findings
from tests.support.fuzz.mutation import DATA
from tests.support.fuzz.stage import FuzzStage, fuzz_staged
from tests.support.waiting import DEADLINE

LEFT = sorted(path.stem for path in (DATA / "journals").glob("*.sql"))
SESSIONS = {"token-counts": 2, "costs": 4, "directory": 2}
HONEST = "/home/dev/honest"


def laid_out(name: str, path: Path) -> None:
    """The journal as it was left, on the day on which all of it was spent."""
    path.parent.mkdir(parents=True, mode=0o700)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA auto_vacuum = 2")
        db.executescript((DATA / f"journals/{name}.sql").read_text())
        db.execute(f"PRAGMA application_id = {0x50486A6C}")
        db.execute("PRAGMA user_version = 2")
        db.execute("UPDATE costs SET day = ?", (date.today().isoformat(),))
        db.commit()
    path.chmod(0o600)


async def check_told(stage: FuzzStage, count: int) -> None:
    """Everything is told, and what was in order before is as it was."""
    listing = await stage.engine.list(limit=100)
    assert listing.total == count
    [honest] = [each for each in listing.sessions if each.cwd == HONEST]
    status = await stage.engine.status(honest.session_id)
    assert (status.result, status.turns, status.cost_usd) == ("fine", 1, 0.5)
    costs = await stage.engine.cost("session", session_id=honest.session_id)
    assert [(line.usd, line.turns, line.tokens.input) for line in costs.lines] == [(0.5, 1, 3)]
    await stage.read()


async def check_goes_on(stage: FuzzStage) -> None:
    """A new session ends its turn; an old one is spoken to, or says why not."""
    session_id = await stage.start()
    result = {"type": "result", "subtype": "success", "result": "new", "total_cost_usd": 0.25}
    stage.clis[session_id].tell(json.dumps(result).encode())
    await stage.settle()
    assert (await stage.engine.status(session_id)).result == "new"
    for old in await stage.engine.journal.sessions():
        with suppress(Refused):
            async with asyncio.timeout(DEADLINE):
                await stage.engine.say(old, Say(content="go on"))
    await stage.settle()
    assert (await stage.engine.health()).ok


@pytest.mark.parametrize("name", LEFT)
async def test_what_an_older_version_left_is_gone_on_with(name: str, tmp_path: Path) -> None:
    laid_out(name, tmp_path / "journal/journal.db")
    findings = Findings(0)
    async with fuzz_staged(tmp_path, findings) as stage:
        await check_told(stage, SESSIONS[name])
        await check_goes_on(stage)
        await stage.close()
        await stage.open()
        await check_told(stage, SESSIONS[name] + 1)
    findings.check()
