"""Answers as the CLI takes them: with the words, rules and modes of the request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

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
from pilothouse.client.elicitation import ElicitationAnswer
from pilothouse.client.permissions import (
    HandlerAnswer,
    PermissionRequest,
    PlanRequest,
    QuestionRequest,
    Settled,
    WithUpdates,
    settle,
)
from pilothouse.client.permissions import ModelQuestion as Posed

from . import plan
from .descriptions import escape

__all__ = ["elicited", "settled"]

IMAGES_FOLLOW = "The user's feedback follows as images."


def settled(request: PermissionRequest, answer: Answer) -> Settled:
    """The answer as the CLI takes it. One that does not belong raises TypeError."""
    return settle(request, _in_its_words(request, answer))


def _in_its_words(request: PermissionRequest, answer: Answer) -> HandlerAnswer:
    match answer:
        case Allow() if isinstance(request, PlanRequest):
            return _allowed_plan(request)
        case Choose() if isinstance(request, QuestionRequest):
            return _chosen(request, answer)
        case ApprovePlan() if isinstance(request, PlanRequest):
            return _with_rules(request, answer)
        case RevisePlan(feedback=feedback):
            return RevisePlan(feedback if feedback.strip() else IMAGES_FOLLOW)
        case ClearContext():
            return RejectPlan("The user implements the plan in a new session.", stop=True)
        case Allow() | Deny() | Skip() | RejectPlan():
            return answer
        case _:
            raise TypeError(f"{type(answer).__name__} is no answer to {request.tool_name}")


def _allowed_plan(request: PlanRequest) -> HandlerAnswer:
    if plan.has_plan(request.plan):
        return _with_rules(request, ApprovePlan())
    return WithUpdates(Allow(), mode="default")


def _with_rules(request: PlanRequest, answer: ApprovePlan) -> HandlerAnswer:
    """The approval, and the rules that the plan asks for."""
    rules = plan.rules(request.allowed_prompts)
    told = replace(answer, compact=False)
    return WithUpdates(told, rules) if rules else told


def _chosen(request: QuestionRequest, answer: Choose) -> Choose:
    """The answers with the model's own words again, which faces see escaped."""
    words = {escape(each.question): each for each in request.questions}
    answers: dict[str, str | Sequence[str]] = {}
    for text, value in answer.answers.items():
        asked = words.get(escape(text), Posed(question=text))
        labels = {escape(each.label): each.label for each in asked.options}
        one = isinstance(value, str)
        answers[asked.question] = (
            labels.get(value, value) if one else [labels.get(each, each) for each in value]
        )
    notes = {
        words[escape(text)].question: note
        for text, note in answer.notes.items()
        if escape(text) in words
    }
    return Choose(answers, notes)


def elicited(answer: Answer) -> ElicitationAnswer:
    """What the client's handler for an MCP server's form or page returns."""
    match answer:
        case Fill() | Decline() | Dismiss():
            return answer
        case Deny():
            return Decline()
        case _:
            raise TypeError(f"{type(answer).__name__} is no answer to an MCP server")
