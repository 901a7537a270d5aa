"""A session that begins with another one's conversation."""

from __future__ import annotations

import pytest

from pilothouse.api.requests import Fork, SessionOptions
from pilothouse.errors import NotNow
from pilothouse_sim.scenario import Branch, When, gate, reply
from tests.support.engine.harness import EngineHarness, OpenEngine


def on(words: str, answer: str) -> Branch:
    return Branch(when=When(last_contains=words), replies=(reply(answer), reply(answer)))


TALK = [on("first", "One."), on("second", "Two."), on("aside", "Aside."), on("more", "More.")]


async def forked(it: EngineHarness, session_id: str, **more: object) -> str:
    request = Fork(prompt="aside", **more)  # type: ignore[arg-type]  # as the caller gives them
    started = await it.engine.fork(session_id, request)
    await it.until(started.session_id, "done")
    return started.session_id


async def test_a_fork_knows_the_conversation_and_leaves_it_as_it_was(house: OpenEngine) -> None:
    it = await house(branches=TALK)
    first = await it.done("first", label="port", mode="acceptEdits")
    fork = await forked(it, first)
    assert fork != first
    status = await it.engine.status(fork)
    assert (status.parent, status.label, status.mode) == (first, "port", "acceptEdits")
    assert status.result == "Aside."
    assert "One." in it.heard()
    await it.say(first, "second")
    await it.when(first, lambda status: status.result == "Two.")
    assert "aside" not in it.heard()


async def test_a_fork_goes_on_after_its_cli_is_gone(house: OpenEngine) -> None:
    it = await house(branches=TALK)
    first = await it.done("first")
    fork = await forked(it, first)
    await it.engine.stop(fork)
    await it.say(fork, "more")
    status = await it.when(fork, lambda status: status.turns == 2)
    assert (status.result, status.claude_session_id) == ("More.", fork)
    assert "aside" in it.heard()


async def test_a_fork_can_begin_at_an_earlier_message(house: OpenEngine) -> None:
    it = await house(branches=TALK)
    first = await it.done("first")
    [answer] = [each for each in await it.records(first, "cli") if each["type"] == "assistant"]
    await it.say(first, "second")
    await it.when(first, lambda status: status.turns == 2)
    await forked(it, first, at=answer["uuid"])
    assert "One." in it.heard()
    assert "second" not in it.heard()


async def test_a_fork_can_have_options_of_its_own(house: OpenEngine) -> None:
    it = await house(branches=TALK)
    first = await it.done("first", mode="acceptEdits")
    fork = await forked(it, first, options=SessionOptions(mode="plan"), label="starboard")
    status = await it.engine.status(fork)
    assert (status.mode, status.label) == ("plan", "starboard")


@pytest.mark.simulated
async def test_the_same_key_forks_once(house: OpenEngine) -> None:
    it = await house(branches=TALK)
    first = await it.done("first")
    request = Fork(prompt="aside", key="k")
    fork = await it.engine.fork(first, request)
    again = await it.engine.fork(first, request)
    assert (again.session_id, again.repeated) == (fork.session_id, True)
    await it.until(fork.session_id, "done")


async def test_a_session_without_a_conversation_cannot_be_forked(house: OpenEngine) -> None:
    it = await house(reply(gate("held"), "One."), strict=False)
    session_id = await it.start()
    with pytest.raises(NotNow, match="wait for its first turn"):
        await it.engine.fork(session_id, Fork(prompt="aside"))
