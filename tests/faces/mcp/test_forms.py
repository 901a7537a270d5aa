"""Forms as the official types of MCP have them, with options that all lead to an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types._v2025_11_25 import (
    LegacyTitledEnumSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
)
from msgspec.structs import replace
from pydantic import TypeAdapter

from pilothouse.api.answers import (
    Allow,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Deny,
    Fill,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.api.questions import Question
from pilothouse.engine.questions import check
from pilothouse.errors import AnswerRefused
from pilothouse.faces.mcp.forms import LONGEST, answer_in, form_of
from tests.support.asks import (
    COLOUR,
    MODE,
    PLAN,
    RULE,
    SAILS,
    asked,
    bash,
    elicitation,
    form,
    page,
    plan_request,
    posed,
    tool_request,
)

PRIMITIVE: TypeAdapter[Any] = TypeAdapter(PrimitiveSchemaDefinition)


def schema_of(question: Question, *, titled: bool = True) -> dict[str, Any]:
    made = form_of(question, titled=titled)
    assert made is not None
    return made.schema


def properties(question: Question, *, titled: bool = True) -> dict[str, Any]:
    return schema_of(question, titled=titled)["properties"]


def message_of(question: Question, **more: Any) -> str:
    made = form_of(question, **more)
    assert made is not None
    return made.message


def offered(field: dict[str, Any]) -> dict[str, str]:
    """The values a person chooses from, with what is shown for each."""
    items = field.get("items", field)
    listed = items.get("oneOf") or items.get("anyOf") or []
    return {each["const"]: each["title"] for each in listed}


def test_a_form_says_until_when_it_takes_an_answer() -> None:
    question = posed(tool_request("Bash", {"command": "ls"}))
    assert "nobody answers" not in message_of(replace(question, expires_at=None))
    told = message_of(replace(question, expires_at=1_794_800_000_000))
    assert "It is denied if nobody answers by 2026-11-16T03:33:20+00:00." in told


def writing() -> Question:
    """A tool that no rule is offered for."""
    return posed(tool_request("Write", {"file_path": "/srv/boat/log", "content": "Fair wind"}))


def refusal(question: Question, content: dict[str, Any]) -> str:
    with pytest.raises(AnswerRefused) as refused:
        answer_in(question, content)
    return refused.value.message


# Tools


def test_a_tool_is_allowed_or_denied_with_a_reason() -> None:
    question = writing()
    field = properties(question)["answer"]
    assert offered(field) == {"allow": "Allow", "deny": "Deny"}
    assert schema_of(question)["required"] == ["answer"]
    assert answer_in(question, {"answer": "allow"}) == Allow()
    denied = answer_in(question, {"answer": "deny", "reason": " Not now. "})
    assert denied == Deny(reason="Not now.")


def test_always_is_offered_with_its_rule_where_there_is_one() -> None:
    question = posed(bash(permission_suggestions=[RULE]))
    options = offered(properties(question)["answer"])
    assert list(options) == ["allow", "always", "deny"]
    assert options["always"] == "Always allow in this session: Bash(make test:*)"
    assert answer_in(question, {"answer": "always"}) == Allow(always=True)


def test_always_is_refused_where_it_was_not_offered() -> None:
    assert refusal(writing(), {"answer": "always"}) == "`answer` is one of allow, deny"


@pytest.mark.parametrize("given", ["Allow", "ALLOW ", "allow"])
def test_the_words_that_were_shown_are_taken_for_their_value(given: str) -> None:
    assert answer_in(posed(bash()), {"answer": given}) == Allow()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "`answer` is missing: it is one of allow, deny"),
        ({"answer": None}, "`answer` is missing: it is one of allow, deny"),
        ({"answer": ""}, "`answer` is missing: it is one of allow, deny"),
        ({"answer": "perhaps"}, "`answer` is one of allow, deny"),
        ({"answer": True}, "`answer` is one of allow, deny"),
        ({"answer": ["allow"]}, "`answer` is one of allow, deny"),
        ({"answer": "deny", "reason": 3}, "`reason` is a text"),
    ],
)
def test_what_does_not_fit_is_refused_and_said(content: dict[str, Any], why: str) -> None:
    assert refusal(writing(), content) == why


def test_the_message_shows_what_a_person_decides_on() -> None:
    question = posed(bash(decision_reason="It was not\nallowed before"))
    assert message_of(question) == (
        "Run `make test`\n\n"
        "Claude Code in /srv/boat (nightly)\n\n"
        "Why it asks: It was not allowed before\n\n"
        "make test"
    )


def test_the_message_says_why_it_is_asked_again() -> None:
    message = message_of(posed(bash()), again="`answer` is missing")
    assert message.startswith("That was not taken: `answer` is missing\n\nRun `make test`")


def test_of_a_long_text_both_ends_are_shown_and_where_the_rest_is() -> None:
    command = "echo begin\n" + "x" * 30_000 + "\nrm -rf end"
    question = posed(tool_request("Bash", {"command": command}))
    message = message_of(question)
    assert "echo begin" in message
    assert message.endswith("rm -rf end")
    assert f"{len(question.text) - LONGEST} characters are left out here" in message
    assert f"question {question.id} of session {question.session_id}" in message
    assert len(message) < LONGEST + 1_000


def test_a_question_whose_ways_no_form_has_is_left_to_others() -> None:
    assert form_of(replace(posed(bash()), ways=[])) is None


def test_a_subagent_is_named_as_one() -> None:
    question = replace(posed(bash()), agent_id="agent-1")
    assert "A subagent of Claude Code in /srv/boat" in message_of(question)


# Plans


def test_a_plan_has_six_ways_and_a_field_for_feedback() -> None:
    question = posed(plan_request(plan=PLAN))
    fields = properties(question)
    assert list(offered(fields["answer"])) == [
        "approve",
        "approve_accept_edits",
        "approve_and_compact",
        "revise",
        "reject",
        "clear_context",
    ]
    assert list(fields) == ["answer", "feedback"]
    assert "1. Look\n2. Leap" in message_of(question)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"answer": "approve"}, ApprovePlan()),
        ({"answer": "approve_accept_edits"}, ApprovePlan(mode="acceptEdits")),
        ({"answer": "approve_and_compact"}, ApprovePlan(mode="acceptEdits", compact=True)),
        ({"answer": "revise", "feedback": "Look first."}, RevisePlan(feedback="Look first.")),
        ({"answer": "reject"}, RejectPlan()),
        ({"answer": "reject", "feedback": "No leaps."}, RejectPlan(reason="No leaps.")),
        ({"answer": "clear_context"}, ClearContext(mode="acceptEdits")),
    ],
)
def test_each_way_out_of_plan_mode_is_its_answer(content: dict[str, Any], answer: Any) -> None:
    assert answer_in(posed(plan_request(plan=PLAN)), content) == answer


def test_a_plan_is_not_revised_without_feedback() -> None:
    question = posed(plan_request(plan=PLAN))
    why = refusal(question, {"answer": "revise", "feedback": "  "})
    assert why == "a plan is revised with `feedback`, and that is empty"


def test_leaving_plan_mode_without_a_plan_is_a_yes_or_no() -> None:
    question = posed(plan_request())
    assert offered(properties(question)["answer"]) == {"allow": "Yes", "deny": "No"}
    assert answer_in(question, {"answer": "deny", "reason": "Plan."}) == Deny(reason="Plan.")


def test_a_way_that_bypasses_permissions_is_never_in_a_form() -> None:
    question = posed(plan_request(plan=PLAN), bypass_allowed=True)
    assert any("bypass" in way.id for way in question.ways)
    assert "bypass" not in str(schema_of(question))


# The model's questions


def test_each_question_has_its_choices_and_a_field_for_own_words() -> None:
    fields = properties(posed(asked(COLOUR, SAILS)))
    assert list(fields) == ["q1", "q1_other", "q2", "q2_other"]
    assert fields["q1"] == {
        "type": "string",
        "title": "Colour",
        "oneOf": [{"const": "Red", "title": "Red"}, {"const": "Blue", "title": "Blue"}],
        "description": "Which colour?\n- Red: Loud",
    }
    assert fields["q2"] == {
        "type": "array",
        "title": "Sails",
        "items": {"anyOf": [{"const": "Main", "title": "Main"}, {"const": "Jib", "title": "Jib"}]},
        "minItems": 1,
        "description": "Which sails?",
    }


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ({"q1": "Red", "q2": ["Main"]}, ("Red", ["Main"])),
        ({"q1": "red", "q2": ["Jib", "Main", "Jib"]}, ("Red", ["Jib", "Main"])),
        ({"q1_other": "Green", "q2": ["Main"]}, ("Green", ["Main"])),
        ({"q1": "Red", "q1_other": "Green", "q2": ["Main"]}, ("Green", ["Main"])),
        ({"q1": "Red", "q1_other": " ", "q2": ["Main"]}, ("Red", ["Main"])),
        ({"q1": "Red", "q2": ["Main"], "q2_other": "Spinnaker"}, ("Red", ["Main", "Spinnaker"])),
        ({"q1": "Red", "q2": [], "q2_other": "Spinnaker"}, ("Red", ["Spinnaker"])),
        ({"q1": "Red", "q2": "Main"}, ("Red", ["Main"])),
        ({"q1": "Red", "q2_1": False, "q2_2": True}, ("Red", ["Jib"])),
    ],
)
def test_choices_and_own_words_become_answers(
    content: dict[str, Any], answers: tuple[str, list[str]]
) -> None:
    answer = answer_in(posed(asked(COLOUR, SAILS)), content)
    assert answer == Choose(answers={"Which colour?": answers[0], "Which sails?": answers[1]})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "the question 'Which colour?' is not answered"),
        ({"q1": "Red"}, "the question 'Which sails?' is not answered"),
        ({"q1": "Red", "q2": []}, "the question 'Which sails?' is not answered"),
        ({"q1": "Green", "q2": ["Main"]}, "`q1` is one of Red, Blue"),
        ({"q1": "Red", "q2": ["Main", "Keel"]}, "`q2` is one of Main, Jib"),
        ({"q1": 1, "q2": ["Main"]}, "`q1` is one of Red, Blue"),
        ({"q1_other": 1, "q2": ["Main"]}, "`q1_other` is a text"),
    ],
)
def test_a_question_without_a_valid_answer_is_refused(content: dict[str, Any], why: str) -> None:
    assert refusal(posed(asked(COLOUR, SAILS)), content) == why


def test_a_question_without_options_takes_a_text() -> None:
    question = posed(asked({"question": "Why?", "header": "", "options": []}))
    assert schema_of(question)["required"] == ["q1"]
    assert list(properties(question)) == ["q1"]
    assert properties(question)["q1"]["title"] == "Question 1"
    assert answer_in(question, {"q1": "Because."}) == Choose(answers={"Why?": "Because."})


def test_a_long_label_is_chosen_by_a_short_value() -> None:
    long = "a " * 200
    option = {"label": long, "description": ""}
    question = posed(asked({**COLOUR, "options": [option, {"label": "Red"}]}))
    assert list(offered(properties(question)["q1"])) == ["option 1", "Red"]
    assert answer_in(question, {"q1": "option 1"}) == Choose(answers={"Which colour?": long})


def test_a_question_or_a_label_that_is_there_twice_is_there_once() -> None:
    twice = {**COLOUR, "options": [{"label": "Red"}, {"label": "Red"}, {"label": " "}]}
    question = posed(asked(COLOUR, SAILS, twice))
    fields = properties(question)
    assert list(fields) == ["q1", "q1_other", "q2", "q2_other"]
    assert list(offered(fields["q1"])) == ["Red"]
    assert fields["q2"]["title"] == "Sails"


def test_a_preview_is_in_the_message() -> None:
    options = [{"label": "Red", "preview": "<red>"}, {"label": "Blue"}]
    question = posed(asked({**COLOUR, "options": options}))
    assert message_of(question).endswith("Red:\n<red>")


def test_no_question_at_all_is_a_form_without_fields() -> None:
    question = posed(asked())
    assert properties(question) == {}
    assert answer_in(question, {}) == Skip()


# Versions without titles


def test_an_old_client_gets_names_beside_the_values_and_switches_for_lists() -> None:
    question = posed(asked(COLOUR, SAILS))
    fields = properties(question, titled=False)
    assert fields["q1"]["enum"] == ["Red", "Blue"]
    assert fields["q1"]["enumNames"] == ["Red", "Blue"]
    assert list(fields) == ["q1", "q1_other", "q2_1", "q2_2", "q2_other"]
    assert fields["q2_1"]["type"] == "boolean"
    assert "Which sails?" in message_of(question, titled=False)
    assert properties(writing(), titled=False)["answer"]["enum"] == ["allow", "deny"]


# Forms and pages of a session's own servers


def test_a_form_is_passed_on_in_the_words_of_mcp() -> None:
    fields = properties(form())
    assert fields["day"] == {
        "type": "string",
        "enum": ["Monday", "Friday"],
        "description": "When",
    }
    assert fields["crew"] == {"type": "integer", "minimum": 1, "maximum": 6}
    assert fields["ports"]["items"] == {"type": "string", "enum": ["Oslo", "Bergen"]}
    assert fields["tide"] == {
        "type": "string",
        "oneOf": [{"const": "low", "title": "Low"}, {"const": "high", "title": "high"}],
    }
    assert schema_of(form())["required"] == ["day"]


def test_what_was_filled_in_is_passed_on_without_what_was_left_empty() -> None:
    answer = answer_in(form(), {"day": "Monday", "night": False, "name": None})
    assert answer == Fill(content={"day": "Monday", "night": False})


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array"},
        {"enum": [1, 2]},
        {"enum": []},
        {"oneOf": [{"type": "string"}]},
        {"$ref": "#/$defs/x"},
        "string",
    ],
)
def test_a_form_that_mcp_does_not_have_is_not_shown(field: Any) -> None:
    schema = {"type": "object", "properties": {"one": field}}
    assert form_of(posed(elicitation(mode="form", requested_schema=schema))) is None


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"properties": []}, {"properties": {}, "required": "day"}]
)
def test_a_schema_that_is_none_is_not_shown(schema: Any) -> None:
    assert form_of(posed(elicitation(mode="form", requested_schema=schema))) is None


def test_a_format_that_mcp_does_not_have_is_left_out() -> None:
    fields = {"a": {"type": "string", "format": "uri"}, "b": {"type": "string", "format": "uuid"}}
    question = posed(elicitation(mode="form", requested_schema={"properties": fields}))
    assert properties(question) == {
        "a": {"type": "string", "format": "uri"},
        "b": {"type": "string"},
    }


def test_a_page_is_opened_or_declined() -> None:
    made = form_of(page())
    assert made is not None
    assert made.url == "https://example.com/login"
    assert "https://example.com/login" in made.message
    assert answer_in(page(), {}) == Fill()
    assert answer_in(page(), {"answer": "open"}) == Fill()
    assert answer_in(page(), {"answer": "decline"}) == Decline()


def test_a_page_that_no_browser_may_open_is_only_shown() -> None:
    made = form_of(page("javascript:alert(1)"))
    assert made is not None
    assert made.url is None


# Every question there can be

WORDS = st.text(max_size=40) | st.sampled_from(["Red", "red", " ", "", "a\u202eb", "\x1b[0m"])
OPTIONS = st.lists(st.fixed_dictionaries({"label": WORDS, "description": WORDS}), max_size=4)
POSED = st.fixed_dictionaries(
    {"question": WORDS, "header": WORDS, "options": OPTIONS, "multiSelect": st.booleans()}
)
NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3)
TITLES = NAMES.map(lambda names: [{"const": each, "title": each} for each in names])
FIELDS = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "string"}, {"type": "integer"}, {}]),
    NAMES.map(lambda names: {"type": "string", "enum": names}),
    TITLES.map(lambda titles: {"oneOf": titles}),
    TITLES.map(lambda titles: {"type": "array", "items": {"anyOf": titles}}),
)
SCHEMAS = st.dictionaries(WORDS, FIELDS, max_size=3).map(
    lambda fields: {"type": "object", "properties": fields, "required": list(fields)}
)
REQUESTS = st.one_of(
    st.builds(
        lambda rules: bash(permission_suggestions=rules),
        st.lists(st.sampled_from([RULE, MODE]), max_size=2),
    ),
    st.builds(
        lambda name, value: tool_request(name, {"command": value}),
        st.sampled_from(["Bash", "Write", "Task", "mcp__a__b"]),
        WORDS,
    ),
    st.builds(lambda text: plan_request(plan=text), WORDS),
    st.lists(POSED, max_size=4).map(lambda questions: asked(*questions)),
    SCHEMAS.map(lambda schema: elicitation(mode="form", requested_schema=schema)),
    WORDS.map(lambda url: elicitation(mode="url", url=url)),
)
EXAMPLES = {"string": "text", "integer": 1, "number": 1.5, "boolean": True}


def fillings(question: Question, *, titled: bool) -> Iterator[dict[str, Any]]:
    """The form filled in so that each of its options is chosen once."""
    fields = properties(question, titled=titled)
    least = {
        name: _values(field)[0]
        for name, field in fields.items()
        if question.kind != "questions" or not name.endswith("_other")
    }
    for name, field in fields.items():
        for value in _values(field):
            yield (
                least | {"feedback": "Look.", name: value}
                if "feedback" in fields
                else (least | {name: value})
            )


def _values(field: dict[str, Any]) -> list[Any]:
    values = list(offered(field)) or field.get("enum") or [EXAMPLES.get(field["type"])]
    return [[each] for each in values] if field["type"] == "array" else values


@given(request=REQUESTS, titled=st.booleans(), bypass=st.booleans())
def test_each_option_of_each_form_is_an_answer_that_is_accepted(
    request: Any, titled: bool, bypass: bool
) -> None:
    question = posed(request, bypass_allowed=bypass)
    if question.kind == "elicitation" and form_of(question) is None:
        return
    for content in fillings(question, titled=titled):
        check(question, answer_in(question, content), bypass_allowed=bypass)


@given(request=REQUESTS, titled=st.booleans())
def test_each_form_is_one_that_the_specification_has(request: Any, titled: bool) -> None:
    made = form_of(posed(request), titled=titled)
    if made is None:
        return
    RequestedSchema.model_validate(made.schema)
    for field in made.schema["properties"].values():
        PRIMITIVE.validate_python(field)
        if kind := _kind_of_choice(field):
            kind.model_validate(field)


def _kind_of_choice(field: dict[str, Any]) -> Any:
    """What the specification has for it; a choice that is wrong would pass there as a text."""
    if field["type"] == "array":
        is_titled = "anyOf" in field["items"]
        return TitledMultiSelectEnumSchema if is_titled else UntitledMultiSelectEnumSchema
    if "oneOf" in field:
        return TitledSingleSelectEnumSchema
    return LegacyTitledEnumSchema if "enum" in field else None
