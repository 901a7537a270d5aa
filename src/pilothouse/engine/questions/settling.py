"""From our answers to what the client's handlers return."""

from __future__ import annotations

from collections.abc import Sequence

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
from pilothouse.client import permissions as client
from pilothouse.client.elicitation import ElicitationAnswer
from pilothouse.client.permissions import PermissionRequest, PlanRequest, QuestionRequest
from pilothouse.protocol import AddRules, PermissionAllow, PermissionRule

from . import plan
from .describing import escape

__all__ = ["elicited", "session_rules", "settled"]


def settled(request: PermissionRequest, answer: Answer) -> client.Answer:
    """What the client's handler returns. An answer that does not belong raises TypeError."""
    if isinstance(request, PlanRequest) and isinstance(answer, Allow):
        return _allowed_plan(request)
    match answer:
        case Allow(input=given, always=always):
            return client.Allow(updated_input=given, remember=always)
        case Deny(reason=reason, stop=stop):
            return client.Deny(_or(reason, client.Deny().reason), stop=stop)
        case Choose() if isinstance(request, QuestionRequest):
            return _chosen(request, answer)
        case Skip():
            return client.Skip()
        case ApprovePlan(mode=mode, plan=text) if isinstance(request, PlanRequest):
            rules = plan.rules(request.allowed_prompts)
            return client.ApprovePlan(edited=text, mode=mode, updates=rules)
        case RevisePlan(feedback=feedback):
            return client.RevisePlan(_or(feedback, "The user's feedback follows as images."))
        case RejectPlan(reason=reason, stop=stop):
            return client.RejectPlan(_or(reason, client.RejectPlan().reason), stop=stop)
        case ClearContext():
            return client.RejectPlan("The user implements the plan in a new session.", stop=True)
        case _:
            raise TypeError(f"{type(answer).__name__} is no answer to {request.tool_name}")


def session_rules(request: PermissionRequest, answer: client.Answer) -> list[str]:
    """What the answer allows for the rest of the session, as the CLI's settings would have it."""
    result = client.settle(request, answer)
    if not isinstance(result, PermissionAllow) or not result.updated_permissions:
        return []
    return [
        _rule_text(rule)
        for update in result.updated_permissions
        if isinstance(update, AddRules)
        and update.behavior == "allow"
        and update.destination == "session"
        for rule in update.rules
    ]


def _rule_text(rule: PermissionRule) -> str:
    return f"{rule.tool_name}({rule.rule_content})" if rule.rule_content else rule.tool_name


def _or(text: str, default: str) -> str:
    return text if text.strip() else default


def _allowed_plan(request: PlanRequest) -> client.Answer:
    if plan.has_plan(request.plan):
        return client.ApprovePlan(updates=plan.rules(request.allowed_prompts))
    return client.Allow(mode="default")


def _chosen(request: QuestionRequest, answer: Choose) -> client.Answers:
    """The answers with the model's own words again, which faces see escaped."""
    words = {escape(each.question): each for each in request.questions}
    answers: dict[str, str | Sequence[str]] = {}
    for text, value in answer.answers.items():
        asked = words.get(escape(text), client.Question(question=text))
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
    return client.Answers(answers, notes)


def elicited(answer: Answer) -> ElicitationAnswer:
    """What the client's handler for an MCP server's form or page returns."""
    match answer:
        case Fill(content=content):
            return ElicitationAnswer("accept", content)
        case Decline() | Deny():
            return ElicitationAnswer("decline")
        case Dismiss():
            return ElicitationAnswer("cancel")
        case _:
            raise TypeError(f"{type(answer).__name__} is no answer to an MCP server")
