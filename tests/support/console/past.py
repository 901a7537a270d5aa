"""A journal that a server finds when it starts: what was done on some days, to the minute."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from datetime import time as clock

from pilothouse.api.codec import encode_strictly
from pilothouse.api.questions import Question
from pilothouse.api.records import SessionStarted, encode_record
from pilothouse.api.statuses import Listed, ModelSpent, Tokens
from pilothouse.folders import make_private
from pilothouse.journal.contract import Changes, CostRow, Draft, SessionRow
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.server.cli_choice import journal_path
from pilothouse.settings import Settings

MINUTE = 60_000
POLICY = """
[[rule]]
name = "reads"
action = "allow"
tool = ["Read", "Grep"]

[[rule]]
name = "writes"
action = "ask"
tool = "Write"

[[rule]]
name = "pushes"
action = "deny"
command = "git push*"
"""


def noon(days_ago: int) -> int:
    day = date.today() - timedelta(days=days_ago)
    return int(datetime.combine(day, clock(12)).timestamp() * 1000)


def day_name(days_ago: int) -> str:
    """As the page's tables have it, in the browser's English."""
    day = date.today() - timedelta(days=days_ago)
    return f"{day:%a}, {day:%b} {day.day}, {day.year}"


async def write_past(settings: Settings) -> None:
    """Four days ago half an hour of work; one day ago an hour, with twenty minutes of waiting."""
    path = journal_path(settings, simulated=True)
    make_private(path.parent)
    settings.policy_file.parent.mkdir(parents=True, exist_ok=True)
    settings.policy_file.write_text(POLICY)
    journal = await SqliteJournal.open(path)
    long_ago, lately = noon(4), noon(1)
    for name, at in (("harbour-1", long_ago), ("harbour-2", lately), ("pier-1", lately)):
        kind, body = encode_record(SessionStarted(cwd=f"/home/sailor/work/{name[:-2]}"))
        journal.post([Draft(name, kind, at, body)], Changes(sessions=[_row(name, at)]))
    asked = [
        _question("read-1", "harbour-1", long_ago, 0, "policy", "reads"),
        _question("read-2", "harbour-2", lately, 0, "policy", "reads"),
        _question("push", "pier-1", lately, 0, "policy", "of an older file"),
        # Two at a time: the session waits once.
        _question("write", "pier-1", lately + 5 * MINUTE, 15 * MINUTE, "person", "writes"),
        _question("run", "pier-1", lately + 15 * MINUTE, 10 * MINUTE, "person", None),
    ]
    costs = [
        _cost("harbour-1", long_ago + 30 * MINUTE, 30 * MINUTE, {"opus": (1.0, 1000)}),
        _cost(
            "pier-1", lately + 60 * MINUTE, 60 * MINUTE, {"opus": (2.0, 3000), "haiku": (0.5, 500)}
        ),
    ]
    await journal.post([], Changes(questions=asked, costs=costs)).committed
    await journal.aclose()


def _row(name: str, at: int) -> SessionRow:
    cwd = f"/home/sailor/work/{name[:-2]}"
    listed = Listed(session_id=name, cwd=cwd, title=name, updated_at=at, state="done")
    return SessionRow(
        session_id=name,
        at_work=False,
        conversation=name,
        updated_at=at,
        cwd=cwd,
        state="done",
        search=listed.search_text,
        summary=encode_strictly(listed),
    )


def _question(name: str, session: str, at: int, took: int, by: str, rule: str | None) -> Question:
    return Question(
        id=name,
        session_id=session,
        kind="tool",
        state="answered",
        title=f"Question {name}",
        tool_name="Bash",
        opened_at=at,
        closed_at=at + took,
        answered_by=by,
        rule=rule,
        decidable=False,
    )


def _cost(session: str, at: int, took: int, models: dict[str, tuple[float, int]]) -> CostRow:
    spent = {
        name: ModelSpent(cost_usd=usd, tokens=Tokens(input=tokens))
        for name, (usd, tokens) in models.items()
    }
    return CostRow(
        session_id=session,
        project=f"/home/sailor/work/{session[:-2]}",
        at=at,
        day=time.strftime("%Y-%m-%d", time.localtime(at / 1000)),
        usd=sum(usd for usd, _ in models.values()),
        tokens=Tokens(input=sum(tokens for _, tokens in models.values())),
        models=spent,
        duration_ms=took,
    )
