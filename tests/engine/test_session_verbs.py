"""Starting, saying, stopping and resuming."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pilothouse.api.answers import Allow
from pilothouse.api.requests import Fork, Say, SessionOptions, Start
from pilothouse.errors import InvalidOption, NotNow, UnknownSession, UsageError
from pilothouse_sim.scenario import ApiError, Branch, When, gate, reply, tool
from tests.support.engine.harness import OpenEngine, run_bare_cli
from tests.support.versions import NEWEST

# What everybody does with a session.
pytestmark = pytest.mark.relayed

NOTE = reply(tool("Bash", command="echo hello > note.txt", description="Leave a note"))
NOBODY = "00000000-0000-4000-8000-000000000000"


async def test_a_session_starts_asks_and_is_done(house: OpenEngine) -> None:
    it = await house(NOTE, "Noted.")
    session_id = await it.start()
    question = await it.asked(session_id)
    assert (question.kind, question.title) == ("tool", "Run `echo hello > note.txt`")
    await it.engine.answer(question.id, Allow())
    status = await it.until(session_id, "done")
    assert (status.result, status.turns) == ("Noted.", 1)
    assert (it.cwd / "note.txt").read_text() == "hello\n"


@pytest.mark.simulated
async def test_a_start_returns_before_there_is_a_cli(house: OpenEngine) -> None:
    it = await house("One.")
    started = await it.engine.start(Start(prompt="go", cwd=str(it.cwd), label="port"))
    assert (started.state, started.repeated) == ("active", False)
    status = await it.engine.status(started.session_id)
    assert (status.live, status.label, status.title) == (False, "port", "go")
    assert [each.prompt_id for each in status.queued] == [started.prompt_id]
    status = await it.until(started.session_id, "done")
    assert (status.live, status.queued) == (True, [])
    assert status.claude_session_id == started.session_id


@pytest.mark.simulated
async def test_a_prompt_can_be_blocks_of_content(house: OpenEngine) -> None:
    it = await house("One.")
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "look at the"},
        {"type": "text", "text": "lighthouse"},
    ]
    started = await it.engine.start(Start(prompt=blocks, cwd=str(it.cwd)))
    await it.until(started.session_id, "done")
    assert "lighthouse" in it.heard()


@pytest.mark.simulated
async def test_a_message_goes_to_the_cli_that_is_alive(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    pid = (await it.engine.status(session_id)).pid
    said = await it.engine.say(session_id, Say(content="more"))
    assert (said.resumed, said.queued, said.state) == (False, False, "active")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.pid, status.result) == (pid, "Two.")
    assert "One." in it.heard()


async def test_a_message_resumes_a_session_whose_cli_is_gone(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    said = await it.engine.say(session_id, Say(content="more"))
    assert said.resumed
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.state) == ("Two.", "done")
    assert "One." in it.heard()


async def test_a_session_is_resumed_with_its_own_options_and_directory(house: OpenEngine) -> None:
    it = await house("One.", NOTE, "Noted.")
    session_id = await it.done(
        append_system_prompt="You are a lighthouse.",
        model="haiku",
    )
    await it.close()
    await it.open()
    await it.say(session_id, "note it")
    await it.answer(session_id, Allow())
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.cwd == str(it.cwd)
    first, second = it.cli.requests[0], it.cli.requests[-1]
    assert "You are a lighthouse." in second.system
    assert "haiku" in second.model == first.model
    assert (it.cwd / "note.txt").exists()


async def test_a_session_whose_variables_are_no_longer_allowed_takes_no_message(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    await it.close()
    await it.open(allowed_env="SPARE_*")
    session_id = await it.done(env={"SPARE_PART": "1"})
    await it.close()
    await it.open()
    before = len(await it.events(session_id))
    with pytest.raises(InvalidOption, match="PILOTHOUSE_ALLOWED_ENV=SPARE_PART"):
        await it.engine.say(session_id, Say(content="more"))
    assert len(await it.events(session_id)) == before


@pytest.mark.versions(NEWEST, why="2.1.119 resumes a cleared conversation with what was cleared")
async def test_a_conversation_that_was_cleared_is_resumed_where_it_went_on(
    house: OpenEngine,
) -> None:
    branches = [_on("third", "Three."), _on("second", "Two."), _on("first", "One.")]
    it = await house(branches=branches)
    session_id = await it.done("the first of all")
    await it.say(session_id, "/clear")
    status = await it.when(session_id, lambda status: status.claude_session_id != session_id)
    await it.until(session_id, "done")
    await it.say(session_id, "second")
    status = await it.when(session_id, lambda status: status.result == "Two.")
    cleared = status.claude_session_id
    assert cleared not in (None, session_id)
    await it.engine.stop(session_id)
    await it.say(session_id, "third")
    status = await it.when(session_id, lambda status: status.result == "Three.")
    assert status.claude_session_id == cleared
    assert "Two." in it.heard()
    assert "the first of all" not in it.heard()


@pytest.mark.simulated
async def test_a_turn_that_fails_is_an_error_and_a_message_goes_on(house: OpenEngine) -> None:
    # As often as a CLI asks before it gives up, at the most.
    failures = [ApiError(status=400, message="No such luck.")] * 6
    it = await house(*failures, branches=[_on("again", "Two.")])
    session_id = await it.start()
    status = await it.until(session_id, "error")
    assert status.live
    assert status.reason is not None
    assert "No such luck." in status.reason
    await it.say(session_id, "again")
    status = await it.until(session_id, "done")
    assert (status.result, status.reason) == ("Two.", None)


@pytest.mark.simulated
async def test_a_cli_that_cannot_be_started_is_an_error_that_says_why(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    session_id = await it.start(flags={"thinking": "no-such-way"})
    status = await it.until(session_id, "error")
    assert (status.live, len(status.queued)) == (False, 1)
    assert status.reason is not None
    assert "no-such-way" in status.reason
    assert (await it.engine.health()).live == 0


async def test_a_stop_while_the_cli_starts_ends_it(house: OpenEngine) -> None:
    it = await house(reply(gate("held"), "One."), strict=False)
    session_id = await it.start()
    assert (await it.engine.stop(session_id)).was_live
    status = await it.engine.status(session_id)
    assert (status.live, status.state) == (False, "interrupted")


@pytest.mark.simulated
async def test_every_verb_refuses_a_session_nobody_knows(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    engine = it.engine
    verbs: list[Any] = [
        lambda: engine.say(NOBODY, Say(content="hello")),
        lambda: engine.fork(NOBODY, Fork(prompt="hello")),
        lambda: engine.status(NOBODY),
        lambda: engine.stop(NOBODY),
        lambda: engine.interrupt(NOBODY),
        lambda: engine.cancel(NOBODY, NOBODY),
        lambda: engine.set_mode(NOBODY, "plan"),
        lambda: engine.set_model(NOBODY, None),
        lambda: engine.rewind(NOBODY, NOBODY),
        lambda: engine.commands(NOBODY),
        lambda: engine.control(NOBODY, "get_status", {}),
        lambda: engine.say("../../etc/passwd", Say(content="hello")),
    ]
    for verb in verbs:
        with pytest.raises(UnknownSession, match="there is no session"):
            await verb()
    assert await it.events() == []


def _on(words: str, answer: str) -> Branch:
    return Branch(when=When(last_contains=words), replies=(reply(answer),))


# Sessions without a transcript


async def test_a_session_without_a_transcript_is_listed_and_says_that_it_cannot_be_resumed(
    house: OpenEngine,
) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done(persist_session=False)
    assert not (await it.engine.status(session_id)).resumable
    [listed] = (await it.engine.list(cwd=str(it.cwd))).sessions
    assert (listed.session_id, listed.resumable) == (session_id, False)
    assert not it.engine.sessions[session_id].is_idle
    await it.say(session_id, "more")
    status = await it.when(session_id, lambda each: each.turns == 2)
    assert status.result == "Two."
    with pytest.raises(NotNow, match="no transcript"):
        await it.engine.fork(session_id, Fork(prompt="again"))
    await it.engine.stop(session_id)
    with pytest.raises(NotNow, match="ended with its CLI"):
        await it.say(session_id, "still there?")
    assert not [*(it.cli.home / ".claude/projects").glob(f"*/{session_id}.jsonl")]


# The latest session of a directory


async def test_a_start_can_go_on_with_the_latest_session_of_its_directory(
    house: OpenEngine,
) -> None:
    it = await house("One.", "Two.", "Three.")
    await it.done(label="first")
    latest = await it.done(label="second")
    await it.engine.stop(latest)
    going_on = Start(prompt="more", cwd=str(it.cwd), continue_latest=True, key="once")
    started = await it.engine.start(going_on)
    assert (started.session_id, started.continued) == (latest, True)
    status = await it.when(latest, lambda each: each.turns == 2)
    assert status.label == "second"
    again = await it.engine.start(going_on)
    assert (again.prompt_id, again.repeated) == (started.prompt_id, True)


async def test_a_session_that_was_begun_in_a_terminal_can_be_the_latest(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await run_bare_cli(it, "a question of old")
    started = await it.engine.start(
        Start(
            prompt="more",
            cwd=str(it.cwd),
            options=SessionOptions(mode="plan"),
            continue_latest=True,
        )
    )
    assert (started.session_id, started.continued) == (session_id, True)
    status = await it.until(session_id, "done")
    assert (status.mode, status.result) == ("plan", "Two.")


@pytest.mark.simulated
async def test_where_there_is_nothing_to_continue_a_start_says_so(house: OpenEngine) -> None:
    it = await house("One.")
    going_on = Start(prompt="more", cwd=str(it.cwd), continue_latest=True)
    with pytest.raises(UnknownSession, match="can be continued"):
        await it.engine.start(going_on)
    await it.done(persist_session=False)
    with pytest.raises(UnknownSession, match="can be continued"):
        await it.engine.start(going_on)


@pytest.mark.simulated
async def test_a_session_that_goes_on_has_options_of_its_own(house: OpenEngine) -> None:
    it = await house("One.")
    await it.done()
    going_on = Start(prompt="more", cwd=str(it.cwd), continue_latest=True)
    for more in (
        replace(going_on, label="other"),
        replace(going_on, options=SessionOptions(model="opus")),
    ):
        with pytest.raises(UsageError, match="of its own"):
            await it.engine.start(more)
