"""Answers as the CLI and MCP servers get them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pilothouse.api.answers import (
    AddOwnRules,
    Allow,
    Answer,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Deny,
    Dismiss,
    Fill,
    OwnRule,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.client import permissions as client
from pilothouse.client.elicitation import ElicitationAnswer
from pilothouse.client.permissions import PermissionRequest
from pilothouse.client.versions import Features
from pilothouse.engine.kept_rules import kept_after
from pilothouse.engine.questions import (
    check,
    elicited,
    settled,
)
from pilothouse.engine.snapshot import Facts
from pilothouse.protocol import AddRules
from tests.support.asks import (
    COLOUR,
    MODE,
    PLAN,
    RULE,
    SAILS,
    asked,
    bash,
    plan_request,
    posed,
)


def sent(request: PermissionRequest, answer: Answer) -> Any:
    """What goes over the wire for this answer."""
    return msgspec.to_builtins(settled(request, answer).result)


SUGGESTED = bash(permission_suggestions=[RULE])
PROMPTED = plan_request(plan=PLAN, allowedPrompts=[{"tool": "Bash", "prompt": "run tests"}])
PROMPT_RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "prompt: run tests"}],
    "behavior": "allow",
    "destination": "session",
}


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (SUGGESTED, Allow(), {"updatedInput": {"command": "make test"}}),
        (SUGGESTED, Allow(input={"command": "ls"}), {"updatedInput": {"command": "ls"}}),
        (
            SUGGESTED,
            Allow(always=True),
            {
                "updatedInput": {"command": "make test"},
                "updatedPermissions": [RULE | {"destination": "session"}],
            },
        ),
        (
            SUGGESTED,
            Allow(always="userSettings"),
            {
                "updatedInput": {"command": "make test"},
                "updatedPermissions": [RULE | {"destination": "userSettings"}],
            },
        ),
        (
            PROMPTED,
            ApprovePlan(mode="acceptEdits"),
            {"updatedInput": PROMPTED.input, "updatedPermissions": [PROMPT_RULE, MODE]},
        ),
        (
            PROMPTED,
            ApprovePlan(plan="1. Look"),
            {
                "updatedInput": PROMPTED.input | {"plan": "1. Look"},
                "updatedPermissions": [PROMPT_RULE],
            },
        ),
        (
            PROMPTED,
            Allow(),
            {"updatedInput": PROMPTED.input, "updatedPermissions": [PROMPT_RULE]},
        ),
        (
            plan_request(),
            Allow(always=True),
            {"updatedInput": {}, "updatedPermissions": [MODE | {"mode": "default"}]},
        ),
        (
            asked(COLOUR, SAILS),
            Choose(
                answers={"Which colour?": "Teal", "Which sails?": ["Main", "Jib"]},
                notes={"Which colour?": "Not too dark"},
            ),
            {
                "updatedInput": {
                    "questions": [COLOUR, SAILS],
                    "answers": {"Which colour?": "Teal", "Which sails?": "Main, Jib"},
                    "annotations": {"Which colour?": {"notes": "Not too dark"}},
                }
            },
        ),
    ],
)
def test_a_yes_as_the_cli_gets_it(
    request_: PermissionRequest, answer: Answer, expected: dict[str, Any]
) -> None:
    assert sent(request_, answer) == {"behavior": "allow", **expected}


@pytest.mark.parametrize(
    ("request_", "answer", "message", "stops"),
    [
        (bash(), Deny(reason="Too late."), "Too late.", False),
        (bash(), Deny(reason=" "), client.DENIED, False),
        (bash(), Deny(stop=True), client.DENIED, True),
        (asked(COLOUR), Skip(), "The user did not answer the questions.", False),
        (asked(COLOUR), Deny(reason="Guess.", stop=True), "Guess.", True),
        (PROMPTED, RevisePlan(feedback="Look first."), "Look first.", False),
        (
            PROMPTED,
            RevisePlan(feedback="", images=[{}]),
            "The user's feedback follows as images.",
            False,
        ),
        (PROMPTED, RejectPlan(reason="Too far."), "Too far.", False),
        (PROMPTED, RejectPlan(stop=True), client.REJECTED, True),
        (PROMPTED, Deny(reason="No."), "No.", False),
        (PROMPTED, ClearContext(), "The user implements the plan in a new session.", True),
        (plan_request(), Deny(reason="Which plan?"), "Which plan?", False),
    ],
)
def test_a_no_as_the_cli_gets_it(
    request_: PermissionRequest, answer: Answer, message: str, stops: bool
) -> None:
    expected = {"behavior": "deny", "message": message, "interrupt": stops}
    assert sent(request_, answer) == expected


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (bash(), Choose(answers={})),
        (bash(), ApprovePlan()),
        (bash(), Fill()),
        (bash(), Skip()),
        (bash(), ClearContext()),
        (asked(COLOUR), RevisePlan(feedback="x")),
        (PROMPTED, Dismiss()),
        (PROMPTED, Choose(answers={})),
    ],
)
def test_an_answer_that_does_not_belong_never_becomes_a_yes(
    request_: PermissionRequest, answer: Answer
) -> None:
    with pytest.raises(TypeError, match="is no answer to"):
        sent(request_, answer)


def test_the_model_gets_its_own_words_back_which_people_saw_escaped() -> None:
    odd = COLOUR | {"question": "Which\u202e?", "options": [{"label": "Re\x1bd"}]}
    request = asked(odd)
    question = posed(request)
    text, label = question.posed[0].question, question.posed[0].options[0].label
    assert (text, label) == ("Which\\u202e?", "Re\\x1bd")
    answer = Choose(answers={text: label}, notes={text: "Hm"})
    check(question, answer, bypass_allowed=False)
    got = sent(request, answer)["updatedInput"]
    assert got["answers"] == {"Which\u202e?": "Re\x1bd"}
    assert got["annotations"] == {"Which\u202e?": {"notes": "Hm"}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Fill(content={"day": "Monday"}), Fill({"day": "Monday"})),
        (Fill(), Fill()),
        (Decline(), Decline()),
        (Deny(reason="Expired."), Decline()),
        (Dismiss(), Dismiss()),
    ],
)
def test_an_answer_as_an_mcp_server_gets_it(answer: Answer, expected: ElicitationAnswer) -> None:
    assert elicited(answer) == expected


def test_a_yes_to_a_tool_is_no_answer_to_an_mcp_server() -> None:
    with pytest.raises(TypeError, match="is no answer to"):
        elicited(Allow())


@pytest.mark.parametrize(
    ("request_", "answer", "rules"),
    [
        (SUGGESTED, Allow(always=True), ["Bash(make test:*)"]),
        (SUGGESTED, Allow(always="userSettings"), []),
        (SUGGESTED, Allow(), []),
        (SUGGESTED, Deny(), []),
        (PROMPTED, ApprovePlan(), ["Bash(prompt: run tests)"]),
        (PROMPTED, ApprovePlan(plan="Another one."), ["Bash(prompt: run tests)"]),
        (PROMPTED, RejectPlan(), []),
    ],
)
def test_what_an_answer_allows_for_the_session_comes_with_it(
    request_: PermissionRequest, answer: Answer, rules: list[str]
) -> None:
    assert session_rules(settled(request_, answer)) == rules


def test_an_edited_plan_that_an_old_cli_is_told_with_a_no_allows_nothing() -> None:
    old = replace(PROMPTED, features=Features(version=(2, 1, 37)))
    assert session_rules(settled(old, ApprovePlan(plan="Another one."))) == []


def session_rules(answer: client.Settled) -> list[str]:
    kept = kept_after(Facts(session_id="s"), answer.updates)
    return [] if kept is None else kept.rules


def test_updates_of_the_callers_own_go_with_a_yes_and_before_what_is_remembered() -> None:
    own = AddOwnRules(rules=[OwnRule(tool_name="Bash", rule_content="git:*")])
    sent = settled(SUGGESTED, Allow(always=True, updates=[own])).updates
    assert [each.rules[0].rule_content for each in sent if isinstance(each, AddRules)] == [
        "git:*",
        "make test:*",
    ]


def test_the_client_takes_a_settled_answer_as_it_is() -> None:
    answer = settled(SUGGESTED, Allow(always=True))
    assert client.settle(SUGGESTED, answer) is answer
