"""Which answers a question takes."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.answers import (
    AddOwnDirectories,
    AddOwnRules,
    Allow,
    Answer,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Fill,
    OwnRule,
    OwnUpdate,
    RevisePlan,
    SetOwnMode,
)
from pilothouse.api.questions import Question
from pilothouse.client.permissions import PermissionRequest
from pilothouse.engine.questions import (
    check,
)
from pilothouse.errors import AnswerRefused, BypassNotAllowed
from pilothouse.protocol.wire import encode_json
from tests.support.asks import (
    COLOUR,
    EVERY,
    ONE_OF_EACH,
    PLAN,
    SAILS,
    asked,
    bash,
    elicitation,
    form,
    page,
    plan_request,
    posed,
    tool_request,
)

TAKEN = {
    "tool": {"Allow", "Deny"},
    "plan": {"Allow", "Deny", "ApprovePlan", "RevisePlan", "RejectPlan", "ClearContext"},
    "no plan": {"Allow", "Deny", "ClearContext"},
    "questions": {"Choose", "Skip", "Deny"},
    "form": {"Fill", "Decline", "Dismiss"},
}


@pytest.mark.parametrize("name", TAKEN)
def test_only_the_kinds_of_answers_that_fit_are_taken(name: str) -> None:
    question = posed(asked(COLOUR) if name == "questions" else EVERY[name])
    taken: set[str] = set()
    for answer in ONE_OF_EACH:
        if is_of_a_fitting_kind(question, answer):
            taken.add(type(answer).__name__)
    assert taken == TAKEN[name]


def is_of_a_fitting_kind(question: Question, answer: Answer) -> bool:
    try:
        check(question, answer, bypass_allowed=False)
    except AnswerRefused as error:
        return "is no answer to" not in error.message
    return True


@pytest.mark.parametrize("name", TAKEN)
def test_a_refusal_lists_every_way_there_is(name: str) -> None:
    question = posed(EVERY[name])
    unfitting = Allow() if question.kind == "elicitation" else Decline()
    with pytest.raises(AnswerRefused) as caught:
        check(question, unfitting, bypass_allowed=False)
    for way in question.ways:
        assert encode_json(way.answer).decode()[:-1] in caught.value.advice


def refusal(question: Question, answer: Answer) -> str:
    with pytest.raises(AnswerRefused) as caught:
        check(question, answer, bypass_allowed=False)
    assert caught.value.advice
    return caught.value.message


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"Which boat?": "Mine", "Which colour?": "Red"}, "there is no question 'Which boat?'"),
        ({}, "the question 'Which colour?' is not answered"),
        ({"Which colour?": ["Red"]}, "takes one choice, not a list"),
        ({"Which colour?": " "}, "the answer to 'Which colour?' is empty"),
    ],
)
def test_a_choice_that_does_not_answer_the_question_is_refused(
    answers: dict[str, Any], message: str
) -> None:
    assert message in refusal(posed(asked(COLOUR)), Choose(answers=answers))


@pytest.mark.parametrize("chosen", [[], ["Main", ""]])
def test_several_choices_are_not_none(chosen: list[str]) -> None:
    answer = Choose(answers={"Which sails?": chosen})
    assert "is empty" in refusal(posed(asked(SAILS)), answer)


def test_the_refusal_of_a_choice_lists_the_choices() -> None:
    with pytest.raises(AnswerRefused) as caught:
        check(posed(asked(COLOUR)), Choose(answers={}), bypass_allowed=False)
    assert "'Which colour?': 'Red' | 'Blue'" in caught.value.advice


def test_a_note_to_no_question_is_refused() -> None:
    answer = Choose(answers={"Which colour?": "Red"}, notes={"Which boat?": "Mine"})
    assert "there is no question 'Which boat?'" in refusal(posed(asked(COLOUR)), answer)


@pytest.mark.parametrize("chosen", ["Main", "All of them", ["Main", "Spinnaker"]])
def test_free_text_is_taken_for_the_models_questions(chosen: Any) -> None:
    check(posed(asked(SAILS)), Choose(answers={"Which sails?": chosen}), bypass_allowed=False)


def test_an_edited_input_is_not_empty() -> None:
    assert "the edited input is empty" in refusal(posed(bash()), Allow(input={}))
    check(posed(tool_request("EnterPlanMode", {})), Allow(input={}), bypass_allowed=False)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (posed(bash(suppress_always_allow_rule=True)), Allow(always="userSettings")),
        (posed(tool_request("Write", {"file_path": "a"})), Allow(always=True)),
        (posed(tool_request("Bash", {"command": "rm *"})), Allow(always="cliArg")),
        (posed(bash()), Allow(always=True, input={"command": "rm *"})),
        (posed(plan_request()), Allow(always=True)),
    ],
)
def test_always_is_refused_where_nothing_can_be_remembered(
    question: Question, answer: Allow
) -> None:
    assert "nothing can be remembered" in refusal(question, answer)


RULE_OF_ONES_OWN = AddOwnRules(rules=[OwnRule(tool_name="Bash", rule_content="git:*")])


def test_rules_and_directories_of_ones_own_go_with_a_yes() -> None:
    folders = AddOwnDirectories(directories=["/srv/dock"])
    answer = Allow(updates=[RULE_OF_ONES_OWN, folders, SetOwnMode(mode="acceptEdits")])
    check(posed(bash()), answer, bypass_allowed=False)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (AddOwnRules(rules=[OwnRule(tool_name=" ")]), "names its tool"),
        (AddOwnDirectories(directories=["dock"]), "absolute"),
    ],
)
def test_an_update_that_means_nothing_is_refused(update: OwnUpdate, message: str) -> None:
    assert message in refusal(posed(bash()), Allow(updates=[update]))


def test_updates_go_with_tools_alone() -> None:
    assert "to a tool" in refusal(posed(plan_request()), Allow(updates=[RULE_OF_ONES_OWN]))


def test_an_update_does_not_pass_the_gate_to_bypass() -> None:
    answer = Allow(updates=[SetOwnMode(mode="bypassPermissions")])
    with pytest.raises(BypassNotAllowed):
        check(posed(bash()), answer, bypass_allowed=False)
    check(posed(bash()), answer, bypass_allowed=True)


@pytest.mark.parametrize("always", [True, "session", "cliArg", "userSettings"])
def test_always_is_taken_where_it_is_offered(always: Any) -> None:
    check(posed(bash()), Allow(always=always), bypass_allowed=False)
    edited = Allow(always=always, input={"command": "make lint"})
    check(posed(bash()), edited, bypass_allowed=False)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ApprovePlan(mode="plan"), "not implemented in plan mode"),
        (ClearContext(mode="plan"), "not implemented in plan mode"),
        (ApprovePlan(plan=" "), "the edited plan is empty"),
        (ClearContext(plan=""), "the edited plan is empty"),
        (RevisePlan(feedback=" "), "the feedback is empty"),
        (RevisePlan(feedback="", images=[{"type": "text"}]), "an image is"),
        (Allow(input={"plan": "x"}), "approve_plan"),
    ],
)
def test_an_answer_to_a_plan_that_makes_no_sense_is_refused(answer: Answer, message: str) -> None:
    assert message in refusal(posed(plan_request(plan=PLAN)), answer)


def test_images_alone_are_feedback() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    answer = RevisePlan(feedback="", images=[image])
    check(posed(plan_request(plan=PLAN)), answer, bypass_allowed=False)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (plan_request(plan=PLAN), ApprovePlan(mode="bypassPermissions")),
        (plan_request(plan=PLAN), ClearContext(mode="bypassPermissions")),
        (plan_request(), ClearContext(mode="bypassPermissions")),
        (tool_request("Agent", {"prompt": "x", "mode": "bypassPermissions"}), Allow()),
        (tool_request("Agent", {"prompt": "x"}), Allow(input={"mode": "bypassPermissions"})),
    ],
)
def test_no_answer_leads_to_bypass_unless_it_is_allowed(
    request_: PermissionRequest, answer: Answer
) -> None:
    with pytest.raises(BypassNotAllowed):
        check(posed(request_), answer, bypass_allowed=False)
    check(posed(request_, bypass_allowed=True), answer, bypass_allowed=True)


def test_what_an_mcp_tool_calls_a_mode_is_its_own_affair() -> None:
    request = tool_request("mcp__harbour__call", {"mode": "bypassPermissions"})
    check(posed(request), Allow(), bypass_allowed=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "the field 'day' is required"),
        ({"day": "Sunday"}, "takes one of 'Monday', 'Friday'"),
        ({"day": 1}, "the field 'day' takes a value of type string"),
        ({"crew": 0}, "the field 'crew' has a minimum of 1"),
        ({"crew": 7}, "the field 'crew' has a maximum of 6"),
        ({"crew": 1.5}, "takes a value of type integer"),
        ({"crew": True}, "takes a value of type integer"),
        ({"draft": "deep"}, "takes a value of type number"),
        ({"night": 1}, "takes a value of type boolean"),
        ({"name": "A"}, "has a minLength of 2"),
        ({"name": "Aurora"}, "has a maxLength of 5"),
        ({"ports": "Oslo"}, "takes a value of type array"),
        ({"ports": ["Rome"]}, "takes some of 'Oslo', 'Bergen'"),
        ({"ports": ["Oslo", "Bergen"]}, "has a maxItems of 1"),
        ({"tide": "slack"}, "takes one of 'low', 'high'"),
        ({"mast": 1}, "there is no field 'mast'"),
    ],
)
def test_values_that_do_not_fit_the_form_are_refused(content: dict[str, Any], message: str) -> None:
    given = content if not content or "day" in content else {"day": "Monday"} | content
    assert message in refusal(form(), Fill(content=given))


def test_values_that_fit_the_form_are_taken() -> None:
    content = {
        "day": "Friday",
        "crew": 2.0,
        "draft": 1,
        "night": False,
        "name": "Ran",
        "ports": ["Oslo"],
        "tide": "low",
    }
    check(form(), Fill(content=content), bypass_allowed=False)


def test_a_form_of_a_kind_nobody_knows_takes_what_is_given() -> None:
    odd = {"properties": {"a": {"type": ["string", "null"]}, "b": True}, "required": [["a"]]}
    question = posed(elicitation(requested_schema=odd))
    check(question, Fill(content={"a": None, "b": {"c": 1}}), bypass_allowed=False)


def test_a_page_takes_no_values() -> None:
    check(page(), Fill(), bypass_allowed=False)
    assert "a page takes no values" in refusal(page(), Fill(content={"a": 1}))
