"""Whether an answer fits its question; if not, which would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from pilothouse.api.answers import (
    AddOwnDirectories,
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
    OwnUpdate,
    RejectPlan,
    RemoveOwnDirectories,
    RemoveOwnRules,
    ReplaceOwnRules,
    RevisePlan,
    SetOwnMode,
    Skip,
)
from pilothouse.api.questions import Posed, Question, Way
from pilothouse.client.permissions import own_rules
from pilothouse.engine.gate import OperatorGate
from pilothouse.errors import AnswerRefused
from pilothouse.protocol.wire import JsonObject, encode_json

from . import forms, plan
from .descriptions import escape

__all__ = ["check"]


def check(question: Question, answer: Answer, *, bypass_allowed: bool) -> None:
    """Refuse an answer that does not fit the question, or that would open the way to bypass."""
    if not isinstance(answer, _fitting(question)):
        kind = answer.__struct_config__.tag
        raise _refused(question, f"{kind} is no answer to a question about {_subject(question)}")
    _check_bypass(question, answer, bypass_allowed=bypass_allowed and not question.foreign)
    if wrong := _wrong(question, answer):
        raise _refused(question, "; ".join(wrong))


def _subject(question: Question) -> str:
    match question.kind:
        case "tool":
            return "a tool"
        case "questions":
            return "the model's questions"
        case "elicitation":
            return "a form or a page of an MCP server"
        case "plan":
            return "a plan" if plan.has_plan(question.plan) else "leaving plan mode without a plan"
        case _:
            assert_never(question.kind)


def _fitting(question: Question) -> tuple[type[Answer], ...]:
    match question.kind:
        case "tool":
            return (Allow, Deny)
        case "questions":
            return (Choose, Skip, Deny)
        case "elicitation":
            return (Fill, Decline, Dismiss)
        case "plan" if plan.has_plan(question.plan):
            return (ApprovePlan, RevisePlan, RejectPlan, ClearContext, Allow, Deny)
        case "plan":
            # Not offered, but a person may leave a session that wrote its plan nowhere.
            return (Allow, Deny, ClearContext)
        case _:
            assert_never(question.kind)


def _refused(question: Question, message: str) -> AnswerRefused:
    valid = [_example(way) for way in question.ways]
    choices = [
        f"{each.question!r}: {' | '.join(repr(option.label) for option in each.options) or 'text'}"
        for each in question.posed
    ]
    advice = f"send one of {', '.join(valid)}"
    return AnswerRefused(
        message, advice=f"{advice}; choices: {'; '.join(choices)}" if choices else advice
    )


def _example(way: Way) -> str:
    return encode_json(way.answer | {name: "..." for name in way.needs}).decode()


def _check_bypass(question: Question, answer: Answer, *, bypass_allowed: bool) -> None:
    gate = OperatorGate(allowed=bypass_allowed)
    if isinstance(answer, ApprovePlan | ClearContext):
        gate.check("the answer", {"mode": answer.mode})
    if isinstance(answer, Allow):
        gate.check("the answer", msgspec.to_builtins(answer.updates or []))
    if isinstance(answer, Allow) and not (question.tool_name or "").startswith("mcp__"):
        # An agent may be started in a mode of its own.
        gate.check("the answer", question.input if answer.input is None else answer.input)


def _wrong(question: Question, answer: Answer) -> list[str]:
    """What is wrong with an answer of a fitting kind."""
    match answer:
        case ApprovePlan(plan=str()) if question.foreign:
            # CLIs before 2.1.119 go on with the plan as it was, and this one's version is unknown.
            return ["the plan of a CLI that is not the engine's cannot be edited; have it revised"]
        case ApprovePlan(compact=True) if question.foreign:
            return ["the conversation of a CLI that is not the engine's cannot be compacted"]
        case RevisePlan(images=[_, *_]) if question.foreign:
            return ["images cannot be sent to a CLI that is not the engine's"]
        case Allow():
            return [
                *_wrong_input(question, answer.input),
                *_wrong_always(question, answer),
                *_wrong_updates(question, answer.updates or ()),
            ]
        case Choose():
            return _wrong_choice(question, answer)
        case Fill(content=content):
            return _wrong_form(question, content)
        case ApprovePlan(mode=mode, plan=text) | ClearContext(mode=mode, plan=text):
            return _wrong_plan(mode, text)
        case RevisePlan():
            return _wrong_feedback(answer)
        case _:
            return []


def _wrong_input(question: Question, given: JsonObject | None) -> list[str]:
    if given is None:
        return []
    if question.kind == "plan":
        return ["a plan is edited with approve_plan and its `plan`"]
    return ["the edited input is empty"] if question.input and not given else []


def _wrong_always(question: Question, answer: Allow) -> list[str]:
    """Refuse to allow for good what nothing can be remembered for: it would be a single yes."""
    if answer.always is False:
        return []
    wanted = "session" if answer.always in (True, "cliArg") else answer.always
    if f"always_{wanted}" not in {way.id for way in question.ways}:
        return ["nothing can be remembered for it there; allow it once"]
    edited, name = answer.input, question.tool_name or ""
    if edited not in (None, question.input) and not own_rules(name, edited or {}, wanted):
        return ["nothing can be remembered for the edited input; allow it once"]
    return []


def _wrong_updates(question: Question, updates: Sequence[OwnUpdate]) -> list[str]:
    if updates and question.kind != "tool":
        return ["updates go with the answer to a tool"]
    wrong: list[str] = []
    for update in updates:
        match update:
            case AddOwnRules() | ReplaceOwnRules() | RemoveOwnRules():
                if not all(rule.tool_name.strip() for rule in update.rules):
                    wrong.append("a rule names its tool in `toolName`")
            case AddOwnDirectories() | RemoveOwnDirectories():
                if not all(name.startswith("/") for name in update.directories):
                    wrong.append("directories are absolute paths")
            case SetOwnMode():
                pass
            case _:
                assert_never(update)
    return wrong


def _wrong_form(question: Question, content: JsonObject) -> list[str]:
    if question.schema is None:
        return ["a page takes no values"] if content else []
    return forms.wrong(question.schema, content)


def _wrong_plan(mode: str | None, text: str | None) -> list[str]:
    if mode == "plan":
        return ["a plan is not implemented in plan mode"]
    return ["the edited plan is empty"] if text is not None and not text.strip() else []


def _wrong_feedback(answer: RevisePlan) -> list[str]:
    if not answer.feedback.strip() and not answer.images:
        return ["the feedback is empty"]
    for image in answer.images:
        if image.get("type") != "image" or not isinstance(image.get("source"), dict):
            return ["an image is a content block with `type` image and its `source`"]
    return []


def _wrong_choice(question: Question, answer: Choose) -> list[str]:
    posed = {each.question: each for each in question.posed}
    chosen = {escape(text): value for text, value in answer.answers.items()}
    unknown = [text for text in (*chosen, *map(escape, answer.notes)) if text not in posed]
    missing = [text for text in posed if text not in chosen]
    wrong = [f"there is no question {text!r}" for text in unknown]
    wrong += [f"the question {text!r} is not answered" for text in missing]
    for text, value in chosen.items():
        if text in posed:
            wrong += _wrong_value(posed[text], value)
    return wrong


def _wrong_value(asked: Posed, value: str | Sequence[str]) -> list[str]:
    if not isinstance(value, str) and not asked.multi_select:
        return [f"the question {asked.question!r} takes one choice, not a list"]
    labels = [value] if isinstance(value, str) else value
    if not labels or not all(label.strip() for label in labels):
        return [f"the answer to {asked.question!r} is empty"]
    return []
