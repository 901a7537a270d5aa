"""May this tool run? Every answer there is, who may still give one, and what nobody answers."""

from __future__ import annotations

import json

import pytest

from pilothouse.api.answers import Allow, Deny, Skip
from pilothouse.errors import AnswerRefused, QuestionSettled, UnknownQuestion, UsageError
from pilothouse_sim.scenario import ToolCall, reply, tool
from tests.support.engine.harness import OpenEngine
from tests.support.versions import NEWEST

# What everybody does with a session.
pytestmark = pytest.mark.relayed


def bash(command: str) -> ToolCall:
    return tool("Bash", command=command, description="Do it")


TOUCH = reply(bash("touch made"))


async def test_an_allowed_tool_runs(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    assert (question.kind, question.tool_name) == ("tool", "Bash")
    assert question.text.startswith("touch made")
    assert (question.format, question.state, question.decidable) == ("command", "open", True)
    assert {"allow", "allow_edited", "always_session", "deny", "deny_and_stop"} <= {
        way.id for way in question.ways
    }
    answered = await it.engine.answer(question.id, Allow(), by="tests")
    assert (answered.question.state, answered.question.answered_by) == ("answered", "tests")
    assert not answered.repeated
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("Made.", [])
    assert (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_a_tool_runs_with_the_input_it_was_allowed_with(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    edited = question.input | {"command": "touch edited"}
    await it.engine.answer(question.id, Allow(input=edited))
    await it.until(session_id, "done")
    assert (it.cwd / "edited").exists()
    assert not (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_what_is_always_allowed_is_not_asked_again_in_the_session(house: OpenEngine) -> None:
    it = await house(TOUCH, TOUCH, "Made.")
    session_id = await it.start()
    await it.answer(session_id, Allow(always=True))
    await it.until(session_id, "done")
    assert len(await it.engine.questions(session_id=session_id, state="any")) == 1
    assert [*it.cwd.rglob("settings*.json"), *it.cli.home.rglob("settings*.json")] == []


@pytest.mark.versions(NEWEST, why="2.1.119 asks before it writes to a path, whatever the rules say")
async def test_what_is_always_allowed_in_a_file_is_written_there(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.", TOUCH, "Made again.")
    session_id = await it.start()
    question = await it.asked(session_id)
    assert "always_localSettings" in [way.id for way in question.ways]
    await it.engine.answer(question.id, Allow(always="localSettings"))
    await it.until(session_id, "done")
    written = json.loads((it.cwd / ".claude/settings.local.json").read_text())
    [rule] = written["permissions"]["allow"]
    assert rule.startswith("Bash(touch made")
    await it.engine.stop(session_id)
    await it.say(session_id, "again")
    await it.when(session_id, lambda status: status.turns == 2)
    assert len(await it.engine.questions(session_id=session_id, state="any")) == 1


@pytest.mark.simulated
async def test_the_model_reads_why_a_tool_was_denied(house: OpenEngine) -> None:
    it = await house(TOUCH, "Then not.")
    session_id = await it.start()
    await it.answer(session_id, Deny(reason="Not on a Sunday."))
    status = await it.until(session_id, "done")
    assert status.result == "Then not."
    assert "Not on a Sunday." in it.told()[0]
    assert not (it.cwd / "made").exists()
    assert [(each.name, each.state) for each in status.recent_tools] == [("Bash", "denied")]


@pytest.mark.simulated
async def test_a_denial_that_stops_ends_the_turn_and_not_the_session(house: OpenEngine) -> None:
    it = await house(TOUCH, "Here again.")
    session_id = await it.start()
    await it.answer(session_id, Deny(reason="Stop that.", stop=True))
    status = await it.until(session_id, "interrupted")
    assert len(it.cli.requests) == 1
    assert status.live
    await it.say(session_id, "hello?")
    assert (await it.until(session_id, "done")).result == "Here again."


@pytest.mark.simulated
async def test_two_questions_open_at_once_are_answered_in_any_order(house: OpenEngine) -> None:
    outside = [f"{{{{home}}}}/{name}.txt" for name in ("port", "starboard")]
    it = await house(reply(*(tool("Read", file_path=path) for path in outside)), "One of them.")
    for name in ("port", "starboard"):
        (it.cli.home / f"{name}.txt").write_text(f"the {name} side")
    session_id = await it.start()
    second = await it.asked(session_id, number=2)
    first = await it.asked(session_id)
    assert [first.input["file_path"][-8:], second.input["file_path"][-8:]] == [
        "port.txt",
        "oard.txt",
    ]
    answered = await it.engine.answer(second.id, Allow())
    assert answered.state == "awaiting_input"
    await it.engine.answer(first.id, Deny(reason="Port is closed."))
    await it.until(session_id, "done")
    # They are told in the order they came to their end.
    told = "\n".join(it.told())
    assert "Port is closed." in told
    assert "the starboard side" in told
    assert "the port side" not in told


# Who is first


@pytest.mark.simulated
async def test_the_same_answer_again_is_no_second_one(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.answer(session_id, Allow())
    again = await it.engine.answer(question.id, Allow())
    assert (again.repeated, again.question.state) == (True, "answered")
    await it.until(session_id, "done")
    assert (await it.engine.answer(question.id, Allow())).repeated
    assert len(await it.records(session_id, "question.closed")) == 1


@pytest.mark.simulated
async def test_another_answer_comes_too_late(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    await it.engine.answer(question.id, Allow(), by="tests")
    with pytest.raises(QuestionSettled, match="answered by tests before") as late:
        await it.engine.answer(question.id, Deny())
    assert (late.value.question.id, late.value.question.answer) == (question.id, Allow())
    await it.until(session_id, "done")
    assert (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_a_question_nobody_asked_is_unknown(house: OpenEngine) -> None:
    it = await house("Hello.", strict=False)
    for verb in (it.engine.question, lambda name: it.engine.answer(name, Allow())):
        with pytest.raises(UnknownQuestion, match="there is no question nothing"):
            await verb("nothing")


@pytest.mark.simulated
async def test_an_answer_of_another_kind_changes_nothing_and_names_those_that_fit(
    house: OpenEngine,
) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    with pytest.raises(AnswerRefused, match=r'send one of .*"kind":"deny"'):
        await it.engine.answer(question.id, Skip())
    assert (await it.engine.question(question.id)).state == "open"
    await it.answer(session_id, Allow())
    await it.until(session_id, "done")


# Nobody answers


@pytest.mark.simulated
async def test_a_question_is_withdrawn_when_the_cli_no_longer_asks(house: OpenEngine) -> None:
    it = await house(TOUCH, "Here again.")
    session_id = await it.start()
    question = await it.asked(session_id)
    interrupted = await it.engine.interrupt(session_id)
    assert interrupted.was_running
    status = await it.until(session_id, "interrupted")
    assert status.questions == []
    question = await it.engine.question(question.id)
    assert (question.state, question.decidable) == ("withdrawn", False)
    with pytest.raises(QuestionSettled, match="withdrawn"):
        await it.engine.answer(question.id, Allow())
    await it.say(session_id, "hello?")
    await it.until(session_id, "done")
    assert not (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_a_session_can_have_a_time_of_its_own_for_its_questions(house: OpenEngine) -> None:
    it = await house(TOUCH, "Then not.", TOUCH, "Nor then.", permission_timeout_ms=0)
    session_id = await it.done(permission_timeout_ms=50)
    [closed] = await it.records(session_id, "question.closed")
    assert closed["state"] == "expired"
    await it.engine.stop(session_id)
    await it.say(session_id, "again")
    await it.when(session_id, lambda status: status.turns == 2)
    assert len(await it.records(session_id, "question.closed")) == 2


@pytest.mark.simulated
async def test_a_question_expires_and_the_model_reads_that_nobody_answered(
    house: OpenEngine,
) -> None:
    it = await house(TOUCH, "Then not.", permission_timeout_ms=50)
    session_id = await it.start()
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("Then not.", [])
    [question] = await it.engine.questions(session_id=session_id, state="expired")
    assert question.closed_because == "Nobody answered within 0.05 s; the question has expired."
    assert question.closed_because in it.told()[0]
    assert status.reason == f"{question.title}: {question.closed_because}"
    with pytest.raises(QuestionSettled, match="expired"):
        await it.engine.answer(question.id, Allow())
    assert not (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_without_a_timeout_a_question_says_that_it_never_expires(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.answer(session_id, Allow())
    assert question.expires_at is None
    await it.until(session_id, "done")


@pytest.mark.simulated
async def test_nobody_answers_in_the_name_of_the_rules(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    with pytest.raises(UsageError, match="the name of the rules"):
        await it.engine.answer(question.id, Allow(), by="policy")
    assert (await it.engine.question(question.id)).state == "open"
