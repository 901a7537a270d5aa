"""What a row of a list shows of a session, at work and at rest."""

from __future__ import annotations

import msgspec
import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.codec import encode_strictly
from pilothouse.api.records import PromptSaid, SessionStarted
from pilothouse.api.statuses import Listed
from pilothouse.engine.activity import last_line
from pilothouse.engine.view import View
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli

pytestmark = pytest.mark.simulated


async def row(it: EngineHarness, session_id: str) -> Listed:
    found = {each.session_id: each for each in (await it.engine.list()).sessions}
    return found[session_id]


async def test_a_row_shows_what_a_session_said_last_and_how_it_is(house: OpenEngine) -> None:
    it = await house("The boats are moored.\n\nAll seven of them.\n")
    session_id = await it.done(mode="acceptEdits")
    shown, status = await row(it, session_id), await it.engine.status(session_id)
    assert shown.last_line == "All seven of them."
    assert (shown.model, shown.mode) == (status.model, "acceptEdits")
    assert status.context is not None
    assert shown.context_percent == round(status.context.percent or 0)
    assert (shown.tokens, shown.reason, shown.waiting_on) == (status.tokens, None, None)
    assert status.started_at < (shown.since or 0) <= shown.updated_at


async def test_a_row_shows_what_runs_and_what_is_waited_for(house: OpenEngine) -> None:
    it = await house(reply("I write.", tool("Write", file_path="a.txt", content="a")), "One.")
    session_id = await it.start()
    question = await it.asked(session_id)
    shown = await row(it, session_id)
    assert shown.last_line is not None
    assert shown.last_line.startswith("Write: ")
    assert shown.waiting_on is not None
    assert (shown.waiting_on.what, shown.waiting_on.detail) == ("person", question.title)
    assert shown.state == "awaiting_input"
    assert question.opened_at <= (shown.since or 0) <= shown.updated_at
    await it.engine.answer(question.id, Allow())
    await it.until(session_id, "done")
    shown = await row(it, session_id)
    assert (shown.last_line, shown.waiting_on) == ("One.", None)


async def test_a_row_says_why_a_session_is_at_rest(house: OpenEngine) -> None:
    it = await house(reply("One", gate("held")))
    session_id = await it.start()
    await it.cli.reached("held")
    await it.engine.interrupt(session_id)
    status = await it.until(session_id, "interrupted")
    assert status.reason
    assert (await row(it, session_id)).reason == status.reason


async def test_a_session_at_rest_has_the_row_that_it_came_to_rest_with(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    before = await row(it, session_id)
    await it.close()
    await it.open()
    assert session_id not in it.engine.sessions
    assert await row(it, session_id) == before
    assert before.last_line == "One."


async def test_a_session_on_disk_shows_its_model_and_its_last_line(house: OpenEngine) -> None:
    it = await house("The first line.\nThe second.")
    session_id = await run_bare_cli(it, "a question of old")
    shown = await row(it, session_id)
    assert (shown.source, shown.last_line) == ("transcript", "The second.")
    assert shown.model
    assert (shown.since, shown.context_percent, shown.waiting_on) == (None, None, None)


def test_a_row_of_an_older_version_has_no_more_than_it_had() -> None:
    old = {"session_id": "s", "cwd": "/", "title": "t", "updated_at": 7, "state": "done"}
    shown = msgspec.json.decode(msgspec.json.encode(old), type=Listed)
    assert (shown.model, shown.since, shown.last_line, shown.tokens) == (None, None, None, None)


def test_a_row_tells_since_when_a_session_is_in_its_state() -> None:
    view = View(session_id="s")
    view.apply_record(1, 1000, SessionStarted(cwd="/"))
    assert view.listed().since == 1000
    view.apply_record(2, 2000, PromptSaid(id="p", content="go"))
    view.apply_record(3, 3000, PromptSaid(id="q", content="on"))
    assert (view.listed().state, view.listed().since) == ("active", 2000)


def test_whatever_a_model_writes_makes_a_row() -> None:
    assert last_line(" \n \n") == ""
    assert last_line("a\n  b  \n\n") == "b"
    assert last_line("x" * 1000) == "x" * 199 + "…"
    view = View(session_id="s")
    view.activity.line = last_line("half \ud800")
    assert msgspec.json.decode(encode_strictly(view.listed()), type=Listed).last_line
