"""The ways out of plan mode, and the first message of the session that implements a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pilothouse.api.questions import Way
from pilothouse.api.values import JsonObject
from pilothouse.protocol import AddRules, PermissionRule, PermissionUpdate

__all__ = ["has_plan", "implementation_prompt", "prompts", "rules", "ways"]

GENERIC_PROMPT: Final = "Continue implementing the plan from the previous conversation."
PROMPTED_TOOLS: Final = frozenset({"Bash"})
"""The CLI's own schema has no other; a rule for another tool could mean something else there."""


def has_plan(plan: str | None) -> bool:
    """Whether there is a plan to decide on; without one the question is a plain yes or no."""
    return plan is not None and bool(plan.strip())


def ways(
    plan: str | None, *, bypass_allowed: bool, own: bool = True, used: float | None = None
) -> list[Way]:
    """What a person may answer to a request to leave plan mode.

    `own`: the CLI is the engine's. `used` is how full its context is, in percent.
    """
    if not has_plan(plan):
        return [_way("allow", "Yes"), _way("deny", "No", needs=["reason"])]
    context = "the context" if used is None else f"the context ({used:.0f}% used)"
    bypass = _bypass_ways(context) if bypass_allowed else []
    edited = [_edited_way(), _compacting_way()] if own else []
    return [
        _way("approve_plan", "Approve, and accept edits", id="accept_edits", mode="acceptEdits"),
        _way("approve_plan", "Approve, and ask about each edit", id="ask_edits", mode="default"),
        *edited,
        _way("revise_plan", "Revise it, with feedback", needs=["feedback"]),
        _way("reject_plan", "Reject it", needs=["reason"]),
        _way("reject_plan", "Reject it, and stop", id="reject_and_stop", stop=True),
        _way(
            "clear_context",
            f"Clear {context}, implement it, accept edits",
            mode="acceptEdits",
        ),
        *bypass,
    ]


def _edited_way() -> Way:
    label = "Approve it as edited here, and accept edits"
    return _way("approve_plan", label, id="edit_plan", needs=["plan"], mode="acceptEdits")


def _compacting_way() -> Way:
    label = "Approve, accept edits, and compact the conversation afterwards"
    mode = "acceptEdits"
    return _way("approve_plan", label, id="approve_and_compact", mode=mode, compact=True)


def _bypass_ways(context: str) -> list[Way]:
    mode = "bypassPermissions"
    return [
        _way("approve_plan", "Approve, and bypass permissions", id="bypass", mode=mode),
        _way(
            "clear_context",
            f"Clear {context}, implement it, and bypass permissions",
            id="clear_context_and_bypass",
            mode=mode,
        ),
    ]


def _way(
    kind: str, label: str, *, id: str | None = None, needs: list[str] | None = None, **fixed: Any
) -> Way:
    return Way(id=id or kind, label=label, answer={"kind": kind, **fixed}, needs=needs or [])


def implementation_prompt(plan: str | None) -> str:
    """The first message to a session that knows nothing but the plan."""
    return f"Implement the following plan:\n\n{plan}" if has_plan(plan) else GENERIC_PROMPT


def prompts(given: Sequence[Any]) -> list[JsonObject]:
    """The kinds of commands a plan asks leave for: those that can become rules."""
    objects = [cast(JsonObject, each) for each in given if isinstance(each, dict)]
    return [
        {"tool": each["tool"], "prompt": each["prompt"]}
        for each in objects
        if str(each.get("tool")) in PROMPTED_TOOLS and _is_plain(each.get("prompt"))
    ]


def _is_plain(prompt: Any) -> bool:
    # In a rule a `*` stands for anything.
    return isinstance(prompt, str) and bool(prompt.strip()) and "*" not in prompt


def rules(given: Sequence[Any]) -> list[PermissionUpdate]:
    """The rules for the session that come with a plan's approval.

    They are in the form of the CLI's own. It keeps them, but up to 2.1.325 takes the words for a
    command, so what they describe is still asked about.
    """
    made = [
        PermissionRule(tool_name=each["tool"], rule_content=f"prompt: {each['prompt'].strip()}")
        for each in prompts(given)
    ]
    return [AddRules(rules=made, destination="session")] if made else []
