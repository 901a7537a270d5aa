"""Plan mode: each way out of it, and the session that implements a plan."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from pilothouse.api.answers import (
    Allow,
    ApprovePlan,
    ClearContext,
    Deny,
    RejectPlan,
    RevisePlan,
)
from pilothouse.api.questions import Question
from pilothouse.engine.session import Session
from pilothouse.errors import AnswerRefused, BypassNotAllowed, NotNow, QuestionSettled
from pilothouse_sim.scenario import Branch, Reply, When, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.versions import NEWEST

PLAN = "# Plan\n\n1. Look\n2. Leap\n"
WRITE_PLAN = reply(tool("Write", file_path="{{plan_file}}", content=PLAN))
EXIT = reply(tool("ExitPlanMode"))
WRITE_NOTE = reply(tool("Write", file_path="{{cwd}}/note.txt", content="noted"))


async def planned(
    house: OpenEngine, *after: Reply | str, leave: Reply = EXIT, **more: Any
) -> tuple[EngineHarness, Question]:
    """A session that asks about its plan."""
    it = await house(WRITE_PLAN, leave, *after, **more)
    session_id = await it.start("plan it", mode="plan")
    return it, await it.asked(session_id)


def implementing(*replies: Reply | str) -> list[Branch]:
    """What the model says in the session that knows only the plan."""
    told = tuple(reply(each) if isinstance(each, str) else each for each in replies)
    return [Branch(when=When(prompt_contains="Implement the following plan"), replies=told)]


@pytest.mark.simulated
async def test_a_plan_is_shown_with_every_way_out_of_it(house: OpenEngine) -> None:
    it, question = await planned(house, "As you like.")
    assert (question.kind, question.plan, question.title) == (
        "plan",
        PLAN,
        "Approve the plan: Plan",
    )
    [file] = (it.cli.home / ".claude/plans").glob("*.md")
    assert question.plan_file == str(file)
    assert [way.id for way in question.ways] == [
        "accept_edits",
        "ask_edits",
        "edit_plan",
        "approve_and_compact",
        "revise_plan",
        "reject_plan",
        "reject_and_stop",
        "clear_context",
    ]
    # Known although no turn has ended.
    clearing = question.ways[-1].label
    assert re.fullmatch(r"Clear the context \(\d+% used\), implement it, accept edits", clearing)
    assert (await it.engine.status(question.session_id)).mode == "plan"
    await it.engine.answer(question.id, RejectPlan())
    await it.until(question.session_id, "done")


async def test_an_approved_plan_is_implemented_without_a_question_about_edits(
    house: OpenEngine,
) -> None:
    it, question = await planned(house, WRITE_NOTE, "Leapt.")
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits"))
    status = await it.until(question.session_id, "done")
    assert (status.mode, status.result) == ("acceptEdits", "Leapt.")
    assert "approved your plan" in it.told()[1]
    assert (it.cwd / "note.txt").read_text() == "noted"
    assert len(await it.engine.questions(state="any")) == 1


async def test_an_approved_plan_is_implemented_with_a_question_about_each_edit(
    house: OpenEngine,
) -> None:
    it, question = await planned(house, WRITE_NOTE, "Leapt.")
    await it.engine.answer(question.id, ApprovePlan(mode="default"))
    edit = await it.answer(question.session_id, Allow())
    assert (edit.tool_name, edit.mode) == ("Write", "default")
    assert (await it.until(question.session_id, "done")).mode == "default"


@pytest.mark.simulated
async def test_the_model_works_by_the_plan_as_it_was_edited(house: OpenEngine) -> None:
    it, question = await planned(house, "Leapt.")
    edited = "# Plan\n\n1. Look twice\n"
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits", plan=edited))
    await it.until(question.session_id, "done")
    assert "Approved Plan (edited by user)" in it.told()[1]
    assert edited.strip() in it.told()[1]


@pytest.mark.simulated
async def test_a_plan_to_be_revised_is_asked_about_again(house: OpenEngine) -> None:
    it, question = await planned(house, EXIT, "Leapt.")
    await it.engine.answer(question.id, RevisePlan(feedback="Look twice, please."))
    again = await it.answer(question.session_id, ApprovePlan(mode="acceptEdits"))
    assert again.id != question.id
    await it.until(question.session_id, "done")
    assert "Look twice, please." in it.told()[1]
    assert "approved your plan" in it.told()[2]


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg=="
)


async def test_the_images_of_the_feedback_follow_as_a_message(house: OpenEngine) -> None:
    it, question = await planned(house, "I see.", "I see it now.", strict=False)
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    feedback = RevisePlan(feedback="Like this.", images=[{"type": "image", "source": source}])
    await it.engine.answer(question.id, feedback)
    status = await it.until(question.session_id, "done")
    assert status.queued == []
    assert "Like this." in it.told()[1]
    assert "The images that belong to the feedback:" in it.heard()
    assert '"media_type": "image/png"' in it.heard()


@pytest.mark.simulated
async def test_a_rejected_plan_leaves_the_session_in_plan_mode(house: OpenEngine) -> None:
    it, question = await planned(house, "As you like.")
    await it.engine.answer(question.id, RejectPlan(reason="We stay ashore."))
    status = await it.until(question.session_id, "done")
    assert (status.mode, status.result) == ("plan", "As you like.")
    assert "We stay ashore." in it.told()[1]


@pytest.mark.simulated
async def test_a_plan_rejected_for_good_ends_the_turn(house: OpenEngine) -> None:
    it, question = await planned(house, "Here again.")
    await it.engine.answer(question.id, RejectPlan(reason="Enough.", stop=True))
    assert (await it.until(question.session_id, "interrupted")).mode == "plan"
    await it.say(question.session_id, "and now?")
    assert (await it.until(question.session_id, "done")).result == "Here again."


async def test_a_session_that_knows_only_the_plan_implements_it(house: OpenEngine) -> None:
    it, question = await planned(house, branches=implementing(WRITE_NOTE, "Leapt."))
    answered = await it.engine.answer(question.id, ClearContext())
    new = answered.new_session_id
    assert new is not None
    status = await it.until(new, "done")
    assert (status.mode, status.parent, status.result) == (
        "acceptEdits",
        question.session_id,
        "Leapt.",
    )
    assert (it.cwd / "note.txt").read_text() == "noted"
    [said] = await it.records(new, "prompt.said")
    assert said["content"] == f"Implement the following plan:\n\n{PLAN}"
    assert "plan it" not in it.heard()
    old = await it.engine.status(question.session_id)
    assert (old.live, old.successor, old.state) == (False, new, "interrupted")
    again = await it.engine.answer(question.id, ClearContext())
    assert (again.repeated, again.new_session_id) == (True, new)


@pytest.mark.simulated
async def test_a_cleared_context_takes_the_plan_as_it_was_edited(house: OpenEngine) -> None:
    it, question = await planned(house, branches=implementing("Leapt."))
    edited = "# Plan\n\n1. Look twice\n"
    answered = await it.engine.answer(question.id, ClearContext(plan=edited))
    assert answered.new_session_id is not None
    await it.until(answered.new_session_id, "done")
    assert "1. Look twice" in it.heard()


@pytest.mark.simulated
async def test_a_context_is_cleared_once_however_often_it_is_asked_at_once(
    house: OpenEngine,
) -> None:
    it, question = await planned(house, branches=implementing("Leapt."))
    both = await asyncio.gather(*(it.engine.answer(question.id, ClearContext()) for _ in range(2)))
    assert len({each.new_session_id for each in both}) == 1
    assert sorted(each.repeated for each in both) == [False, True]
    await it.until(str(both[0].new_session_id), "done")
    assert (await it.engine.health()).sessions == 2


@pytest.mark.simulated
async def test_a_plan_that_was_handed_on_when_the_engine_died_is_implemented(
    relayed: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, question = await planned(relayed, branches=implementing("Leapt."))

    async def dies(_: Session) -> bool:
        raise NotNow("the engine dies here")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "stop", dies)
        patch.setattr(Session, "deliver", lambda _: None)
        with pytest.raises(NotNow):
            await it.engine.answer(question.id, ClearContext())
        old = await it.engine.status(question.session_id)
        assert old.successor is not None
        it.engine.sessions[old.successor].cli.release()
    await it.close()
    await it.open()
    assert (await it.until(old.successor, "done")).result == "Leapt."
    await it.when(question.session_id, lambda status: not status.live)


@pytest.mark.simulated
async def test_without_a_plan_it_is_a_plain_yes_or_no(house: OpenEngine) -> None:
    it = await house(EXIT, "As you like.")
    session_id = await it.start("plan it", mode="plan")
    question = await it.asked(session_id)
    assert (question.kind, question.plan) == ("plan", None)
    assert [way.id for way in question.ways] == ["allow", "deny"]
    refused: list[Any] = [ApprovePlan(), RevisePlan(feedback="More."), RejectPlan()]
    for answer in refused:
        with pytest.raises(AnswerRefused, match="without a plan"):
            await it.engine.answer(question.id, answer)
    await it.engine.answer(question.id, Deny(reason="Which plan?"))
    status = await it.until(session_id, "done")
    assert "Which plan?" in it.told()[0]
    assert status.mode == "plan"


@pytest.mark.simulated
async def test_a_yes_without_a_plan_leaves_plan_mode(house: OpenEngine) -> None:
    it = await house(EXIT, "On we go.")
    session_id = await it.start("plan it", mode="plan")
    await it.answer(session_id, Allow())
    assert (await it.until(session_id, "done")).mode == "default"


@pytest.mark.versions(NEWEST, why="2.1.119 has no list_permission_rules")
async def test_what_a_plan_asks_leave_for_is_shown_and_becomes_rules_of_the_session(
    house: OpenEngine,
) -> None:
    asks = reply(tool("ExitPlanMode", allowedPrompts=[{"tool": "Bash", "prompt": "run tests"}]))
    it, question = await planned(house, "Leapt.", leave=asks)
    assert question.allowed_prompts == [{"tool": "Bash", "prompt": "run tests"}]
    assert "run tests" in question.text
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits"))
    await it.until(question.session_id, "done")
    rules = await it.engine.control(question.session_id, "list_permission_rules", {})
    assert "Bash(prompt: run tests)" in str(rules)


@pytest.mark.versions(NEWEST, why="2.1.119 has no list_permission_rules")
async def test_the_session_that_implements_a_plan_has_what_the_plan_asks_leave_for(
    house: OpenEngine,
) -> None:
    asks = reply(tool("ExitPlanMode", allowedPrompts=[{"tool": "Bash", "prompt": "run tests"}]))
    it, question = await planned(house, leave=asks, branches=implementing("Leapt."))
    new = (await it.engine.answer(question.id, ClearContext())).new_session_id
    assert new is not None
    await it.until(new, "done")
    rules = await it.engine.control(new, "list_permission_rules", {})
    assert "Bash(prompt: run tests)" in str(rules)


async def test_an_approved_plan_can_be_followed_by_a_compaction(house: OpenEngine) -> None:
    it, question = await planned(house, WRITE_NOTE, "Leapt.", "All of it, in short.", strict=False)
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits", compact=True))
    await it.when(question.session_id, lambda status: status.turns >= 2)
    assert (it.cwd / "note.txt").read_text() == "noted"
    assert any(request.is_compaction for request in it.cli.requests)


async def test_a_plan_cannot_lead_to_bypassing_permissions(house: OpenEngine) -> None:
    it, question = await planned(house, "As you like.")
    assert not [way for way in question.ways if "bypass" in str(way)]
    bypassing: list[Any] = [
        ApprovePlan(mode="bypassPermissions"),
        ClearContext(mode="bypassPermissions"),
    ]
    for answer in bypassing:
        with pytest.raises(BypassNotAllowed, match="PILOTHOUSE_ALLOW_BYPASS"):
            await it.engine.answer(question.id, answer)
    assert (await it.engine.question(question.id)).state == "open"
    await it.engine.answer(question.id, RejectPlan())
    await it.until(question.session_id, "done")


@pytest.mark.simulated
async def test_a_plan_that_was_decided_takes_no_other_answer(house: OpenEngine) -> None:
    it, question = await planned(house, "Leapt.")
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits"))
    with pytest.raises(QuestionSettled):
        await it.engine.answer(question.id, ClearContext())
    await it.until(question.session_id, "done")
    assert (await it.engine.health()).sessions == 1
