"""The message that tells the model a decision on what it had asked before its CLI died."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

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
from pilothouse.api.questions import Question
from pilothouse.protocol.wire import encode_json

from . import plan

__all__ = ["statement"]

_BREAK: Final = "\n\n"


def statement(question: Question, answer: Answer) -> str:
    """The message that tells the model a decision on what it asked before its CLI died."""
    asked = _had_asked(question)
    return f"{asked}{_BREAK if _BREAK in asked else ' '}{_decision(question, answer)}"


def _had_asked(question: Question) -> str:
    when = "when the session was interrupted"
    match question.kind:
        case "tool":
            return f"You had asked to {_lowered(question.title)} {when}."
        case "plan" if plan.has_plan(question.plan):
            return f"You had asked {when} whether this plan is right:\n\n{question.plan}"
        case "plan":
            return f"You had asked to leave plan mode {when}."
        case "questions":
            return f"You had asked the user {when}:\n\n{question.text}"
        case "elicitation":
            return f"The MCP server {question.server_name} had asked {when}:\n\n{question.text}"
        case _:
            assert_never(question.kind)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _decision(question: Question, answer: Answer) -> str:
    match answer:
        case Allow(input=given):
            return _allowed(question, given)
        case Deny(reason=reason, stop=stop) | RejectPlan(reason=reason, stop=stop):
            return _denied(reason, stop=stop)
        case Choose():
            return f"The user answers:\n\n{_answers(answer)}"
        case Skip():
            return "The user does not answer: go on without."
        case Fill() | Decline() | Dismiss():
            return _filled(answer)
        case _:
            return _planned(answer)


def _planned(answer: ApprovePlan | RevisePlan | ClearContext) -> str:
    match answer:
        case ApprovePlan(plan=None):
            return "The user approves it: implement it."
        case ApprovePlan(plan=text):
            return f"The user approves it as edited here; implement this:\n\n{text}"
        case RevisePlan(feedback=feedback):
            return f"The user wants it revised: {feedback.strip() or 'see the images.'}"
        case ClearContext():
            return "The user has it implemented in a new session: nothing is left to do here."
        case _:
            assert_never(answer)


def _filled(answer: Fill | Decline | Dismiss) -> str:
    match answer:
        case Fill(content=content) if content:
            return f"The user fills in: {encode_json(content).decode()}"
        case Fill():
            return "The user agrees."
        case Decline():
            return "The user declines."
        case Dismiss():
            return "The user closed it without a choice."
        case _:
            assert_never(answer)


def _allowed(question: Question, given: Mapping[str, Any] | None) -> str:
    if question.kind == "plan":
        return "The user allows it: go on."
    call = f"{question.tool_name} {encode_json(given or question.input).decode()}"
    if given is None:
        return f"The user allows it: go on. The call was: {call}"
    return f"The user allows it with another input; call it so: {call}"


def _denied(reason: str, *, stop: bool) -> str:
    because = f": {reason.strip()}" if reason.strip() else "."
    return f"The user says no{because}" + (" Stop here and wait for the user." if stop else "")


def _answers(answer: Choose) -> str:
    lines: list[str] = []
    for text, value in answer.answers.items():
        said = value if isinstance(value, str) else ", ".join(value)
        note = answer.notes.get(text)
        lines.append(f"- {text}: {said}" + (f" (note: {note})" if note else ""))
    return "\n".join(lines)
