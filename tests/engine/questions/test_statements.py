"""Decisions on questions whose CLI died, in words for the model."""

from __future__ import annotations

import pytest

from pilothouse.api.answers import (
    Allow,
    Answer,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Deny,
    Dismiss,
    Fill,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.client.permissions import PermissionRequest
from pilothouse.engine.questions import (
    statement,
)
from tests.support.asks import (
    COLOUR,
    PLAN,
    SAILS,
    asked,
    bash,
    form,
    plan_request,
    posed,
)


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (
            bash(),
            Allow(),
            "You had asked to run `make test` when the session was interrupted. The user allows "
            'it: go on. The call was: Bash {"command":"make test"}',
        ),
        (
            bash(),
            Allow(input={"command": "ls"}),
            "You had asked to run `make test` when the session was interrupted. The user allows "
            'it with another input; call it so: Bash {"command":"ls"}',
        ),
        (
            bash(),
            Deny(reason="Too late. "),
            "You had asked to run `make test` when the session was interrupted. "
            "The user says no: Too late.",
        ),
        (
            bash(),
            Deny(stop=True),
            "You had asked to run `make test` when the session was interrupted. "
            "The user says no. Stop here and wait for the user.",
        ),
        (
            plan_request(),
            Allow(),
            "You had asked to leave plan mode when the session was interrupted. "
            "The user allows it: go on.",
        ),
        (
            asked(COLOUR),
            Choose(answers={"Which colour?": "Red"}, notes={"Which colour?": "Deep"}),
            "You had asked the user when the session was interrupted:\n\nWhich colour?\n"
            "- Red: Loud\n- Blue\n\nThe user answers:\n\n- Which colour?: Red (note: Deep)",
        ),
        (
            asked(SAILS),
            Choose(answers={"Which sails?": ["Main", "Jib"]}),
            "You had asked the user when the session was interrupted:\n\nWhich sails? (several "
            "may be chosen)\n- Main\n- Jib\n\nThe user answers:\n\n- Which sails?: Main, Jib",
        ),
        (
            asked(COLOUR),
            Skip(),
            "You had asked the user when the session was interrupted:\n\nWhich colour?\n"
            "- Red: Loud\n- Blue\n\nThe user does not answer: go on without.",
        ),
    ],
)
def test_a_decision_is_told_in_words(
    request_: PermissionRequest, answer: Answer, expected: str
) -> None:
    assert statement(posed(request_), answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ApprovePlan(), "The user approves it: implement it."),
        (
            ApprovePlan(plan="1. Look"),
            "The user approves it as edited here; implement this:\n\n1. Look",
        ),
        (RevisePlan(feedback="Look first."), "The user wants it revised: Look first."),
        (RevisePlan(feedback="", images=[{}]), "The user wants it revised: see the images."),
        (RejectPlan(reason="Too far."), "The user says no: Too far."),
        (
            ClearContext(),
            "The user has it implemented in a new session: nothing is left to do here.",
        ),
        (Allow(), "The user allows it: go on."),
    ],
)
def test_a_decision_on_a_plan_is_told_with_the_plan(answer: Answer, expected: str) -> None:
    assert statement(posed(plan_request(plan=PLAN)), answer) == (
        "You had asked when the session was interrupted whether this plan is right:"
        f"\n\n{PLAN}\n\n{expected}"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Fill(content={"day": "Monday"}), 'The user fills in: {"day":"Monday"}'),
        (Fill(), "The user agrees."),
        (Decline(), "The user declines."),
        (Dismiss(), "The user closed it without a choice."),
    ],
)
def test_a_decision_on_an_mcp_servers_form_is_told(answer: Answer, expected: str) -> None:
    told = statement(form(), answer)
    assert told.startswith("The MCP server harbour had asked when the session was interrupted:")
    assert told.endswith(f"\n\n{expected}")
