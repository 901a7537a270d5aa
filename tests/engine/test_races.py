"""Verbs that meet: at once, while a CLI starts, and while it goes."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.api.answers import Allow, Deny
from pilothouse.api.requests import Fork, Say
from pilothouse.engine import session
from pilothouse_sim.scenario import Branch, Reply, When, gate, reply, tool
from tests.support.engine.harness import OpenEngine
from tests.support.waiting import DEADLINE

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))


def on(words: str, *replies: Reply | str) -> Branch:
    told = tuple(reply(each) if isinstance(each, str) else each for each in replies)
    return Branch(when=When(last_contains=words), replies=told)


@pytest.mark.simulated
async def test_messages_that_come_at_once_to_a_session_at_rest_start_one_cli(
    house: OpenEngine,
) -> None:
    later = [on(words, "So.", "So.", "So.") for words in ("third", "second")]
    it = await house("One.", branches=later)
    session_id = await it.done("first")
    await it.engine.stop(session_id)
    said = await asyncio.gather(
        *(it.engine.say(session_id, Say(content=words)) for words in ("second", "third"))
    )
    assert any(each.resumed for each in said)
    await it.when(session_id, lambda status: not status.queued and status.state == "done")
    assert len(await it.records(session_id, "cli.started")) == 2
    assert it.heard().count("second") == it.heard().count("third") == 1


async def test_a_message_while_the_cli_goes_is_said_to_the_next_one(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    _, said = await asyncio.gather(
        it.engine.stop(session_id), it.engine.say(session_id, Say(content="more"))
    )
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.queued) == ("Two.", [])
    assert said.session_id == session_id


async def test_a_turn_is_interrupted_while_its_cli_starts(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a machine with much else to do a start takes longer than a person would wait.
    monkeypatch.setattr(session, "START_WITHIN_S", DEADLINE)
    monkeypatch.setattr(session, "BEGIN_WITHIN_S", DEADLINE)
    it = await house(reply("One", gate("held")), strict=False)
    session_id = await it.start()
    assert (await it.engine.interrupt(session_id)).was_running
    status = await it.until(session_id, "interrupted")
    assert status.queued == []


@pytest.mark.simulated
async def test_answers_that_come_at_once_are_one_and_a_refusal(house: OpenEngine) -> None:
    it = await house(TOUCH, "So be it.")
    session_id = await it.start()
    question = await it.asked(session_id)
    told = await asyncio.gather(
        *(it.engine.answer(question.id, each) for each in (Allow(), Deny(), Allow())),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in told] == ["Answered", "QuestionSettled", "Answered"]
    await it.until(session_id, "done")
    assert (it.cwd / "made").exists()


async def test_a_mode_that_the_model_left_is_set_again_for_the_next_start(
    house: OpenEngine,
) -> None:
    it = await house(reply(tool("EnterPlanMode")), "Planning.", "Here again.")
    session_id = await it.done(mode="default")
    assert (await it.engine.status(session_id)).mode == "plan"
    await it.engine.stop(session_id)
    await it.engine.set_mode(session_id, "default")
    await it.say(session_id, "never mind")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.mode == "default"


@pytest.mark.simulated
async def test_a_fork_is_in_the_mode_its_parent_is_in(house: OpenEngine) -> None:
    it = await house(reply(tool("EnterPlanMode")), "Planning.", branches=[on("aside", "Aside.")])
    session_id = await it.done(mode="default")
    fork = await it.engine.fork(session_id, Fork(prompt="aside"))
    assert (await it.until(fork.session_id, "done")).mode == "plan"
