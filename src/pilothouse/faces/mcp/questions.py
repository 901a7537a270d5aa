"""What a session asks, as a caller of the tools sees it; and its answers, as the engine wants them.

    tool_approval    allow, deny, "deny: reason", always, "always: localSettings",
                     "deny_and_stop: reason"
    plan_approval    approve, reject, "reject: reason", approve_accept_edits, approve_and_compact,
                     "revise: feedback", clear_context
    question         one string per question: a label, several joined by ", " where several may be
                     chosen, other words; or skip
    elicitation      one string per field of an MCP server's form (accept, if it has none), or
                     decline, or cancel; for a page: open, decline, cancel

What is offered follows the ways the question itself has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
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
    OwnUpdate,
    PermissionDestination,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.api.questions import Posed, Question, Way
from pilothouse.errors import AnswerRefused

from .addresses import address_of
from .fields import Field, fields_of
from .label_match import pick_one, pick_several
from .texts import bounded, time_of, writable

__all__ = ["TYPES", "answer_of", "distinct", "pending", "valid_answers"]

JsonObject = dict[str, Any]

TYPES: Final = {
    "tool": "tool_approval",
    "plan": "plan_approval",
    "questions": "question",
    "elicitation": "elicitation",
}
SHOWN: Final = 4_000
INPUT_SHOWN: Final = 4_000
REVISE: Final = "Revise the plan."
FILES: Final[tuple[PermissionDestination, ...]] = (
    "localSettings",
    "projectSettings",
    "userSettings",
)

OTHERWISE: Final = {
    "allow": "run it",
    "deny": "do not run it; `deny: reason` tells why",
    "approve": "implement it, and ask as before",
    "reject": "do not implement it; `reject: reason` tells why",
    "approve_accept_edits": "implement it, and accept every edit of files",
    "approve_and_compact": "the same, and the conversation is summarised after the turn",
    "revise": "plan again: `revise: what to change`",
    "clear_context": "a new session that knows only the plan implements it, and accepts every edit",
    "accept": "yes; there is nothing to fill in",
    "open": "a person has opened the page",
    "decline": "no",
    "cancel": "neither yes nor no",
}
"""What the options mean, where the question's own ways do not say."""


# What is asked


def pending(question: Question) -> JsonObject:
    """The question as a caller sees it."""
    told: JsonObject = {
        "id": question.id,
        "type": TYPES[question.kind],
        "questions": _asked(question),
    }
    if question.kind == "tool":
        told["toolName"] = question.tool_name or ""
        given = writable(question.input)
        if len(msgspec.json.encode(given)) <= INPUT_SHOWN:
            told["input"] = given
    why = {
        "reason": question.reason,
        "reasonType": question.reason_type,
        "matchedRule": question.matched_rule,
        "blockedPath": question.blocked_path,
    }
    told |= {name: value for name, value in why.items() if value}
    if question.expires_at is not None:
        told["expiresAt"] = time_of(question.expires_at)
    return told


def _asked(question: Question) -> list[JsonObject]:
    match question.kind:
        case "questions":
            each_one = [_posed(each) for each in distinct(question.posed)]
            return each_one or [_one(question, ["skip"])]
        case "elicitation" if question.schema is not None:
            fields = fields_of(question.schema)
            return [_field(question, each) for each in fields] or [_one(question, list(_EMPTY))]
        case _:
            return [_one(question, _options(question))]


def _one(question: Question, options: list[str]) -> JsonObject:
    return {
        "question": _text(question),
        "options": options,
        "header": question.tool_name or question.server_name or "",
        "descriptions": [_description(question, each) for each in options],
        "multiSelect": False,
    }


def _text(question: Question) -> str:
    body = bounded(question.text, SHOWN, address_of(question.session_id))
    if question.kind == "plan" and question.plan is not None:
        asks = "Approve this plan and begin implementation?"
        return f"Claude has completed a plan:\n\n{body}\n\n{asks}"
    is_told = question.text.strip() in question.title
    return question.title if is_told else f"{question.title}\n\n{body}".strip()


def _description(question: Question, option: str) -> str:
    if option == "always":
        return next((way.label for way in question.ways if _is_always(way)), "")
    return OTHERWISE.get(option, "")


def _posed(posed: Posed) -> JsonObject:
    # Nobody can choose what has no name.
    options = [each for each in posed.options if each.label.strip()]
    return {
        "question": posed.question,
        "options": [each.label for each in options],
        "header": posed.header,
        "descriptions": [each.description for each in options],
        "multiSelect": posed.multi_select,
    }


def _field(question: Question, field: Field) -> JsonObject:
    needed = "" if field.required else " (optional: an empty answer leaves it out)"
    said = f"{field.title}: {field.description}" if field.description else field.title
    return {
        "question": f"{question.title}\n{said}{needed}",
        "options": field.options,
        "header": field.name,
        "descriptions": field.titles,
        "multiSelect": field.several,
    }


# What may be answered


def _options(question: Question) -> list[str]:
    """The answers that fit, those everybody knows first."""
    if question.kind == "elicitation":
        return list(_PAGE)
    if question.kind == "tool":
        always = ["always"] if any(map(_is_always, question.ways)) else []
        return ["allow", "deny", *always]
    kinds = {way.answer.get("kind") for way in question.ways}
    more = {"revise": "revise_plan", "clear_context": "clear_context"}
    found = [option for option, kind in more.items() if kind in kinds]
    accepts = any(way.answer.get("mode") == "acceptEdits" for way in _approving(question.ways))
    compacts = any(way.answer.get("compact") for way in question.ways)
    accepting = ["approve_accept_edits"] if accepts else []
    compacting = ["approve_and_compact"] if compacts else []
    return ["approve", "reject", *accepting, *compacting, *found]


def _is_always(way: Way) -> bool:
    """Whether it is the way to be asked no more in this session. No file is written with it."""
    return way.answer.get("kind") == "allow" and way.answer.get("always") is True


def _approving(ways: Sequence[Way]) -> list[Way]:
    return [way for way in ways if way.answer.get("kind") == "approve_plan"]


def valid_answers(question: Question) -> str:
    """The answers that would fit, for whoever gave another one."""
    match question.kind:
        case "tool" | "plan":
            return f"answers takes one of {_words(_forms(_options(question)))}"
        case "questions":
            each = [_choices(posed) for posed in distinct(question.posed)]
            return f'answers takes one string for each of {len(each)}: {"; ".join(each)}; or "skip"'
        case "elicitation" if question.schema is None:
            return f"answers takes one of {_words(_PAGE)}"
        case _:
            named = [_field_choices(field) for field in fields_of(question.schema or {})]
            if not named:
                return f"answers takes one of {_words(_EMPTY)}"
            each = f"one string for each field: {'; '.join(named)}"
            return f"answers takes {each}; or {_words(_FORM)}"


def _forms(options: list[str]) -> list[str]:
    spoken = {
        "deny": ["deny", "deny: reason"],
        "always": ["always", *(f"always: {each}" for each in FILES)],
        "reject": ["reject", "reject: reason"],
        "revise": ["revise: what to change"],
    }
    stopping = ["deny_and_stop: reason"] if "deny" in options else []
    return [*(form for option in options for form in spoken.get(option, [option])), *stopping]


def _words(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _choices(posed: Posed) -> str:
    several = " (several, joined by ', ')" if posed.multi_select else ""
    labels = [each.label for each in posed.options]
    return (
        f"{posed.question!r}: {f'{_words(labels)}{several}, or other words' if labels else 'text'}"
    )


def _field_choices(field: Field) -> str:
    return f"{field.name}: {_words(field.options) if field.options else field.kind}"


# Answers


def answer_of(
    question: Question,
    answers: list[str],
    updated_input: JsonObject | None = None,
    updates: Sequence[OwnUpdate] = (),
    *,
    plan: str | None = None,
    notes: Mapping[str, str] | None = None,
    images: Sequence[JsonObject] = (),
) -> Answer:
    """What the engine is to be told. `AnswerRefused` says what would have fitted."""
    answer = _with_words(question, _answer(question, answers), plan, notes)
    if images:
        if not isinstance(answer, RevisePlan):
            raise _refused(question, "images go with the answer revise to a plan alone")
        answer = replace(answer, images=list(images))
    if updated_input is None and not updates:
        return answer
    if not isinstance(answer, Allow) or answer.always or question.kind != "tool":
        name = "updatedPermissions" if updated_input is None else "updatedInput"
        raise _refused(question, f"{name} goes with the answer allow to a tool alone")
    return Allow(input=updated_input, updates=list(updates) or None)


def _with_words(
    question: Question, answer: Answer, plan: str | None, notes: Mapping[str, str] | None
) -> Answer:
    """The answer with the caller's own text of a plan, or notes to what was chosen."""
    if plan is not None:
        if not isinstance(answer, ApprovePlan | ClearContext):
            raise _refused(question, "plan goes with an approval of a plan alone")
        answer = replace(answer, plan=plan)
    if notes:
        if not isinstance(answer, Choose):
            raise _refused(question, "notes go with answers to the model's questions alone")
        answer = replace(answer, notes=dict(notes))
    return answer


def _refused(question: Question, message: str) -> AnswerRefused:
    return AnswerRefused(message, advice=valid_answers(question))


def _answer(question: Question, answers: list[str]) -> Answer:
    match question.kind:
        case "questions":
            return _chosen(question, answers)
        case "elicitation" if question.schema is not None:
            return _filled(question, answers)
        case _:
            return _decided(question, answers)


def _decided(question: Question, answers: list[str]) -> Answer:
    """One word, perhaps with a reason after it."""
    if len(answers) != 1:
        raise _refused(question, f"one answer is wanted, not {len(answers)}")
    word, colon, said = answers[0].partition(":")
    word, said = word.strip().casefold(), said.strip()
    if question.kind == "tool" and word == "deny_and_stop":
        return Deny(reason=said, stop=True)
    if colon and word == "always" and word in _options(question):
        return Allow(always=_destination(question, said))
    is_spoken = word in ("deny", "reject", "revise")
    if word not in _options(question) or (colon and not is_spoken):
        raise _refused(question, f"{answers[0][:200]!r} is not an answer to it")
    if question.kind == "plan" and not _approving(question.ways):
        # There is no plan: leaving plan mode is a plain yes or no.
        return Allow() if word == "approve" else Deny(reason=said)
    return _WORDS[word](said)


def _destination(question: Question, said: str) -> PermissionDestination:
    """Where a rule is to be written: what the question offers."""
    offered: dict[str, PermissionDestination] = {
        each.casefold(): each for each in FILES if f"always_{each}" in {w.id for w in question.ways}
    }
    if said.casefold() not in offered:
        raise _refused(question, f"{said[:200]!r} is no place to remember it in")
    return offered[said.casefold()]


_PAGE: Final = ("open", "decline", "cancel")
_FORM: Final = ("decline", "cancel")
_EMPTY: Final = ("accept", *_FORM)

_WORDS: Final[Mapping[str, Callable[[str], Answer]]] = {
    "allow": lambda said: Allow(),
    "always": lambda said: Allow(always=True),
    "deny": lambda said: Deny(reason=said),
    # Without a mode the CLI goes back to the one it had before it planned.
    "approve": lambda said: ApprovePlan(),
    "approve_accept_edits": lambda said: ApprovePlan(mode="acceptEdits"),
    "approve_and_compact": lambda said: ApprovePlan(mode="acceptEdits", compact=True),
    "reject": lambda said: RejectPlan(reason=said),
    "revise": lambda said: RevisePlan(feedback=said or REVISE),
    "clear_context": lambda said: ClearContext(),
    "open": lambda said: Fill(),
    "accept": lambda said: Fill(),
    "decline": lambda said: Decline(),
    "cancel": lambda said: Dismiss(),
}


# The model's questions


def distinct(posed: Sequence[Posed]) -> list[Posed]:
    """What has to be asked: answers go by a question's text, and the last of that text counts."""
    return list({each.question: each for each in posed}.values())


def _chosen(question: Question, answers: list[str]) -> Answer:
    posed = distinct(question.posed)
    if _skips(posed, answers):
        return Skip()
    if len(posed) == 1 and posed[0].multi_select and len(answers) > 1:
        # One string for each label instead of one for the question: it cannot mean anything else.
        answers = [", ".join(answers)]
    if len(answers) != len(posed):
        raise _refused(question, f"{len(posed)} answers are wanted, not {len(answers)}")
    given = {each.question: _picked(each, text) for each, text in zip(posed, answers, strict=True)}
    if empty := [text for text, picked in given.items() if not picked]:
        raise _refused(question, f"the answer to {empty[0]!r} is empty")
    return Choose(answers=given)


def _skips(posed: Sequence[Posed], answers: list[str]) -> bool:
    labels = {option.label.casefold() for each in posed for option in each.options}
    words = {answer.strip().casefold() for answer in answers}
    return words == {"skip"} and "skip" not in labels


def _picked(posed: Posed, text: str) -> str | list[str]:
    labels = _posed(posed)["options"]
    return pick_several(labels, text) if posed.multi_select else pick_one(labels, text)


# Forms of a session's own MCP servers


def _filled(question: Question, answers: list[str]) -> Answer:
    fields = fields_of(question.schema or {})
    word = answers[0].strip().casefold() if len(answers) == 1 else ""
    offered = fields[0].options if len(fields) == 1 else []
    plain = _FORM if fields else _EMPTY
    if word in plain and word not in [each.casefold() for each in offered]:
        return _WORDS[word]("")
    if len(answers) != len(fields):
        raise _refused(question, f"{len(fields)} answers are wanted, not {len(answers)}")
    content: JsonObject = {}
    for field, text in zip(fields, answers, strict=True):
        if text.strip() or field.required:
            content[field.name] = _value(question, field, text)
    return Fill(content=content)


def _value(question: Question, field: Field, text: str) -> Any:
    try:
        return field.value(text)
    except ValueError as error:
        raise _refused(question, str(error)) from None
