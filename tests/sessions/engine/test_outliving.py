"""A CLI goes on while no engine runs, and the next engine goes on with it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from pilothouse.errors import SessionTaken
from pilothouse.sessions.answers import Allow, Deny
from pilothouse.sessions.contract import Say
from pilothouse.testing.scenario import Branch, Reply, When, gate, reply, tool
from tests.sessions.engine.conftest import Housing
from tests.sessions.engine.house import DEADLINE, House, opened

TOUCH = reply(tool("Bash", command="echo made >> made", description="Make it"))
SLOW = reply("Some ", gate("middle"), "words.")


def on(words: str, told: Reply) -> Branch:
    return Branch(when=When(last_contains=words), replies=(told,))


async def made(it: House) -> int:
    """How often the tool has run."""
    return len((it.cwd / "made").read_text().splitlines())


async def reopened(it: House, **flags: object) -> None:
    await it.close()
    await it.open(**flags)


async def test_a_question_is_open_after_a_restart_and_its_answer_reaches_the_cli(
    relayed: Housing,
) -> None:
    it = await relayed(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    before = await it.engine.status(session_id)
    await reopened(it)
    after = await it.engine.status(session_id)
    assert (after.state, after.live) == ("awaiting_input", True)
    assert after.questions == before.questions
    assert not (await it.engine.answer(question.id, Allow())).resumed
    status = await it.until(session_id, "done")
    assert (status.result, status.turns, status.pid) == ("Made.", 1, before.pid)
    assert await made(it) == 1
    for kind in ("question.opened", "question.closed", "cli.started"):
        assert len(await it.records(session_id, kind)) == 1


async def test_an_answer_that_no_cli_has_heard_is_given_after_the_restart(relayed: Housing) -> None:
    it = await relayed(TOUCH, "I see.")
    session_id = await it.start()
    question = await it.asked(session_id)
    asking = it.engine.sessions[session_id].asking
    assert asking is not None
    # As if the engine had died between keeping the answer and giving it.
    asking.leave()
    asking.give = lambda *_: None  # type: ignore[method-assign]
    await it.engine.answer(question.id, Deny(reason="not today"))
    await reopened(it)
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("I see.", [])
    assert any("not today" in each for each in it.told())


async def test_a_turn_goes_on_while_no_engine_runs(relayed: Housing) -> None:
    it = await relayed(SLOW)
    session_id = await it.start()
    await it.cli.reached("middle")
    before = await it.engine.status(session_id)
    await it.close()
    it.cli.release("middle")
    await it.open()
    status = await it.until(session_id, "done")
    assert (status.result, status.pid, status.turns) == ("Some words.", before.pid, 1)


async def test_a_message_to_a_session_that_goes_on_reaches_the_same_cli(relayed: Housing) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    before = await it.engine.status(session_id)
    await reopened(it)
    assert not (await it.engine.say(session_id, Say(content="more"))).resumed
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.pid) == ("Two.", before.pid)
    assert (await it.engine.models(session_id)) is not None


async def test_a_message_that_was_noted_as_sent_but_never_kept_for_the_cli_is_sent(
    relayed: Housing,
) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    session = it.engine.sessions[session_id]
    said = session.prompt("more")
    await session.write(said).committed
    session.view.queued[said.id].sent = True
    await reopened(it)
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.result == "Two."


async def test_the_end_of_a_cli_is_told_after_the_restart(relayed: Housing) -> None:
    it = await relayed(SLOW, "Again.")
    session_id = await it.start()
    await it.cli.reached("middle")
    pid = (await it.engine.status(session_id)).pid
    assert pid is not None
    await it.close()
    os.kill(pid, signal.SIGKILL)
    await it.open()
    status = await it.until(session_id, "error")
    assert (status.live, "signal 9" in (status.reason or "")) == (False, True)
    assert (await it.engine.say(session_id, Say(content="more"))).resumed


async def test_a_relay_that_is_killed_while_no_engine_runs_is_missed(relayed: Housing) -> None:
    it = await relayed(TOUCH, "One.")
    session_id = await it.start()
    question = await it.asked(session_id)
    [relay] = it.relays()
    await it.close()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await it.gone(relay.relay_pid, relay.cli_pid)
    await it.open()
    status = await it.engine.status(session_id)
    assert (status.state, status.live) == ("error", False)
    assert "relay" in (status.reason or "")
    assert [(each.id, each.state) for each in status.questions] == [(question.id, "withdrawn")]


async def test_no_other_engine_can_run_a_session_whose_cli_goes_on(relayed: Housing) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    await it.close()
    other = await it.another(state_dir=str(it.folder / "other"))
    with pytest.raises(SessionTaken):
        await other.say(session_id, Say(content="mine"))
    await it.open()
    await it.say(session_id, "more")
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "Two."


async def test_stopping_all_ends_what_would_go_on(relayed: Housing) -> None:
    branches = [on("first", SLOW), on("second", TOUCH)]
    it = await relayed(branches=branches)
    first = await it.start("first")
    await it.cli.reached("middle")
    second = await it.start("second")
    await it.asked(second)
    relays = it.relays()
    assert sorted((await it.engine.stop_all()).sessions) == sorted([first, second])
    await it.gone(*(each.relay_pid for each in relays), *(each.cli_pid for each in relays))
    assert it.relays() == []


async def test_many_sessions_are_found_again_at_once(relayed: Housing) -> None:
    words = ("north", "east", "south", "west")
    it = await relayed(branches=[on(each, reply("One.")) for each in words])
    names = [await it.start(each) for each in words]
    for each in names:
        await it.until(each, "done", "awaiting_input")
    pids = {each: (await it.engine.status(each)).pid for each in names}
    await reopened(it)
    async with asyncio.timeout(DEADLINE):
        for each in names:
            status = await it.when(each, lambda status: status.pid is not None)
            assert (status.live, status.pid) == (True, pids[each])
            assert opened(status) == []


async def test_a_cli_that_cannot_be_taken_up_says_why(relayed: Housing) -> None:
    it = await relayed("One.", allow_bypass=True)
    bypassing = {"permissions": {"defaultMode": "bypassPermissions"}}
    session_id = await it.done(settings=bypassing, env={"IS_SANDBOX": "1"})
    relays = it.relays()
    await reopened(it)
    assert not (await it.engine.status(session_id)).live
    [ended] = await it.records(session_id, "cli.ended")
    assert "settings would bypass every permission check" in ended["reason"]
    await it.gone(*(each.relay_pid for each in relays), *(each.cli_pid for each in relays))
