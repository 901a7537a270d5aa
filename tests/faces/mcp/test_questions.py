"""What a caller sees of a question, and what its answers become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pilothouse.api.answers import (
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
    OwnRule,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.api.questions import Question
from pilothouse.engine.questions import check
from pilothouse.errors import AnswerRefused
from pilothouse.faces.mcp.questions import answer_of, pending, valid_answers
from tests.support.asks import (
    COLOUR,
    EVERY,
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

TOOL = posed(EVERY["tool"])
PLAN = posed(EVERY["plan"])
NO_PLAN = posed(EVERY["no plan"])
QUESTIONS = posed(EVERY["questions"])


# What is asked


def test_a_limit_of_time_is_told() -> None:
    assert "expiresAt" not in pending(replace(TOOL, expires_at=None))
    told = pending(replace(TOOL, expires_at=1_794_800_000_000))
    assert told["expiresAt"] == "2026-11-16T03:33:20+00:00"


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("tool", "tool_approval", [["allow", "deny", "always"]]),
        (
            "plan",
            "plan_approval",
            [
                [
                    "approve",
                    "reject",
                    "approve_accept_edits",
                    "approve_and_compact",
                    "revise",
                    "clear_context",
                ]
            ],
        ),
        ("no plan", "plan_approval", [["approve", "reject"]]),
        ("questions", "question", [["Red", "Blue"], ["Main", "Jib"]]),
        ("page", "elicitation", [["open", "decline", "cancel"]]),
    ],
)
def test_a_question_has_its_type_and_the_answers_that_fit(
    name: str, kind: str, options: list[list[str]]
) -> None:
    told = pending(posed(EVERY[name]))
    assert told["type"] == kind
    assert [each["options"] for each in told["questions"]] == options
    for each in told["questions"]:
        assert len(each["descriptions"]) == len(each["options"])


def test_always_is_offered_only_where_there_is_something_to_remember() -> None:
    other = posed(bash(permission_suggestions=[]))
    without = replace(other, ways=[way for way in other.ways if "always" not in way.answer])
    assert pending(without)["questions"][0]["options"] == ["allow", "deny"]
    with pytest.raises(AnswerRefused):
        answer_of(without, ["always"])


def test_what_a_question_does_not_offer_is_not_shown() -> None:
    ways = [way for way in PLAN.ways if way.answer["kind"] != "clear_context"]
    fewer = replace(PLAN, ways=ways)
    assert "clear_context" not in pending(fewer)["questions"][0]["options"]
    with pytest.raises(AnswerRefused):
        answer_of(fewer, ["clear_context"])


def test_the_rule_that_always_makes_is_told() -> None:
    [one] = pending(TOOL)["questions"]
    assert "make test:*" in one["descriptions"][2]


def test_a_long_text_is_cut_with_where_the_rest_is() -> None:
    long = posed(tool_request("Write", {"file_path": "/a", "content": "sail " * 5_000}))
    told = pending(long)
    assert len(told["questions"][0]["question"]) < 5_000
    assert f"pilothouse://sessions/{long.session_id}" in told["questions"][0]["question"]
    assert "input" not in told


def test_a_plan_of_one_line_is_shown() -> None:
    plan = "Fix the typo in the README."
    question = posed(plan_request(plan=plan))
    assert plan in question.title
    assert plan in pending(question)["questions"][0]["question"]


def test_who_clears_the_context_is_told_that_edits_are_accepted() -> None:
    [one] = pending(PLAN)["questions"]
    assert "accepts every edit" in one["descriptions"][one["options"].index("clear_context")]


def test_questions_with_the_same_text_are_asked_once() -> None:
    other = {**COLOUR, "options": [{"label": "Grey"}, {"label": "Teal"}]}
    question = posed(asked(COLOUR, SAILS, other))
    told = pending(question)["questions"]
    assert [each["options"] for each in told] == [["Grey", "Teal"], ["Main", "Jib"]]
    answer = answer_of(question, ["teal", "Jib"])
    assert answer == Choose(answers={"Which colour?": "Teal", "Which sails?": ["Jib"]})
    check(question, answer, bypass_allowed=False)
    with pytest.raises(AnswerRefused, match="2 answers are wanted, not 3") as refused:
        answer_of(question, ["Red", "Jib", "Teal"])
    assert "for each of 2" in str(refused.value)


@pytest.mark.parametrize("schema", [{}, {"type": "object", "properties": {}}])
def test_a_form_without_fields_is_accepted_or_not(schema: dict[str, Any]) -> None:
    question = posed(elicitation(mode="form", requested_schema=schema))
    [one] = pending(question)["questions"]
    assert one["options"] == ["accept", "decline", "cancel"]
    answer = answer_of(question, ["Accept"])
    assert answer == Fill(content={})
    check(question, answer, bypass_allowed=False)
    with pytest.raises(AnswerRefused, match='one of "accept", "decline", "cancel"'):
        answer_of(question, ["yes"])


def test_a_form_asks_for_each_of_its_fields() -> None:
    told = pending(form())["questions"]
    assert [each["header"] for each in told] == [
        "day",
        "crew",
        "draft",
        "night",
        "name",
        "ports",
        "tide",
    ]
    assert told[0]["options"] == ["Monday", "Friday"]
    assert told[3]["options"] == ["true", "false"]
    assert told[5]["multiSelect"]
    assert (told[6]["options"], told[6]["descriptions"]) == (["low", "high"], ["Low", ""])
    assert "optional" in told[1]["question"]


# Answers


@pytest.mark.parametrize(
    ("question", "said", "answer"),
    [
        (TOOL, "allow", Allow()),
        (TOOL, " Allow ", Allow()),
        (TOOL, "always", Allow(always=True)),
        (TOOL, "deny", Deny()),
        (TOOL, "Deny: not: today", Deny(reason="not: today")),
        (PLAN, "approve", ApprovePlan()),
        (PLAN, "approve_accept_edits", ApprovePlan(mode="acceptEdits")),
        (PLAN, "reject", RejectPlan()),
        (PLAN, "reject: too long", RejectPlan(reason="too long")),
        (PLAN, "revise: look first", RevisePlan(feedback="look first")),
        (PLAN, "clear_context", ClearContext()),
        (NO_PLAN, "approve", Allow()),
        (NO_PLAN, "reject: stay", Deny(reason="stay")),
        (page(), "open", Fill()),
        (page(), "decline", Decline()),
        (page(), "cancel", Dismiss()),
        (form(), "decline", Decline()),
        (form(), "cancel", Dismiss()),
        (QUESTIONS, "skip", Skip()),
    ],
)
def test_a_word_is_an_answer(question: Question, said: str, answer: Answer) -> None:
    assert answer_of(question, [said]) == answer
    check(question, answer, bypass_allowed=False)


def test_the_models_questions_take_labels_and_other_words() -> None:
    answers = answer_of(QUESTIONS, ["blue", "jib, Main, a spinnaker"])
    assert answers == Choose(
        answers={"Which colour?": "Blue", "Which sails?": ["Jib", "Main", "a spinnaker"]}
    )
    for words in ("mauve", "2"):
        chosen = Choose(answers={"Which colour?": words})
        assert answer_of(posed(asked(COLOUR)), [words]) == chosen


def test_labels_of_the_only_question_may_come_one_by_one() -> None:
    assert answer_of(posed(asked(SAILS)), ["Main", "Jib"]) == Choose(
        answers={"Which sails?": ["Main", "Jib"]}
    )


def test_a_label_called_skip_is_a_label() -> None:
    question = posed(asked({**COLOUR, "options": [{"label": "Skip"}, {"label": "Go"}]}))
    assert answer_of(question, ["skip"]) == Choose(answers={"Which colour?": "Skip"})


def test_a_form_is_filled_in_field_by_field() -> None:
    said = ["friday", "3", "1.5", "no", "Anna", "Oslo", "Low"]
    answer = answer_of(form(), said)
    assert answer == Fill(
        content={
            "day": "Friday",
            "crew": 3,
            "draft": 1.5,
            "night": False,
            "name": "Anna",
            "ports": ["Oslo"],
            "tide": "low",
        }
    )
    check(form(), answer, bypass_allowed=False)
    assert answer_of(form(), ["Monday", "", "", "", "", "", ""]) == Fill(content={"day": "Monday"})


def test_a_value_that_is_called_decline_is_a_value() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["accept", "decline"]}}}
    question = posed(elicitation(mode="form", requested_schema=schema))
    assert answer_of(question, ["decline"]) == Fill(content={"a": "decline"})


def test_an_edited_input_goes_with_allow() -> None:
    edited = {"command": "make lint"}
    assert answer_of(TOOL, ["allow"], edited) == Allow(input=edited)
    for question, said in (
        (TOOL, "deny"),
        (TOOL, "always"),
        (PLAN, "approve"),
        (NO_PLAN, "approve"),
    ):
        with pytest.raises(AnswerRefused, match="updatedInput"):
            answer_of(question, [said], edited)


def test_a_tool_is_denied_and_the_turn_stopped() -> None:
    said = answer_of(TOOL, ["deny_and_stop: Not now."])
    assert said == Deny(reason="Not now.", stop=True)


def test_always_is_written_where_the_caller_says() -> None:
    assert answer_of(TOOL, ["always: usersettings"]) == Allow(always="userSettings")
    with pytest.raises(AnswerRefused, match="no place"):
        answer_of(TOOL, ["always: /etc"])


def test_a_plan_is_approved_as_edited_or_compacted_afterwards() -> None:
    assert answer_of(PLAN, ["approve"], plan="1. Look") == ApprovePlan(plan="1. Look")
    assert answer_of(PLAN, ["approve_and_compact"]) == ApprovePlan(mode="acceptEdits", compact=True)
    with pytest.raises(AnswerRefused, match="approval of a plan"):
        answer_of(PLAN, ["reject"], plan="1. Look")


def test_notes_go_with_answers_to_the_models_questions() -> None:
    question = posed(asked(COLOUR))
    notes = {"Which colour?": "not too loud"}
    said = answer_of(question, ["Red"], notes=notes)
    assert said == Choose(answers={"Which colour?": "Red"}, notes=notes)
    with pytest.raises(AnswerRefused, match="notes"):
        answer_of(TOOL, ["allow"], notes=notes)


def test_rules_of_the_callers_own_go_with_allow() -> None:
    rule = AddOwnRules(rules=[OwnRule(tool_name="Bash", rule_content="git:*")])
    assert answer_of(TOOL, ["allow"], None, [rule]) == Allow(updates=[rule])
    for question, said in ((TOOL, "deny"), (PLAN, "approve")):
        with pytest.raises(AnswerRefused, match="updatedPermissions"):
            answer_of(question, [said], None, [rule])


@pytest.mark.parametrize(
    ("question", "said", "told"),
    [
        (TOOL, ["yes"], '"allow", "deny", "deny: reason", "always"'),
        (TOOL, ["allow: it"], '"allow"'),
        (TOOL, [], '"allow"'),
        (TOOL, ["allow", "deny"], "one answer is wanted, not 2"),
        (PLAN, ["allow"], '"revise: what to change"'),
        (NO_PLAN, ["revise: it"], '"approve", "reject"'),
        (QUESTIONS, ["Red"], "2 answers are wanted, not 1"),
        (QUESTIONS, ["Red", " "], "the answer to 'Which sails?' is empty"),
        (QUESTIONS, ["", "Jib"], '"Red", "Blue"'),
        (form(), ["Monday"], "7 answers are wanted, not 1"),
        (form(), ["Sunday", "", "", "", "", "", ""], "takes one of Monday, Friday"),
        (form(), ["Monday", "many", "", "", "", "", ""], "crew takes a value of type integer"),
        (form(), ["Monday", "", "nan", "", "", "", ""], "draft takes a value of type number"),
        (page(), ["allow"], '"open", "decline", "cancel"'),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_those_that_do(
    question: Question, said: list[str], told: str
) -> None:
    with pytest.raises(AnswerRefused) as caught:
        answer_of(question, said)
    assert told in str(caught.value)
    assert valid_answers(question) in str(caught.value)


# Every option of every question is an answer to it

words = st.text(max_size=12)
options = st.fixed_dictionaries({"label": words, "description": words})
questions = st.fixed_dictionaries(
    {
        "question": words,
        "header": words,
        "options": st.lists(options, max_size=4),
        "multiSelect": st.booleans(),
    }
)
fields = st.one_of(
    st.fixed_dictionaries({"type": st.just("boolean")}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(words, min_size=1)}),
    st.fixed_dictionaries(
        {"type": st.just("integer"), "enum": st.lists(st.integers(), min_size=1)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("array"),
            "items": st.fixed_dictionaries({"enum": st.lists(words, min_size=1)}),
        }
    ),
    st.fixed_dictionaries(
        {"oneOf": st.lists(st.fixed_dictionaries({"const": words, "title": words}), min_size=1)}
    ),
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(words, fields, max_size=3)}
)
requests = st.one_of(
    st.builds(lambda command: tool_request("Bash", {"command": command}), words),
    st.builds(lambda command: bash(permission_suggestions=[RULE], description=command), words),
    st.builds(lambda plan: plan_request(plan=plan), words),
    st.just(plan_request()),
    st.builds(lambda each: asked(*each), st.lists(questions, max_size=3)),
    st.builds(lambda each: elicitation(mode="form", requested_schema=each), schemas),
    st.just(elicitation(mode="url", url="https://example.com")),
)


def said(told: dict[str, Any], number: int, option: str) -> list[str]:
    """This option to one question, and some answer to each of the others."""
    others = [each["options"][0] if each["options"] else "words" for each in told["questions"]]
    return [*others[:number], option, *others[number + 1 :]]


@given(requests)
def test_every_option_there_is_is_taken(request: Any) -> None:
    question = posed(request)
    told = pending(question)
    assert told["questions"]
    for number, each in enumerate(told["questions"]):
        for option in each["options"]:
            answer = answer_of(question, said(told, number, option))
            check(question, answer, bypass_allowed=False)
