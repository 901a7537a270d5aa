"""What an engine adds up: days with their starts, turns and waits, rules, and a session's time."""

from __future__ import annotations

import json

import pytest

from pilothouse.api.answers import Allow
from pilothouse.engine.recorder import day_of
from pilothouse.errors import UnknownSession
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import OpenEngine

pytestmark = pytest.mark.simulated
TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
WRITE = reply(tool("Write", file_path="/tmp/x", content="x"))


async def test_days_count_our_sessions_and_those_from_terminals(house: OpenEngine) -> None:
    it = await house(TOUCH, "Done.")
    folder = it.cli.home / ".claude/projects/-somewhere"
    folder.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": "u",
        "parentUuid": None,
        "sessionId": "0b7c2c3e-7a51-4d1f-9a57-3f5a1e1d2c3b",
        "timestamp": "2026-03-05T12:00:00.000Z",
        "cwd": str(it.cwd),
        "message": {"role": "user", "content": "hello"},
    }
    (folder / f"{line['sessionId']}.jsonl").write_text(json.dumps(line) + "\n")
    session_id = await it.start()
    question = await it.asked(session_id)
    await it.engine.answer(question.id, Allow())
    status = await it.until(session_id, "done")
    told = await it.engine.activity()
    assert status.started_at is not None
    today = day_of(status.started_at)
    assert {each.day: (each.sessions, each.turns) for each in told.days} == {
        "2026-03-05": (1, 0),
        today: (1, 1),
    }
    closed = (await it.engine.question(question.id)).closed_at
    assert closed is not None
    waited = closed - question.opened_at
    assert sum(each.waited_ms for each in told.days) == waited
    assert (told.asked, told.answered_by_rules, told.median_wait_ms) == (1, 0, waited)
    since = await it.engine.activity(since=status.started_at - 1000)
    assert [each.day for each in since.days] == [today]


async def test_rules_are_counted_with_their_last_decision(house: OpenEngine) -> None:
    it = await house(TOUCH, "Done.", TOUCH, "Done.")
    rule = '[[rule]]\nname = "makes"\naction = "allow"\ntool = "Bash"\n'
    await it.engine.save_policy(rule)
    for _ in range(2):
        session_id = await it.start()
        await it.until(session_id, "done")
    [use] = (await it.engine.activity()).rules
    asked = await it.engine.questions(state="any")
    assert (use.rule, use.answered, use.asked) == ("makes", 2, 0)
    assert use.last == max(each.opened_at for each in asked)


async def test_a_timeline_has_all_of_a_session_s_time(house: OpenEngine) -> None:
    it = await house(TOUCH, "Done.")
    session_id = await it.start()
    question = await it.asked(session_id)
    told = await it.engine.timeline(session_id)
    assert told.is_going_on
    assert told.spans[-1].doing == "person"
    await it.engine.answer(question.id, Allow())
    await it.until(session_id, "done")
    await it.events()
    told = await it.engine.timeline(session_id)
    closed = (await it.engine.question(question.id)).closed_at
    assert closed is not None
    assert told.totals["person"] == closed - question.opened_at
    assert [each.name for each in told.spans if each.doing == "person"] == [question.title]
    assert not told.is_going_on
    with pytest.raises(UnknownSession):
        await it.engine.timeline("nobody")
