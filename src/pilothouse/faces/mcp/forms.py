"""A question as a form that an MCP client shows to a person, and the filled-in form as an answer.

    form_of(question)             what is shown: a message, and a schema with the real options
    answer_in(question, content)  what was filled in, as an answer; AnswerRefused says what is wrong

    tool, plan     `answer` is one of the ways there are; `reason` or `feedback` is free text
    questions      `q1`, `q2`, ... are the choices, `q1_other` an answer in words of one's own
    elicitation    the form of a session's own MCP server, as it is; or a page to open

A form of MCP has only plain values: texts, numbers, yes or no, and one or several of a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never, cast

import msgspec

from pilothouse.api.answers import Answer, Choose, Decline, Fill, Skip
from pilothouse.api.questions import Option, Posed, Question, Way
from pilothouse.api.values import JsonObject
from pilothouse.errors import AnswerRefused

from .texts import line_of, list_of, time_of

__all__ = ["Form", "answer_in", "form_of"]

LONGEST: Final = 8_000
"""Of what is asked about, in characters; of more, its beginning and its end are shown."""
ENDING: Final = 2_000
DESCRIBED: Final = 2_000
TITLE: Final = 200
NAMED_BY_LABEL: Final = 200
"""A longer label is not its option's value as well."""

DECISIONS: Final[dict[str, JsonObject]] = {
    "allow": {"kind": "allow"},
    "always": {"kind": "allow", "always": True},
    "deny": {"kind": "deny"},
    "approve": {"kind": "approve_plan", "mode": "default"},
    "approve_accept_edits": {"kind": "approve_plan", "mode": "acceptEdits"},
    "approve_and_compact": {"kind": "approve_plan", "mode": "acceptEdits", "compact": True},
    "revise": {"kind": "revise_plan"},
    "reject": {"kind": "reject_plan"},
    "clear_context": {"kind": "clear_context", "mode": "acceptEdits"},
}
"""The values of `answer` -> the way that each stands for, if the question has it."""
LABELS: Final = {
    "approve": "Approve, and ask as before",
    "clear_context": "Clear the context and implement it in a new session, accepting every edit",
}
"""What is said of those whose way's own label says less, or something else."""
WORDS: Final = frozenset({"reason", "feedback"})
"""What a way may need that is text of one line or some."""
PAGE: Final = {"open": "Open the page", "decline": "Decline"}
FORMATS: Final = frozenset({"date", "date-time", "email", "uri"})


@dataclass(frozen=True, slots=True)
class Form:
    """What a client is asked to show."""

    message: str
    schema: JsonObject
    url: str | None = None
    """The page that a person is asked to open; a client that can do so itself needs no schema."""


def form_of(question: Question, *, titled: bool = True, again: str = "") -> Form | None:
    """The form for a question; None for one that no form can ask.

    Versions of MCP before 2025-11-25 have choices without titles of their own, and no lists of
    them: `titled=False`. `again` says why the last answer was not taken.
    """
    schema = _schema(question, titled=titled)
    if schema is None:
        return None
    is_page = question.kind == "elicitation" and question.schema is None
    message = _message(question, again, titled=titled)
    return Form(message, schema, question.url if is_page else None)


def answer_in(question: Question, content: Mapping[str, Any]) -> Answer:
    """The answer that was filled in."""
    match question.kind:
        case "tool" | "plan":
            return _decision(question, content)
        case "questions":
            return _choices(question, content)
        case "elicitation":
            return _filled(question, content)
        case _:
            assert_never(question.kind)


def _schema(question: Question, *, titled: bool) -> JsonObject | None:
    match question.kind:
        case "tool" | "plan":
            return _deciding(question, titled=titled)
        case "questions":
            return _choosing(question, titled=titled)
        case "elicitation" if question.schema is not None:
            return _flat(question.schema)
        case "elicitation":
            return _object({"answer": _one_of("Answer", PAGE, titled=titled)}, ["answer"])
        case _:
            assert_never(question.kind)


# What a person reads


def _message(question: Question, again: str, *, titled: bool) -> str:
    shown, is_whole = _shortened(_asked_about(question, titled=titled))
    parts = [
        f"That was not taken: {_line(again, DESCRIBED)}" if again else "",
        question.title,
        _place(question),
        "" if question.reason is None else f"Why it asks: {_line(question.reason, DESCRIBED)}",
        "" if is_whole else _rest(question),
        "" if question.expires_at is None else _limit(question.expires_at),
        shown,
    ]
    return "\n\n".join(part for part in parts if part)


def _place(question: Question) -> str:
    label = f" ({_line(question.label)})" if question.label else ""
    where = f" in {_line(question.cwd, DESCRIBED)}" if question.cwd else ""
    who = "A subagent of Claude Code" if question.agent_id else "Claude Code"
    return f"{who}{where}{label}"


def _limit(expires_at: int) -> str:
    return f"It is denied if nobody answers by {time_of(expires_at)}."


def _rest(question: Question) -> str:
    return (
        "Only the beginning and the end are shown here. Read all of it before you decide: "
        f"it is question {question.id} of session {question.session_id} (GET /api/questions/…)."
    )


def _asked_about(question: Question, *, titled: bool) -> str:
    if question.kind != "questions":
        return question.text
    previews = [
        f"{option.label}:\n{option.preview}"
        for posed in question.posed
        for option in posed.options
        if option.preview
    ]
    # Choices that are a field each leave no field that could show their question.
    return "\n\n".join(previews if titled else [question.text, *previews])


def _shortened(text: str) -> tuple[str, bool]:
    """The text, or both its ends: what matters most may stand last. And whether it is whole."""
    if len(text) <= LONGEST:
        return text, True
    left_out = f"\n[… {len(text) - LONGEST} characters are left out here …]\n"
    return text[: LONGEST - ENDING] + left_out + text[-ENDING:], False


def _line(text: str, limit: int = TITLE) -> str:
    line = line_of(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _cut(text: str, limit: int = DESCRIBED) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# Parts of a schema


def _object(properties: JsonObject, required: Sequence[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def _text(title: str, description: str) -> JsonObject:
    return {"type": "string", "title": title, "description": description}


def _one_of(title: str, options: Mapping[str, str], *, titled: bool) -> JsonObject:
    field: JsonObject = {"type": "string", "title": title}
    if titled:
        return field | {"oneOf": _titled(options)}
    return field | {"enum": list(options), "enumNames": list(options.values())}


def _titled(options: Mapping[str, str]) -> list[JsonObject]:
    return [{"const": value, "title": title} for value, title in options.items()]


# Tools and plans


def _decisions(question: Question) -> dict[str, Way]:
    found: dict[str, Way] = {}
    for name, answer in DECISIONS.items():
        for way in question.ways:
            if way.answer == answer and WORDS.issuperset(way.needs):
                found.setdefault(name, way)
    return found


def _deciding(question: Question, *, titled: bool) -> JsonObject | None:
    decisions = _decisions(question)
    if not decisions:
        return None
    options = {name: _line(label, LONGEST) for name, label in _named_ways(decisions).items()}
    properties = {"answer": _one_of("Answer", options, titled=titled)}
    if _words(decisions.values()) == "feedback":
        words = "What to change, or why not: the model reads it. Revising needs it."
        properties["feedback"] = _text("Feedback", words)
    else:
        properties["reason"] = _text("Reason", "If you say no, the model reads this.")
    return _object(properties, ["answer"])


def _named_ways(decisions: Mapping[str, Way]) -> dict[str, str]:
    # In a form there is a field for the reason.
    return {
        name: LABELS.get(name) or way.label.removesuffix(", with a reason")
        for name, way in decisions.items()
    }


def _words(ways: Iterable[Way]) -> str:
    return "feedback" if any("feedback" in way.needs for way in ways) else "reason"


def _decision(question: Question, content: Mapping[str, Any]) -> Answer:
    decisions = _decisions(question)
    chosen = _option("answer", content.get("answer"), _named_ways(decisions))
    if chosen is None:
        raise AnswerRefused(f"`answer` is missing: it is one of {', '.join(decisions)}")
    way = decisions[chosen]
    words = _said(content, _words(decisions.values()))
    if "feedback" in way.needs and not words:
        raise AnswerRefused("a plan is revised with `feedback`, and that is empty")
    return _answer(_members(chosen, way) | dict.fromkeys(way.needs, words))


def _members(chosen: str, way: Way) -> JsonObject:
    # As claude_respond has it: the session goes on in the mode it had before it planned.
    left_out = {"mode"} if chosen == "approve" else set[str]()
    return {name: value for name, value in way.answer.items() if name not in left_out}


def _answer(members: JsonObject) -> Answer:
    # `convert` takes a union as well, which its signature does not say.
    return msgspec.convert(members, Answer)  # pyright: ignore[reportUnknownVariableType, reportCallIssue, reportArgumentType]


# The model's questions


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question, the name of its field, and the values of the field with their labels."""

    key: str
    posed: Posed
    options: dict[str, Option]

    @property
    def title(self) -> str:
        return _line(self.posed.header) or f"Question {self.key.removeprefix('q')}"


def _all_asked(question: Question) -> list[_Asked]:
    # Answers go by the question's text: of those with the same, the engine looks at the last.
    distinct = {each.question: each for each in question.posed}.values()
    return [_Asked(f"q{n}", each, _options(each)) for n, each in enumerate(distinct, 1)]


def _options(posed: Posed) -> dict[str, Option]:
    options: dict[str, Option] = {}
    for number, option in enumerate(posed.options, 1):
        # An empty label could be shown, but is no answer.
        if option.label.strip():
            is_short = len(option.label) <= NAMED_BY_LABEL
            options.setdefault(option.label if is_short else f"option {number}", option)
    return options


def _choosing(question: Question, *, titled: bool) -> JsonObject:
    properties: JsonObject = {}
    asked = _all_asked(question)
    for each in asked:
        properties |= _fields(each, titled=titled)
    return _object(properties, [each.key for each in asked if not each.options])


def _fields(asked: _Asked, *, titled: bool) -> JsonObject:
    if not asked.options:
        return {asked.key: _text(asked.title, _described(asked)) | {"minLength": 1}}
    if asked.posed.multi_select and not titled:
        chosen = _switches(asked)
    else:
        chosen = {asked.key: _choice(asked, titled=titled)}
    instead = "As well as" if asked.posed.multi_select else "Instead of"
    words = _text(f"{asked.title}: another answer", f"{instead} the choices, in your own words.")
    return {**chosen, f"{asked.key}_other": words}


def _choice(asked: _Asked, *, titled: bool) -> JsonObject:
    options = {value: _line(option.label) for value, option in asked.options.items()}
    if asked.posed.multi_select:
        items = {"anyOf": _titled(options)}
        field: JsonObject = {"type": "array", "title": asked.title, "items": items, "minItems": 1}
    else:
        field = _one_of(asked.title, options, titled=titled)
    return field | {"description": _described(asked)}


def _switches(asked: _Asked) -> JsonObject:
    return {
        f"{asked.key}_{number}": {
            "type": "boolean",
            "title": _line(f"{asked.title}: {option.label}"),
            "description": _cut(option.description or option.label),
            "default": False,
        }
        for number, option in enumerate(asked.options.values(), 1)
    }


def _described(asked: _Asked) -> str:
    described = (
        f"- {_line(option.label)}: {_line(option.description, DESCRIBED)}"
        for option in asked.options.values()
        if option.description.strip()
    )
    return _cut("\n".join([asked.posed.question, *described]))


def _choices(question: Question, content: Mapping[str, Any]) -> Answer:
    asked = _all_asked(question)
    if not asked:
        return Skip()
    return Choose(answers={each.posed.question: _chosen(each, content) for each in asked})


def _chosen(asked: _Asked, content: Mapping[str, Any]) -> str | list[str]:
    other = _said(content, f"{asked.key}_other")
    if not asked.options:
        chosen = [_said(content, asked.key)]
    elif asked.posed.multi_select:
        chosen = [*_several(asked, content), other]
    else:
        chosen = [other or _single(asked, content)]
    given = list(dict.fromkeys(each for each in chosen if each))
    if not given:
        raise AnswerRefused(f"the question {_line(asked.posed.question)!r} is not answered")
    return given if asked.posed.multi_select else given[0]


def _single(asked: _Asked, content: Mapping[str, Any]) -> str:
    chosen = _option(asked.key, content.get(asked.key), _labels(asked))
    return "" if chosen is None else asked.options[chosen].label


def _several(asked: _Asked, content: Mapping[str, Any]) -> list[str]:
    given = content.get(asked.key)
    values = cast("list[Any]", given) if isinstance(given, list) else [given]
    labels = _labels(asked)
    chosen = [_option(asked.key, value, labels) for value in values]
    switched = [
        value
        for number, value in enumerate(asked.options, 1)
        if content.get(f"{asked.key}_{number}") is True
    ]
    return [asked.options[each].label for each in (*chosen, *switched) if each is not None]


def _labels(asked: _Asked) -> dict[str, str]:
    return {value: option.label for value, option in asked.options.items()}


# What was filled in


def _said(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AnswerRefused(f"`{name}` is a text")
    return value.strip()


def _option(name: str, value: Any, options: Mapping[str, str]) -> str | None:
    """The value that was chosen. A client may send the words it has shown instead."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if value in options:
            return value
        for known, label in options.items():
            if value.strip().casefold() in (known.casefold(), _line(label).casefold()):
                return known
    valid = ", ".join(_line(known) for known in options)
    raise AnswerRefused(f"`{name}` is one of {valid}")


# Forms and pages of a session's own MCP servers


def _filled(question: Question, content: Mapping[str, Any]) -> Answer:
    if question.schema is not None:
        # A field that was left empty; the engine looks at all others.
        return Fill(content={name: value for name, value in content.items() if value is not None})
    # Where the client itself opens pages, there is nothing to fill in.
    chosen = _option("answer", content.get("answer"), PAGE)
    return Decline() if chosen == "decline" else Fill()


def _flat(schema: JsonObject) -> JsonObject | None:
    """The schema as the forms of MCP have it; None if it asks for more than they can."""
    properties = schema.get("properties")
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not _are_texts(required):
        return None
    named = cast("dict[str, Any]", properties)
    fields = {name: _plain(cast("JsonObject", each)) for name, each in named.items() if _is(each)}
    if len(fields) != len(named) or None in fields.values():
        return None
    return _object(fields, required)


def _plain(field: JsonObject) -> JsonObject | None:
    if field.get("type") == "array":
        items = field.get("items")
        options = _offered(cast("JsonObject", items), "anyOf") if _is(items) else None
        return None if not options else field | {"items": options}
    options = _offered(field, "oneOf")
    if options is None:
        return None
    if options:
        rest = {name: value for name, value in field.items() if name not in ("anyOf", "oneOf")}
        return rest | {"type": "string"} | options
    if field.get("type") not in ("string", "number", "integer", "boolean"):
        return None
    is_known = "format" not in field or field["format"] in FORMATS
    return {name: value for name, value in field.items() if name != "format" or is_known}


def _offered(field: JsonObject, keyword: str) -> JsonObject | None:
    """What there is to choose from: empty if it is no choice, None if no form has such a one."""
    listed = field.get("oneOf", field.get("anyOf"))
    if listed is not None:
        each = [cast("JsonObject", one) for one in list_of(listed) if _is(one)]
        values = [one.get("const") for one in each]
        if not each or len(each) != len(list_of(listed)) or not _are_texts(values):
            return None
        return {keyword: [{"const": one["const"], "title": _named(one)} for one in each]}
    if "enum" not in field or field.get("type") in ("number", "integer"):
        return {}
    is_ours = _are_texts(field["enum"]) and field["enum"]
    return {"type": "string", "enum": field["enum"]} if is_ours else None


def _named(option: JsonObject) -> str:
    title = option.get("title")
    return title if isinstance(title, str) and title else option["const"]


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, str) for each in cast("list[Any]", value)
    )
