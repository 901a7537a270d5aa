"""A session that runs is interrupted, given more to do, and switched to another mode or model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.requests import Say
from pilothouse.errors import ControlError, NotNow, UnknownPrompt
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.real.turns import HeldCommand
from tests.support.versions import NATIVE, NEWEST

HELD = reply("One", gate("held"), " and two.")
WRITE = reply(tool("Write", file_path="{{cwd}}/note.txt", content="noted"))


async def held(it: EngineHarness, **options: Any) -> str:
    """A session in the middle of a turn."""
    session_id = await it.start(**options)
    await it.cli.reached("held")
    # The dialling CLI tells that it has taken a prompt when the model's message is whole.
    taken_late = it.version == NATIVE
    await it.when(session_id, lambda status: status.live and (taken_late or not status.queued))
    return session_id


# Interrupts and the queue


async def test_a_turn_is_interrupted_and_the_session_goes_on(house: OpenEngine) -> None:
    it = await house(HELD, "Here again.")
    session_id = await held(it)
    interrupted = await it.engine.interrupt(session_id)
    assert (interrupted.was_running, interrupted.still_queued) == (True, [])
    status = await it.until(session_id, "interrupted")
    assert status.live
    assert status.reason is not None
    await it.say(session_id, "hello?")
    assert (await it.until(session_id, "done")).result == "Here again."


@pytest.mark.simulated
async def test_an_interrupt_of_an_idle_session_changes_nothing(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    interrupted = await it.engine.interrupt(session_id)
    assert (interrupted.was_running, interrupted.state) == (False, "done")
    assert await it.records(session_id, "interrupt.asked") == []


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_what_is_said_during_a_turn_is_queued_and_runs_after(house: OpenEngine) -> None:
    it = await house(HELD, "Three.")
    session_id = await held(it)
    said = await it.engine.say(session_id, Say(content="and then?"))
    assert (said.queued, said.resumed) == (True, False)
    [queued] = (await it.engine.status(session_id)).queued
    assert (queued.prompt_id, queued.text) == (said.prompt_id, "and then?")
    it.cli.release("held")
    status = await it.when(session_id, lambda status: status.result == "Three.")
    assert status.queued == []
    assert "and then?" in it.heard()


@pytest.mark.simulated
async def test_what_is_said_while_a_tool_runs_joins_the_turn(house: OpenEngine) -> None:
    async with HeldCommand().serving() as command:
        it = await house(reply(command.call), "As you say.")
        session_id = await it.start()
        await it.answer(session_id, Allow())
        await command.running.wait()
        await it.say(session_id, "mind the rocks")
        await it.when(session_id, lambda status: [each.sent for each in status.queued] == [True])
        command.release()
        status = await it.until(session_id, "done")
    assert (status.result, status.turns, status.queued) == ("As you say.", 1, [])
    assert "mind the rocks" in it.heard()


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_what_is_queued_can_be_taken_back(house: OpenEngine) -> None:
    it = await house(HELD)
    session_id = await held(it)
    prompt_id = await it.say(session_id, "and then?")
    await it.when(session_id, lambda status: [each.sent for each in status.queued] == [True])
    assert (await it.engine.cancel(session_id, prompt_id)).cancelled
    assert (await it.engine.status(session_id)).queued == []
    it.cli.release("held")
    await it.until(session_id, "done")
    assert len(it.cli.requests) == 1
    with pytest.raises(UnknownPrompt, match="what a turn has taken can be interrupted"):
        await it.engine.cancel(session_id, prompt_id)


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_an_interrupt_says_what_is_still_queued_and_that_runs(house: OpenEngine) -> None:
    it = await house(HELD, "Three.")
    session_id = await held(it)
    prompt_id = await it.say(session_id, "and then?")
    await it.when(session_id, lambda status: [each.sent for each in status.queued] == [True])
    assert (await it.engine.interrupt(session_id)).still_queued == [prompt_id]
    assert (await it.until(session_id, "done")).result == "Three."


async def test_a_stopped_session_was_interrupted(house: OpenEngine) -> None:
    it = await house(HELD)
    session_id = await held(it)
    stopped = await it.engine.stop(session_id)
    assert (stopped.was_live, stopped.state) == (True, "interrupted")
    status = await it.engine.status(session_id)
    assert not status.live
    assert status.reason is not None
    assert not (await it.engine.stop(session_id)).was_live


# Modes


@pytest.mark.simulated
async def test_the_mode_switches_in_the_middle_of_a_turn(house: OpenEngine) -> None:
    it = await house(reply("One", gate("held"), *WRITE.steps), "Noted.")
    session_id = await held(it)
    changed = await it.engine.set_mode(session_id, "acceptEdits")
    assert (changed.mode, changed.how) == ("acceptEdits", "in_place")
    it.cli.release("held")
    status = await it.until(session_id, "done")
    assert (status.mode, status.result) == ("acceptEdits", "Noted.")
    assert (it.cwd / "note.txt").read_text() == "noted"
    assert await it.engine.questions(state="any") == []


async def test_a_mode_that_was_switched_holds_after_the_end_of_its_cli(house: OpenEngine) -> None:
    it = await house("One.", WRITE, "Noted.")
    session_id = await it.done()
    await it.engine.set_mode(session_id, "acceptEdits")
    await it.engine.stop(session_id)
    await it.say(session_id, "note it")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.mode, status.result) == ("acceptEdits", "Noted.")


async def test_a_mode_set_without_a_cli_holds_from_the_next_start(house: OpenEngine) -> None:
    it = await house("One.", WRITE, "Noted.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    assert (await it.engine.set_mode(session_id, "acceptEdits")).how == "at_next_start"
    assert (await it.engine.status(session_id)).mode == "acceptEdits"
    await it.say(session_id, "note it")
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "Noted."


@pytest.mark.simulated
async def test_a_message_can_bring_its_mode(house: OpenEngine) -> None:
    it = await house("One.", WRITE, "Noted.")
    session_id = await it.done()
    await it.say(session_id, "note it", mode="acceptEdits")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.mode, status.result) == ("acceptEdits", "Noted.")


@pytest.mark.simulated
async def test_a_question_that_is_open_survives_a_switch_of_the_mode(house: OpenEngine) -> None:
    it = await house(WRITE, "Noted.")
    session_id = await it.start()
    question = await it.asked(session_id)
    assert (await it.engine.set_mode(session_id, "plan")).how == "in_place"
    await it.engine.answer(question.id, Allow())
    assert (await it.until(session_id, "done")).mode == "plan"
    assert (it.cwd / "note.txt").exists()


FORBIDDEN: list[tuple[Any, dict[str, Any]]] = [
    ("auto", {"disableAutoMode": "disable"}),
    ("bypassPermissions", {"permissions": {"disableBypassPermissionsMode": "disable"}}),
]


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 refuses without a code, and is restarted")
@pytest.mark.parametrize(("mode", "settings"), FORBIDDEN)
async def test_a_mode_that_the_settings_forbid_is_refused_and_the_turn_goes_on(
    house: OpenEngine, mode: Any, settings: dict[str, Any]
) -> None:
    it = await house(HELD, allow_bypass=True)
    (it.cli.home / ".claude/settings.json").write_text(json.dumps(settings))
    # The CLI lets root bypass permissions in what is declared to be a sandbox, as this is.
    session_id = await held(it, env={"IS_SANDBOX": "1"})
    with pytest.raises(ControlError, match="disabled by settings"):
        await it.engine.set_mode(session_id, mode)
    it.cli.release("held")
    status = await it.until(session_id, "done")
    assert (status.mode, status.result) == ("default", "One and two.")
    assert await it.records(session_id, "options.changed") == []


# Models, thinking, context


async def test_the_model_changes_for_the_next_turn_and_every_later_start(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    session_id = await it.done()
    await it.engine.set_model(session_id, "haiku")
    await it.say(session_id, "second")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.model is not None
    assert "haiku" in status.model
    await it.engine.stop(session_id)
    await it.say(session_id, "third")
    await it.when(session_id, lambda status: status.turns == 3)
    first, second, third = (request.model for request in it.cli.requests)
    assert "haiku" not in first
    assert "haiku" in second
    assert third == second


@pytest.mark.simulated
async def test_the_thinking_changes_for_the_next_turn(house: OpenEngine) -> None:
    # A model that thinks as it sees fit has no budget; this one has.
    it = await house("One.", "Two.", "Three.")
    session_id = await it.done(model="claude-sonnet-4-5", max_thinking_tokens=5000)
    await it.engine.set_thinking(session_id, 2000)
    await it.say(session_id, "second")
    await it.when(session_id, lambda status: status.turns == 2)
    await it.engine.set_thinking(session_id, 0)
    await it.say(session_id, "third")
    await it.when(session_id, lambda status: status.turns == 3)
    kept = [each["options"] for each in await it.records(session_id, "options.changed")]
    assert [each["max_thinking_tokens"] for each in kept] == [2000, 0]
    budgets = [(each.body.get("thinking") or {}).get("budget_tokens") for each in it.cli.requests]
    # The simulator has no model that thinks.
    assert budgets == ([5000, 2000, None] if it.is_real else [None, None, None])


@pytest.mark.simulated
async def test_a_conversation_is_compacted(house: OpenEngine) -> None:
    it = await house("One.", "Two.", strict=False)
    session_id = await it.done("a long story")
    await it.engine.compact(session_id, "keep the end")
    await it.when(session_id, lambda status: status.turns == 2 and status.state == "done")
    assert any(request.is_compaction for request in it.cli.requests)
    await it.say(session_id, "go on")
    await it.when(session_id, lambda status: status.turns == 3)
    assert "The conversation so far, in short." in it.heard()


@pytest.mark.simulated
async def test_there_is_nothing_to_compact_before_the_first_turn(house: OpenEngine) -> None:
    it = await house(HELD, strict=False)
    session_id = await it.start()
    with pytest.raises(NotNow, match="nothing to compact"):
        await it.engine.compact(session_id)
