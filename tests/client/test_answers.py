"""From an answer to the one form every CLI accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pilothouse import (
    Allow,
    ApprovePlan,
    Choose,
    ClearContext,
    Deny,
    Fill,
    PermissionRequest,
    PlanRequest,
    QuestionRequest,
    RejectPlan,
    RevisePlan,
    Skip,
    ToolRequest,
    WithUpdates,
)
from pilothouse.client.permissions import (
    DENIED,
    REJECTED,
    HandlerAnswer,
    Remembered,
    as_request,
    settle,
)
from pilothouse.client.versions import Features
from pilothouse.protocol import AddRules, CanUseTool, PermissionRule, SetMode
from pilothouse.protocol.control import decode_inbound
from pilothouse.protocol.wire import encode_json, members

PLAN = {"plan": "1. do it", "planFilePath": "/plans/x.md"}
QUESTIONS = {
    "questions": [
        {
            "question": "Which?",
            "header": "Pick",
            "options": [{"label": "Red", "description": "the red one"}, {"label": "Blue"}],
            "multiSelect": True,
        }
    ]
}
RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "ls"}],
    "behavior": "allow",
    "destination": "localSettings",
}
ACCEPT_EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
OUTSIDE = {"type": "addDirectories", "directories": ["/elsewhere"], "destination": "session"}


def asked(tool: str, given: dict[str, Any], **fields: Any) -> PermissionRequest:
    body = {"subtype": "can_use_tool", "tool_name": tool, "input": given, **fields}
    request = decode_inbound(encode_json(body))
    assert isinstance(request, CanUseTool)
    return as_request("r1", request, Features(version=(2, 1, 325)))


def settled(
    request: PermissionRequest, answer: HandlerAnswer, *, edits: bool = True
) -> dict[str, Any]:
    if not edits:
        request = replace(request, features=Features(version=(2, 1, 37)))
    return members(encode_json(settle(request, answer).result))


def note(remembered: Remembered, request: PermissionRequest, answer: HandlerAnswer) -> None:
    remembered.note(request, settle(request, answer))


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("Bash", ToolRequest), ("AskUserQuestion", QuestionRequest), ("ExitPlanMode", PlanRequest)],
)
def test_each_tool_has_its_kind_of_request(tool: str, kind: type[PermissionRequest]) -> None:
    assert type(asked(tool, {})) is kind


def test_allow_echoes_the_whole_input() -> None:
    given = {"command": "ls", "extra": [1]}
    assert settled(asked("Bash", given), Allow()) == {"behavior": "allow", "updatedInput": given}


def test_allow_with_edits_sends_the_edited_input() -> None:
    answer = settled(asked("Bash", {"command": "rm"}), Allow(input={"command": "ls"}))
    assert answer["updatedInput"] == {"command": "ls"}


def test_a_mode_rides_in_the_answer() -> None:
    answer = settled(asked("Write", {}), WithUpdates(Allow(), mode="acceptEdits"))
    assert answer["updatedPermissions"] == [ACCEPT_EDITS]


def test_remembering_takes_the_suggested_rule_for_this_session_only() -> None:
    request = asked("Bash", {"command": "ls"}, permission_suggestions=[RULE, ACCEPT_EDITS])
    answer = settled(request, Allow(always=True))
    assert answer["updatedPermissions"] == [{**RULE, "destination": "session"}]


def test_remembering_elsewhere_takes_the_callers_destination() -> None:
    request = asked("Bash", {"command": "ls"}, permission_suggestions=[RULE])
    answer = settled(request, Allow(always="projectSettings"))
    assert answer["updatedPermissions"][0]["destination"] == "projectSettings"


def test_a_remembered_command_without_a_suggestion_is_a_rule_for_that_command() -> None:
    request = asked("Bash", {"command": "ls"}, permission_suggestions=[ACCEPT_EDITS])
    (rule,) = settled(request, Allow(always=True))["updatedPermissions"]
    assert rule == {**RULE, "destination": "session"}


def test_a_remembered_edit_is_the_mode_the_cli_suggests() -> None:
    request = asked("Write", {"file_path": "/x"}, permission_suggestions=[ACCEPT_EDITS])
    assert settled(request, Allow(always=True))["updatedPermissions"] == [ACCEPT_EDITS]


def test_a_remembered_edit_elsewhere_takes_the_mode_and_the_directory_together() -> None:
    both = [ACCEPT_EDITS, OUTSIDE]
    request = asked("Write", {"file_path": "/elsewhere/x"}, permission_suggestions=both)
    assert settled(request, Allow(always=True))["updatedPermissions"] == both


def test_a_remembered_edit_elsewhere_takes_the_directory_where_edits_are_accepted() -> None:
    request = asked("Write", {"file_path": "/elsewhere/x"}, permission_suggestions=[OUTSIDE])
    assert settled(request, Allow(always=True))["updatedPermissions"] == [OUTSIDE]


def test_a_remembered_tool_without_anything_is_a_rule_for_the_tool() -> None:
    (rule,) = settled(asked("mcp__x__y", {}), Allow(always=True))["updatedPermissions"]
    assert rule["rules"] == [{"toolName": "mcp__x__y"}]


def test_updates_of_the_callers_own_come_first() -> None:
    own = AddRules(rules=[PermissionRule(tool_name="Read")])
    answer = settled(asked("Bash", {}), WithUpdates(Allow(), updates=[own], mode="plan"))
    assert [update["type"] for update in answer["updatedPermissions"]] == ["addRules", "setMode"]


DENIALS = [("Bash", Deny), ("ExitPlanMode", RejectPlan)]


@pytest.mark.parametrize(("tool", "kind"), DENIALS)
def test_a_denial_tells_its_reason(tool: str, kind: type[Deny | RejectPlan]) -> None:
    assert settled(asked(tool, {}), kind("no")) == {
        "behavior": "deny",
        "message": "no",
        "interrupt": False,
    }


@pytest.mark.parametrize(("tool", "kind"), DENIALS)
def test_a_denial_always_has_a_message(tool: str, kind: type[Deny | RejectPlan]) -> None:
    denied = settled(asked(tool, {}), kind("  ", stop=True))
    assert denied["message"]
    assert denied["interrupt"] is True


def test_questions_are_typed() -> None:
    request = asked("AskUserQuestion", QUESTIONS)
    assert isinstance(request, QuestionRequest)
    (question,) = request.questions
    assert (question.question, question.header, question.multi_select) == ("Which?", "Pick", True)
    assert [choice.label for choice in question.options] == ["Red", "Blue"]


def test_malformed_questions_are_no_error() -> None:
    for given in ({}, {"questions": 3}, {"questions": [None, {"options": "x"}]}):
        request = asked("AskUserQuestion", given)
        assert isinstance(request, QuestionRequest)
        assert isinstance(request.questions, list)


def test_answers_go_by_question_text_and_several_labels_as_one_string() -> None:
    answer = Choose({"Which?": ["Red", "Blue"], "Why?": "just so"}, notes={"Which?": "both"})
    updated = settled(asked("AskUserQuestion", QUESTIONS), answer)["updatedInput"]
    assert updated == {
        **QUESTIONS,
        "answers": {"Which?": "Red, Blue", "Why?": "just so"},
        "annotations": {"Which?": {"notes": "both"}},
    }


def test_skipping_tells_the_model_that_nothing_was_answered() -> None:
    skipped = settled(asked("AskUserQuestion", QUESTIONS), Skip())
    assert skipped["behavior"] == "deny"
    assert "did not answer" in skipped["message"]


@pytest.mark.parametrize(
    ("tool", "answer"),
    [("Bash", Skip()), ("Bash", ApprovePlan()), ("ExitPlanMode", Choose({}))],
)
def test_an_answer_to_something_else_is_no_answer(tool: str, answer: HandlerAnswer) -> None:
    with pytest.raises(TypeError, match=tool):
        settle(asked(tool, {}), answer)


def test_a_plan_is_typed() -> None:
    request = asked("ExitPlanMode", {**PLAN, "allowedPrompts": [{"tool": "Bash"}]})
    assert isinstance(request, PlanRequest)
    assert (request.plan, request.plan_file) == ("1. do it", "/plans/x.md")
    assert request.allowed_prompts == [{"tool": "Bash"}]
    empty = asked("ExitPlanMode", {})
    assert isinstance(empty, PlanRequest)
    assert (empty.plan, empty.plan_file, empty.allowed_prompts) == (None, None, [])


def test_approving_echoes_the_plan_and_may_set_the_mode() -> None:
    answer = settled(asked("ExitPlanMode", PLAN), ApprovePlan(mode="acceptEdits"))
    assert answer["updatedInput"] == PLAN
    assert answer["updatedPermissions"] == [ACCEPT_EDITS]


def test_an_edited_plan_replaces_the_text_where_the_cli_takes_edits() -> None:
    answer = settled(asked("ExitPlanMode", PLAN), ApprovePlan(plan="2. better"))
    assert answer["updatedInput"] == {**PLAN, "plan": "2. better"}


def test_an_edited_plan_becomes_feedback_where_the_cli_ignores_edits() -> None:
    answer = settled(asked("ExitPlanMode", PLAN), ApprovePlan(plan="2. better"), edits=False)
    assert answer["behavior"] == "deny"
    assert "2. better" in answer["message"]


def test_feedback_on_a_plan_is_what_the_model_reads() -> None:
    answer = settled(asked("ExitPlanMode", PLAN), RevisePlan("smaller steps"))
    assert (answer["behavior"], answer["message"]) == ("deny", "smaller steps")


def test_set_mode_is_an_update_like_any_other() -> None:
    answer = settled(asked("Bash", {}), WithUpdates(Allow(), updates=[SetMode(mode="plan")]))
    assert answer["updatedPermissions"][0]["mode"] == "plan"


# What is remembered, and no more


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "rm -rf build/*"}),
        ("Write", {"file_path": "/x"}),
        ("WebFetch", {"url": "https://example.org"}),
    ],
)
def test_what_no_rule_can_mean_alone_cannot_be_allowed_for_good(
    tool: str, given: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="nothing can be remembered"):
        settle(asked(tool, given), Allow(always=True))
    assert "updatedPermissions" not in settled(asked(tool, given), Allow())


def test_a_cli_that_wants_no_rule_gets_none() -> None:
    request = asked("Bash", {"command": "ls"}, suppress_always_allow_rule=True)
    with pytest.raises(TypeError, match="nothing can be remembered"):
        settle(request, Allow(always=True))


def test_a_mode_or_a_directory_is_remembered_in_no_settings_file() -> None:
    both = [ACCEPT_EDITS, OUTSIDE]
    request = asked("Write", {"file_path": "/elsewhere/x"}, permission_suggestions=both)
    with pytest.raises(TypeError, match="nothing can be remembered"):
        settle(request, Allow(always="userSettings"))


def test_a_call_that_is_remembered_here_needs_no_rule() -> None:
    request = asked("Bash", {"command": "rm -rf build/*"})
    old = replace(request, features=Features(version=(2, 1, 37)))
    assert settle(old, Allow(always=True)).is_for_good


def test_the_same_call_is_remembered_whatever_its_description() -> None:
    remembered = Remembered()
    note(remembered, asked("Bash", {"command": "make", "description": "a"}), Allow(always=True))
    assert remembered.covers(asked("Bash", {"command": "make", "description": "b"}))
    assert not remembered.covers(asked("Bash", {"command": "make all"}))


def test_an_edited_call_is_remembered_as_it_was_edited() -> None:
    remembered = Remembered()
    edited = Allow(input={"command": "make"}, always=True)
    note(remembered, asked("Bash", {"command": "rm"}), edited)
    assert remembered.covers(asked("Bash", {"command": "make"}))
    assert not remembered.covers(asked("Bash", {"command": "rm"}))


def test_what_was_not_to_be_remembered_is_not() -> None:
    remembered = Remembered()
    note(remembered, asked("Bash", {"command": "make"}), Allow())
    note(remembered, asked("Bash", {"command": "make"}), Deny())
    assert not remembered.covers(asked("Bash", {"command": "make"}))


@pytest.mark.parametrize(
    ("tool", "given", "fields"),
    [
        ("Bash", {"command": "make", "dangerouslyDisableSandbox": True}, {}),
        ("Bash", {"command": "make"}, {"decision_reason_type": "safetyCheck"}),
        ("Bash", {"command": "make"}, {"decision_reason_type": "hook"}),
        ("Bash", {"command": "make"}, {"decision_reason_type": "rule"}),
        ("Bash", {"command": "make"}, {"default_to_no": True}),
        ("Bash", {"command": "make"}, {"suppress_always_allow_rule": True}),
        ("Bash", {"command": "make"}, {"matched_ask_rule": {"source": "userSettings"}}),
        ("mcp__ssh__exec", {"command": "make"}, {}),
    ],
)
def test_another_call_or_a_special_reason_is_asked_all_the_same(
    tool: str, given: dict[str, Any], fields: dict[str, Any]
) -> None:
    remembered = Remembered()
    note(remembered, asked("Bash", {"command": "make"}), Allow(always=True))
    note(remembered, asked("mcp__ssh__exec", {"command": "make"}), Allow(always=True))
    assert not remembered.covers(asked(tool, given, **fields))


def test_an_empty_reason_is_the_usual_one() -> None:
    assert settled(asked("Bash", {}), Deny())["message"] == DENIED
    assert settled(asked("ExitPlanMode", PLAN), RejectPlan(" "))["message"] == REJECTED


def test_an_approved_plan_may_change_permissions_as_well() -> None:
    own = AddRules(rules=[PermissionRule(tool_name="Read")], destination="session")
    answer = settled(asked("ExitPlanMode", PLAN), WithUpdates(ApprovePlan(mode="plan"), [own]))
    assert [each["type"] for each in answer["updatedPermissions"]] == ["addRules", "setMode"]


@pytest.mark.parametrize("answer", [ClearContext(), Fill(), RevisePlan("x", images=[{}])])
def test_what_only_an_engine_can_do_is_no_answer_here(answer: Any) -> None:
    with pytest.raises(TypeError):
        settle(asked("ExitPlanMode", PLAN), answer)
