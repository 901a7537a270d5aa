"""A CLI dies, an engine ends and opens again: what is told afterwards, and what goes on."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from msgspec.structs import replace

from pilothouse.api.answers import Allow, ApprovePlan, Choose, ClearContext, Deny
from pilothouse.api.requests import Say, Start
from pilothouse.api.statuses import Status
from pilothouse.errors import QuestionSettled, TooManySessions
from pilothouse_sim.scenario import Branch, Reply, When, gate, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.versions import NEWEST

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "a"}, {"label": "Blue", "description": "b"}],
    "multiSelect": False,
}


def on(words: str, *replies: Reply | str) -> Branch:
    """What the model says when the last message has these words, in whichever CLI.

    After a turn that was cut off the last message has the one before in it, too.
    """
    told = tuple(reply(each) if isinstance(each, str) else each for each in replies)
    return Branch(when=When(last_contains=words), replies=told)


async def kill(it: EngineHarness, session_id: str) -> None:
    pid = (await it.engine.status(session_id)).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def at_rest(status: Status) -> Status:
    """What must be told again after a restart: all but what belongs to a process and a moment."""
    return replace(status, live=False, pid=None, cursor=0, updated_at=0, context=None)


# A CLI dies


@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_a_cli_killed_in_mid_turn_is_an_error_and_a_message_goes_on(
    house: OpenEngine,
) -> None:
    branches = [on("second", "Two."), on("first", reply("One", gate("held")))]
    it = await house(branches=branches)
    session_id = await it.start("first")
    await it.cli.reached("held")
    await it.when(session_id, lambda status: status.live)
    await kill(it, session_id)
    status = await it.until(session_id, "error")
    assert not status.live
    assert status.reason is not None
    assert "signal 9" in status.reason
    said = await it.engine.say(session_id, Say(content="second"))
    assert said.resumed
    assert (await it.until(session_id, "done")).result == "Two."


async def test_a_question_of_a_cli_that_died_is_decided_by_a_message(house: OpenEngine) -> None:
    it = await house(TOUCH, branches=[on("You had asked", "Then I know.")])
    session_id = await it.start()
    question = await it.asked(session_id)
    await kill(it, session_id)
    status = await it.until(session_id, "error")
    [withdrawn] = status.questions
    assert (withdrawn.id, withdrawn.state, withdrawn.decidable) == (question.id, "withdrawn", True)
    assert (await it.engine.list()).sessions[0].questions == 1
    answered = await it.engine.answer(question.id, Deny(reason="Not today."))
    assert (answered.resumed, answered.question.state) == (True, "answered")
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("Then I know.", [])
    assert "You had asked to run `touch made` when the session was interrupted." in it.heard()
    assert "The user says no: Not today." in it.heard()
    assert (await it.engine.answer(question.id, Deny(reason="Not today."))).repeated
    with pytest.raises(QuestionSettled):
        await it.engine.answer(question.id, Allow())


@pytest.mark.simulated
async def test_a_choice_after_the_end_of_the_cli_is_told_to_the_model(house: OpenEngine) -> None:
    ask = reply(tool("AskUserQuestion", questions=[COLOUR]))
    it = await house(ask, branches=[on("You had asked", "Blue it is.")])
    session_id = await it.start()
    question = await it.asked(session_id)
    await kill(it, session_id)
    await it.until(session_id, "error")
    await it.engine.answer(question.id, Choose(answers={"Which colour?": "Blue"}))
    assert (await it.until(session_id, "done")).result == "Blue it is."
    assert "- Which colour?: Blue" in it.heard()


@pytest.mark.simulated
async def test_a_decision_is_told_once_however_many_decide_at_once(house: OpenEngine) -> None:
    it = await house(TOUCH, branches=[on("You had asked", "Then I know.")])
    session_id = await it.start()
    question = await it.asked(session_id)
    await kill(it, session_id)
    await it.until(session_id, "error")
    both = await asyncio.gather(*(it.engine.answer(question.id, Deny()) for _ in range(3)))
    assert sorted(each.repeated for each in both) == [False, True, True]
    await it.until(session_id, "done")
    assert len(await it.records(session_id, "prompt.said")) == 2


@pytest.mark.simulated
async def test_the_plan_of_a_cli_that_died_is_implemented_by_a_new_session(
    house: OpenEngine,
) -> None:
    plan = reply(tool("Write", file_path="{{plan_file}}", content="# Plan\n\nLeap.\n"))
    done = [on("Implement the following plan", "Leapt.")]
    it = await house(plan, reply(tool("ExitPlanMode")), branches=done)
    session_id = await it.start(mode="plan")
    question = await it.asked(session_id)
    await kill(it, session_id)
    await it.until(session_id, "error")
    answered = await it.engine.answer(question.id, ClearContext())
    assert answered.new_session_id is not None
    assert (await it.until(answered.new_session_id, "done")).result == "Leapt."
    assert len(await it.records(session_id, "prompt.said")) == 1


@pytest.mark.simulated
async def test_a_plan_approved_after_the_end_of_its_cli_is_implemented_in_the_mode_chosen(
    house: OpenEngine,
) -> None:
    plan = reply(tool("Write", file_path="{{plan_file}}", content="# Plan\n\nLeap.\n"))
    note = reply(tool("Write", file_path="{{cwd}}/note.txt", content="leapt"))
    it = await house(
        plan,
        reply(tool("ExitPlanMode")),
        branches=[on("You had asked", note), on("note", "Leapt.")],
    )
    session_id = await it.start(mode="plan")
    question = await it.asked(session_id)
    await kill(it, session_id)
    await it.until(session_id, "error")
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits"))
    status = await it.until(session_id, "done")
    assert (status.mode, status.result, status.questions) == ("acceptEdits", "Leapt.", [])
    assert (it.cwd / "note.txt").read_text() == "leapt"
    assert "The user approves it: implement it." in it.heard()


@pytest.mark.simulated
async def test_a_stop_withdraws_the_question_for_good(house: OpenEngine) -> None:
    it = await house(TOUCH)
    session_id = await it.start()
    question = await it.asked(session_id)
    assert (await it.engine.stop(session_id)).state == "interrupted"
    assert (await it.engine.status(session_id)).questions == []
    question = await it.engine.question(question.id)
    assert (question.state, question.decidable) == ("withdrawn", False)
    with pytest.raises(QuestionSettled, match="withdrawn before"):
        await it.engine.answer(question.id, Allow())


@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_what_was_queued_when_the_cli_died_runs_once(house: OpenEngine) -> None:
    later = [on(words, "Done.", "Done.") for words in ("third", "second")]
    it = await house(branches=[*later, on("first", reply("One", gate("held")))])
    session_id = await it.start("first")
    await it.cli.reached("held")
    await it.when(session_id, lambda status: status.live)
    queued = await it.say(session_id, "second")
    await it.when(session_id, lambda status: any(each.sent for each in status.queued))
    await kill(it, session_id)
    status = await it.until(session_id, "error")
    assert [(each.prompt_id, each.sent) for each in status.queued] == [(queued, False)]
    await it.say(session_id, "third")
    status = await it.until(session_id, "done")
    assert status.queued == []
    assert it.heard().count("second") == 1
    assert it.heard().count("third") == 1


# An engine ends


async def test_a_question_outlives_its_engine_and_is_decided_after(piped: OpenEngine) -> None:
    it = await piped(TOUCH, branches=[on("You had asked", "Made, then.")])
    session_id = await it.start()
    question = await it.asked(session_id)
    await it.close()
    await it.open()
    [withdrawn] = (await it.engine.status(session_id)).questions
    assert (withdrawn.id, withdrawn.state, withdrawn.decidable) == (question.id, "withdrawn", True)
    answered = await it.engine.answer(question.id, Allow())
    assert answered.resumed
    assert (await it.until(session_id, "done")).result == "Made, then."
    assert "The user allows it" in it.heard()


@pytest.mark.simulated
async def test_an_engine_that_crashed_tells_what_it_had_known(piped: OpenEngine) -> None:
    it = await piped(TOUCH, branches=[on("You had asked", "Made, then.")])
    session_id = await it.start()
    question = await it.asked(session_id)
    crashed = await it.crashed()
    status = await crashed.status(session_id)
    assert (status.state, status.live, status.reason) == ("error", False, "the server ended")
    assert [(each.id, each.state) for each in status.questions] == [(question.id, "withdrawn")]


@pytest.mark.simulated
async def test_an_engine_that_opens_again_tells_the_same(piped: OpenEngine) -> None:
    it = await piped("One.", TOUCH, "Two.")
    session_id = await it.done("first", label="port")
    await it.say(session_id, "second")
    await it.answer(session_id, Allow())
    before = await it.when(session_id, lambda status: status.turns == 2)
    await it.close()
    await it.open()
    after = await it.engine.status(session_id)
    assert at_rest(after) == at_rest(before)
    assert (after.live, after.label, after.result) == (False, "port", "Two.")


@pytest.mark.simulated
async def test_an_engine_that_crashed_at_rest_tells_the_same(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    before = await it.engine.status(session_id)
    assert at_rest(await (await it.crashed()).status(session_id)) == at_rest(before)


# Idle ones


async def test_an_idle_cli_is_closed_and_resumed_on_demand(house: OpenEngine) -> None:
    it = await house("One.", "Two.", idle_close_s=0.05)
    session_id = await it.start()
    status = await it.when(session_id, lambda status: status.turns == 1 and not status.live)
    assert (status.state, status.result) == ("done", "One.")
    said = await it.engine.say(session_id, Say(content="more"))
    assert said.resumed
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.result == "Two."


@pytest.mark.simulated
async def test_an_open_question_keeps_its_cli(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.", idle_close_s=0.01)
    session_id = await it.start()
    question = await it.asked(session_id)
    await it.engine.context_usage(session_id)
    await it.engine.answer(question.id, Allow())
    status = await it.when(session_id, lambda status: status.turns == 1)
    assert status.result == "Made."


@pytest.mark.simulated
async def test_an_idle_session_makes_room_for_another(house: OpenEngine) -> None:
    it = await house(branches=[on("first", "One."), on("second", "Two.")], max_sessions=1)
    first = await it.done("first")
    # A CLI says that it is idle only after the result of its turn.
    await it.when(first, lambda _: it.engine.sessions[first].is_idle)
    second = await it.done("second")
    assert not (await it.engine.status(first)).live
    assert (await it.engine.status(second)).live
    assert (await it.engine.status(first)).state == "done"
    assert [each.session_id for each in (await it.engine.list(live=True)).sessions] == [second]


@pytest.mark.simulated
async def test_where_no_session_is_idle_another_is_refused_with_what_to_do(
    house: OpenEngine,
) -> None:
    held = on("first", reply("One", gate("held")))
    it = await house(branches=[held, on("third", "Three.")], max_sessions=1, strict=False)
    first = await it.start("first")
    await it.cli.reached("held")
    events = len(await it.events())
    with pytest.raises(TooManySessions, match="stop one, or raise MAX_SESSIONS"):
        await it.engine.start(Start(prompt="second", cwd=str(it.cwd)))
    assert {each.session_id for each in (await it.events())[events:]} <= {first}
    await it.engine.stop(first)
    await it.done("third")
