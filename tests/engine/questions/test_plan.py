"""The ways out of plan mode."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.api.answers import (
    Allow,
    Answer,
    ApprovePlan,
    ClearContext,
    Deny,
    RejectPlan,
    RevisePlan,
)
from pilothouse.engine.questions import plan
from pilothouse.protocol import AddRules, PermissionRule

PLAN = "# Leap\n\n1. Look\n"
FILLED = {"plan": "Look twice.", "feedback": "Look first.", "reason": "Too far."}


def answers(text: str | None, *, bypass_allowed: bool) -> dict[str, Answer]:
    """Each way as the answer a face would send, with what a person fills in."""
    return {
        way.id: msgspec.convert(
            way.answer | {name: FILLED[name] for name in way.needs}, type=Answer
        )
        for way in plan.ways(text, bypass_allowed=bypass_allowed)
    }


def test_a_plan_has_each_way_out() -> None:
    assert answers(PLAN, bypass_allowed=False) == {
        "accept_edits": ApprovePlan(mode="acceptEdits"),
        "ask_edits": ApprovePlan(mode="default"),
        "edit_plan": ApprovePlan(mode="acceptEdits", plan="Look twice."),
        "approve_and_compact": ApprovePlan(mode="acceptEdits", compact=True),
        "revise_plan": RevisePlan(feedback="Look first."),
        "reject_plan": RejectPlan(reason="Too far."),
        "reject_and_stop": RejectPlan(stop=True),
        "clear_context": ClearContext(mode="acceptEdits"),
    }


def test_clearing_tells_how_full_the_context_is() -> None:
    labels = {way.id: way.label for way in plan.ways(PLAN, bypass_allowed=True, used=41.6)}
    assert labels["clear_context"] == "Clear the context (42% used), implement it, accept edits"
    assert "(42% used)" in labels["clear_context_and_bypass"]


def test_bypass_is_a_way_out_only_where_it_is_allowed() -> None:
    shut, opened = (answers(PLAN, bypass_allowed=allowed) for allowed in (False, True))
    assert {name: opened[name] for name in opened if name not in shut} == {
        "bypass": ApprovePlan(mode="bypassPermissions"),
        "clear_context_and_bypass": ClearContext(mode="bypassPermissions"),
    }


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_without_a_plan_it_is_a_plain_yes_or_no(text: str | None) -> None:
    assert answers(text, bypass_allowed=True) == {"allow": Allow(), "deny": Deny(reason="Too far.")}


def test_every_way_has_an_id_and_a_label_of_its_own() -> None:
    ways = plan.ways(PLAN, bypass_allowed=True)
    assert len({way.id for way in ways}) == len({way.label for way in ways}) == len(ways)


def test_a_new_session_is_told_the_plan_or_to_go_on() -> None:
    assert plan.implementation_prompt(PLAN) == f"Implement the following plan:\n\n{PLAN}"
    generic = "Continue implementing the plan from the previous conversation."
    assert plan.implementation_prompt(None) == plan.implementation_prompt(" ") == generic


def test_what_a_plan_asks_leave_for_becomes_rules_of_the_session() -> None:
    given = [{"tool": "Bash", "prompt": " run tests "}, {"tool": "Bash", "prompt": "build"}]
    rules = [
        PermissionRule(tool_name="Bash", rule_content="prompt: run tests"),
        PermissionRule(tool_name="Bash", rule_content="prompt: build"),
    ]
    assert plan.rules(given) == [AddRules(rules=rules, behavior="allow", destination="session")]


@pytest.mark.parametrize(
    "given",
    [
        "Bash",
        None,
        {},
        {"tool": "Bash"},
        {"tool": "Bash", "prompt": " "},
        {"tool": "Bash", "prompt": "*"},
        {"tool": "Write", "prompt": "notes"},
        {"tool": ["Bash"], "prompt": "run tests"},
        {"tool": "Bash", "prompt": ["run tests"]},
    ],
)
def test_what_is_no_plain_leave_for_a_command_becomes_no_rule(given: Any) -> None:
    assert plan.prompts([given]) == []
    assert plan.rules([given]) == []
