"""What the answers of all hooks of an event come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from pilothouse_sim.simulator.tools.base import ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.hooks.outputs import Fired, Ruling
    from pilothouse_sim.simulator.permissions import Verdict

__all__ = [
    "Hooked",
    "Submitted",
    "contexts",
    "replaced",
    "spoken",
    "submitted",
    "successes",
]


class Hooked(Struct, frozen=True, kw_only=True):
    """What the PreToolUse hooks decided."""

    ruling: Ruling | None = None
    input: dict[str, Any] | None = None

    @property
    def allows(self) -> bool:
        """Whether the call runs without a question."""
        return self.ruling is not None and self.ruling.behavior == "allow"

    @property
    def asks(self) -> bool:
        """Whether the user is asked even where a rule allows the call."""
        return self.ruling is not None and self.ruling.behavior == "ask"

    def as_question(self, verdict: Verdict, arguments: dict[str, Any]) -> Verdict:
        """The verdict, made a question that says who wants it asked."""
        return msgspec.structs.replace(
            verdict,
            behavior="ask",
            description=verdict.description or arguments.get("description"),
            reason=(self.ruling and self.ruling.reason) or "",
            reason_type="hook",
            hook_event="PreToolUse",
            hook_source="settings",
            suggestions=None,
            blocked_path=None,
            rule_source=None,
            matched_ask_rule=None,
            server_policy_ask_only=None,
            classifier_approvable=None,
        )


class Submitted(Struct, frozen=True, kw_only=True):
    """What the UserPromptSubmit hooks made of a prompt."""

    lines: list[dict[str, Any]] = []
    """`informational` lines that follow the init line."""
    contexts: list[str] = []
    refusal: str | None = None
    """The result of a turn that does not take place."""
    is_kept: bool = True
    """Whether the model hears of the prompt in a later turn."""


def spoken(name: str, fired: Fired) -> list[dict[str, Any]]:
    """The lines that tell the user what hooks have to say."""
    return [{"content": f"{name} says: {words}", "level": "notice"} for words in fired.messages]


def contexts(name: str, fired: Fired) -> list[str]:
    """What hooks have the model know, as it is told."""
    return [f"{name} hook additional context: {words}" for words in fired.contexts]


def successes(name: str, fired: Fired) -> list[str]:
    """What commands printed, as the model is told."""
    return [f"{name} hook success: {one.words}" for one in fired.heard if one.words]


def submitted(prompt: str, fired: Fired) -> Submitted:
    """What becomes of a prompt: the first objection counts, then a stop."""
    name = "UserPromptSubmit"
    blocked = f"{name} operation blocked by hook:\n"
    if fired.timeout is not None:
        words = f"{blocked}{name} hook callback timed out after {fired.timeout * 1000:.0f}ms"
        return _refused(words, "no_verdict", no_verdict_kind="callback_timed_out")
    for one in fired.heard:
        if one.block is not None:
            words = f"{blocked}{one.block}\n\nOriginal prompt: {prompt}"
            reason = one.objection or one.output.get("reason") or one.block
            return _refused(words, "blocked_by_hook", reason=reason.strip())
    if fired.stop is not None:
        words = "Operation stopped by hook" + (f": {fired.stop}" if fired.stop else "")
        return _refused(words, "stopped_by_hook", is_kept=True, reason=fired.stop)
    return Submitted(
        lines=[*fired.failures, *spoken(name, fired)],
        contexts=[*contexts(name, fired), *successes(name, fired)],
    )


def _refused(words: str, kind: str, *, is_kept: bool = False, **why: str) -> Submitted:
    line = {
        "content": words,
        "level": "warning",
        "prevent_continuation": True,
        "prompt_submit_outcome": {"kind": kind, "prompt_kept": is_kept, **why},
    }
    return Submitted(lines=[line], refusal=words, is_kept=is_kept)


def replaced(name: str, outcome: ToolOutcome, fired: Fired) -> ToolOutcome:
    """The outcome of a tool, or what a hook puts in its place."""
    given = fired.last("updatedToolOutput")
    if given is None and name.startswith("mcp__"):
        given = fired.last("updatedMCPToolOutput")
    if given is None:
        return outcome
    result = outcome.result
    if isinstance(result, dict) and "structuredContent" in result:
        given_result: Any = {**cast("dict[str, Any]", result), "content": given}
    else:
        given_result = given
    return ToolOutcome(content=_rendered(given), result=given_result, is_error=outcome.is_error)


def _rendered(given: Any) -> str | list[dict[str, Any]]:
    """What the model reads of an output that a hook gave in place of the tool's own."""
    if isinstance(given, str | list):
        return cast("str | list[dict[str, Any]]", given)
    members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if "stdout" in members:
        written = (members["stdout"], members.get("stderr"))
        return "\n".join(each for each in written if each)
    return msgspec.json.encode(given).decode()
