"""Once nothing can be kept, nobody is told that something was."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from pilothouse.api.operations import OPERATIONS
from pilothouse.api.requests import Say
from pilothouse.errors import JournalError
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.http.serving import calling, make_app
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.simulated

TOUCH = reply(tool("Bash", command="touch made", description="Do it"))

NEEDS_NO_JOURNAL = {
    "directories": 200,
    "policy": 200,
    "save_policy": 200,
    "settings": 200,
    "dial_ins": 200,
    "runners": 200,
    "add_runner": 201,
    "drain_runner": 200,
    "revoke_runner": 200,
    # What is committed stays so.
    "read": 200,
}
BODIES: dict[str, Any] = {
    "start": {"prompt": "hi", "cwd": "/"},
    "say": {"content": "more"},
    "fork": {"prompt": "again"},
    "rewind": {"prompt_id": "p-1"},
    "compact": {},
    "set_mode": {"mode": "plan"},
    "set_model": {"model": None},
    "set_thinking": {"tokens": 1024},
    "mcp_set": {"servers": {}},
    "mcp_message": {"message": {}},
    "mcp_toggle": {"enabled": False},
    "control": {"subtype": "get_status", "fields": {}},
    "answer": {"kind": "allow"},
    "ask": {
        "tool_name": "Bash",
        "tool_use_id": "u",
        "input": {},
        "cwd": "/",
        "session_id": "s",
        "wait_s": 0,
    },
    "withdraw": {"because": "it has gone"},
    "policy_dry_run": {"text": ""},
    "save_policy": {"text": ""},
    "dial_in": {"cwd": "/"},
    "add_runner": {"name": "attic"},
}


async def fail(it: EngineHarness) -> None:
    """Let the disk be full, and wait until every CLI is let go of."""

    def append(_: Sequence[Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    journal: Any = it.engine.journal
    journal._writer._commit = append
    with pytest.raises(JournalError, match="full"):
        await journal.post([]).committed
    _, minding = it.engine._recovery._tasks
    await asyncio.wait_for(minding, DEADLINE)


async def test_every_verb_says_that_nothing_can_be_kept(piped: OpenEngine) -> None:
    await every_verb_is_refused(await piped(TOUCH, "Made."))


async def test_every_verb_says_so_while_clis_go_on_behind_relays(relayed: OpenEngine) -> None:
    await every_verb_is_refused(await relayed(TOUCH, "Made."))


async def every_verb_is_refused(it: EngineHarness) -> None:
    session_id = await it.start()
    question = await it.asked(session_id)
    await fail(it)
    paths = {
        each.name: each.path.format(
            session_id=session_id,
            question_id=question.id,
            prompt_id="p-1",
            server="files",
            name="attic",
        )
        for each in OPERATIONS
    }
    paths["item_source"] += "?item=any"
    paths["directories"] += "?path=/"
    told: dict[str, int] = {}
    async with calling(make_app(it.engine)) as http:
        for each in OPERATIONS:
            answer = await http.request(
                each.method, paths[each.name], json=BODIES.get(each.name), timeout=DEADLINE
            )
            told[each.name] = answer.status_code
            if answer.status_code == 503 and each.ill is None:
                assert answer.json()["code"] == "journal-error"
                assert "see to its disk" in answer.json()["detail"]
        assert (await http.get("/healthz")).status_code == 503
    assert told == {each.name: 503 for each in OPERATIONS} | NEEDS_NO_JOURNAL
    await it.close()
    await it.open()


async def test_a_message_under_way_is_refused_and_not_the_session(relayed: OpenEngine) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    saying = [asyncio.ensure_future(it.engine.say(session_id, Say(content="on"))) for _ in range(3)]
    await fail(it)
    for each in saying:
        with pytest.raises(JournalError, match="see to its disk"):
            await each
    await it.close()
    assert len(it.relays()) == 1
    await it.open()
    assert (await it.engine.status(session_id)).state == "done"
