"""Questions of every kind: how they are posed, which ways they offer, how they close."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.answers import (
    Allow,
    Answer,
    Choose,
    Decline,
    Deny,
    Dismiss,
    RejectPlan,
)
from pilothouse.api.questions import Question
from pilothouse.api.records import (
    QuestionClosed,
    QuestionDecided,
    QuestionOpened,
    decode_record,
    encode_record,
)
from pilothouse.client.elicitation import ElicitationRequest
from pilothouse.client.permissions import PermissionRequest
from pilothouse.engine.questions import (
    check,
    closed,
    decided,
    elicited,
    pose,
    same,
    settled,
    statement,
)
from pilothouse.protocol.wire import encode_json
from tests.support.asks import (
    COLOUR,
    CWD,
    EVERY,
    FILLED,
    MODE,
    ONE_OF_EACH,
    PLAN,
    RULE,
    SAILS,
    SCHEMA,
    SESSION,
    asked,
    bash,
    elicitation,
    form,
    page,
    plan_request,
    posed,
    tool_request,
)

# Posing


def test_a_question_is_known_by_its_session_and_request() -> None:
    question = posed(bash())
    assert question.id == str(uuid5(UUID(SESSION), "request-1"))
    assert posed(bash()) == question


def test_a_session_with_an_id_that_is_no_uuid_has_questions_too() -> None:
    ids = {
        pose(
            bash(),
            session_id=session_id,
            cwd=CWD,
            label=None,
            mode=None,
            now=0,
            expires_at=None,
            bypass_allowed=False,
        ).id
        for session_id in ("one", "two")
    }
    assert len({str(UUID(each)) for each in ids}) == 2


def test_a_tool_is_posed_with_what_a_person_needs_to_decide() -> None:
    request = bash(decision_reason="Needs\x1b approval", agent_id="a1")
    question = posed(request, expires_at=301_000)
    assert (question.kind, question.state) == ("tool", "open")
    assert (question.title, question.text) == ("Run `make test`", "make test")
    assert (question.tool_name, question.tool_use_id, question.agent_id) == (
        "Bash",
        "toolu_1",
        "a1",
    )
    assert question.input == {"command": "make test"}
    assert question.reason == "Needs\\x1b approval"
    assert (question.opened_at, question.expires_at) == (1_000, 301_000)
    assert (question.cwd, question.label, question.mode) == (CWD, "nightly", "default")
    assert question.decidable


def test_a_plan_is_captured_as_it_was_when_it_was_asked() -> None:
    prompts = [{"tool": "Bash", "prompt": "run\ntests"}, {"tool": "Write", "prompt": "all"}]
    question = posed(
        plan_request(plan=PLAN, planFilePath="/home/u/plans/p.md", allowedPrompts=prompts)
    )
    assert (question.kind, question.format) == ("plan", "markdown")
    assert question.title == "Approve the plan: Leap"
    assert (question.plan, question.plan_file) == (PLAN, "/home/u/plans/p.md")
    assert question.allowed_prompts == [{"tool": "Bash", "prompt": "run\\ntests"}]
    assert question.text.startswith(PLAN.rstrip())
    assert question.text.endswith("for:\n\n- Bash: run\\ntests")


def test_a_plan_of_another_systems_lines_is_readable_and_kept_as_it_is() -> None:
    question = posed(plan_request(plan="# A\r\n\r\nb\x1b"))
    assert question.text == "# A\n\nb\\x1b"
    assert question.plan == "# A\r\n\r\nb\x1b"


@pytest.mark.parametrize("given", [{}, {"plan": " "}, {"plan": 1}])
def test_a_plan_request_without_a_plan_is_a_plain_yes_or_no(given: dict[str, Any]) -> None:
    question = posed(plan_request(**given))
    assert question.title == "Leave plan mode without a plan"
    assert question.plan is None
    assert [way.id for way in question.ways] == ["allow", "deny"]


def test_the_models_questions_are_posed_with_their_options() -> None:
    question = posed(asked(COLOUR, SAILS))
    assert question.kind == "questions"
    assert question.title == "Which colour? (and 1 more)"
    assert [each.multi_select for each in question.posed] == [False, True]
    assert [each.label for each in question.posed[0].options] == ["Red", "Blue"]
    assert question.posed[0].header == "Colour"
    assert question.text == (
        "Which colour?\n- Red: Loud\n- Blue\n\nWhich sails? (several may be chosen)\n- Main\n- Jib"
    )
    assert [way.id for way in question.ways] == ["choose", "skip", "deny_and_stop"]


def test_a_form_is_posed_with_its_fields() -> None:
    question = form()
    assert (question.kind, question.server_name) == ("elicitation", "harbour")
    assert question.title == "harbour asks: When?"
    assert question.schema == SCHEMA
    assert "- day (string, required): When [Monday, Friday]\n- crew (integer)" in question.text
    assert "- ports (array) [Oslo, Bergen]\n- tide (value) [low, high]" in question.text
    assert [(way.id, way.needs) for way in question.ways] == [
        ("fill", ["content"]),
        ("decline", []),
        ("dismiss", []),
    ]


def test_a_page_is_posed_with_its_address() -> None:
    question = page()
    assert (question.format, question.url) == ("url", "https://example.com/login")
    assert question.text == "https://example.com/login\n\nWhen?"
    assert question.schema is None
    assert question.ways[0].id == "open"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://example.com/\u202egpj",
        "https://[broken",
        "https:nohost",
        "",
    ],
)
def test_an_address_a_browser_must_not_be_sent_to_is_shown_and_is_no_link(url: str) -> None:
    assert page(url).url is None
    assert page(url).format == "url"


def test_a_page_to_be_fetched_is_a_link() -> None:
    request = tool_request("WebFetch", {"url": "https://example.com", "prompt": "Sum up"})
    assert posed(request).url == "https://example.com"
    assert posed(tool_request("WebFetch", {"url": 3})).url is None


@pytest.mark.parametrize("name", EVERY)
def test_every_question_goes_through_the_journal_unchanged(name: str) -> None:
    question = posed(EVERY[name], bypass_allowed=True)
    kind, body = encode_record(QuestionOpened(question=question))
    assert kind == "question.opened"
    assert decode_record(body) == QuestionOpened(question=question)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda i: st.lists(i), max_leaves=6))
def test_odd_input_from_a_model_is_posed_all_the_same(value: Any) -> None:
    for name in ("AskUserQuestion", "ExitPlanMode", "Bash", "Edit"):
        members = ("questions", "plan", "allowedPrompts", "command", "edits")
        question = posed(tool_request(name, dict.fromkeys(members, value)))
        assert msgspec.json.decode(encode_json(question), type=Question) == question
    assert posed(elicitation(requested_schema={"properties": value, "required": value}))


# Ways


@pytest.mark.parametrize("name", EVERY)
def test_every_way_that_is_offered_is_an_answer_that_is_taken(name: str) -> None:
    request = EVERY[name]
    question = posed(request, bypass_allowed=True)
    for way in question.ways:
        filled = way.answer | {each: FILLED[each] for each in way.needs}
        answer = msgspec.json.decode(encode_json(filled), type=Answer)
        check(question, answer, bypass_allowed=True)
        assert statement(question, answer)
        if isinstance(request, ElicitationRequest):
            assert elicited(answer)
        else:
            assert settled(request, answer).result


def labels(request: PermissionRequest, *, bypass_allowed: bool = False) -> dict[str, str]:
    ways = posed(request, bypass_allowed=bypass_allowed).ways
    return {way.id: way.label for way in ways if way.id.startswith("always")}


def test_always_says_which_rule_goes_where() -> None:
    assert labels(bash(permission_suggestions=[RULE, MODE])) == {
        "always_session": "Always allow in this session: Bash(make test:*)",
        "always_localSettings": "Always allow, in this project's local settings: Bash(make test:*)",
        "always_projectSettings": "Always allow, in this project's settings: Bash(make test:*)",
        "always_userSettings": "Always allow, in your own settings: Bash(make test:*)",
    }


def test_without_a_suggestion_the_rule_is_the_very_command() -> None:
    assert labels(bash())["always_session"] == "Always allow in this session: Bash(make test)"
    mcp = tool_request("mcp__harbour__call", {"port": "Oslo"})
    assert labels(mcp)["always_userSettings"].endswith(": mcp__harbour__call")


def test_where_only_the_mode_would_change_no_file_is_offered() -> None:
    write = tool_request("Write", {"file_path": "a"}, permission_suggestions=[MODE])
    assert labels(write) == {
        "always_session": ("Always allow in this session: by changing to the mode acceptEdits")
    }


def test_a_question_tells_what_made_the_cli_ask() -> None:
    rule = {"source": "localSettings", "tool_name": "Bash", "rule_content": "make:*"}
    fields = {
        "decision_reason_type": "rule",
        "blocked_path": "/srv\u202e",
        "matched_ask_rule": rule,
    }
    question = posed(bash(**fields))
    assert (question.reason_type, question.matched_rule) == ("rule", "Bash(make:*)")
    assert question.blocked_path == "/srv\\u202e"


def test_always_names_the_directory_that_it_opens() -> None:
    folder = {"type": "addDirectories", "directories": ["/srv/dock"], "destination": "session"}
    path = {"file_path": "/srv/dock/a"}
    write = tool_request("Write", path, permission_suggestions=[MODE, folder])
    assert labels(write) == {
        "always_session": (
            "Always allow in this session: by changing to the mode acceptEdits"
            " and by working in /srv/dock"
        )
    }


def test_always_is_not_offered_where_the_cli_keeps_no_rule() -> None:
    assert labels(bash(permission_suggestions=[RULE], suppress_always_allow_rule=True)) == {}
    assert labels(tool_request("Bash", {"command": "rm *"})) == {}
    assert labels(tool_request("Write", {"file_path": "a"})) == {}


def test_a_suggested_bypass_is_offered_only_where_it_is_allowed() -> None:
    mode = MODE | {"mode": "bypassPermissions"}
    write = tool_request("Write", {"file_path": "a"}, permission_suggestions=[mode])
    assert labels(write) == {}
    assert list(labels(write, bypass_allowed=True)) == ["always_session"]


def test_a_rule_cannot_hide_what_it_allows() -> None:
    rule = RULE | {"rules": [{"toolName": "Bash", "ruleContent": "ls\u202e\nrm:*"}]}
    label = labels(bash(permission_suggestions=[rule]))["always_session"]
    assert label.endswith("Bash(ls\\u202e\\nrm:*)")


# Afterwards


def test_a_closed_question_tells_who_answered_what_and_when() -> None:
    record = QuestionClosed(
        id="q", state="answered", answer=Allow(), by="policy", rule="tests", because="a rule"
    )
    question = closed(posed(bash()), record, 2_000)
    assert (question.state, question.answer, question.answered_by) == (
        "answered",
        Allow(),
        "policy",
    )
    assert (question.rule, question.closed_because, question.closed_at) == (
        "tests",
        "a rule",
        2_000,
    )
    assert not question.decidable


def test_the_rule_that_said_to_ask_stays() -> None:
    question = msgspec.structs.replace(posed(bash()), rule="ask about make")
    after = closed(question, QuestionClosed(id="q", state="answered", answer=Allow()), 2_000)
    assert after.rule == "ask about make"


def test_a_question_whose_cli_died_takes_one_decision() -> None:
    dead = QuestionClosed(id="q", state="withdrawn", because="The CLI ended.", decidable=True)
    withdrawn = closed(posed(bash()), dead, 2_000)
    assert (withdrawn.state, withdrawn.decidable, withdrawn.answer) == ("withdrawn", True, None)
    after = decided(withdrawn, QuestionDecided(id="q", answer=Deny(), by="me"), 3_000)
    assert (after.state, after.decidable, after.answer) == ("answered", False, Deny())
    assert (after.answered_by, after.closed_at) == ("me", 3_000)
    assert after.closed_because == "The CLI ended."


def test_the_same_answer_is_the_same_in_any_order_of_its_members() -> None:
    one = Allow(input={"a": [1, {"b": 2, "c": 3}], "d": "x"})
    other = Allow(input={"d": "x", "a": [1, {"c": 3, "b": 2}]})
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Allow(), Deny()),
        (Deny(), RejectPlan()),
        (Decline(), Dismiss()),
        (Allow(), Allow(always=True)),
        (Allow(input={"a": 1}), Allow(input={"a": True})),
        (Deny(reason="a"), Deny(reason="b")),
        (Choose(answers={"q": ["a", "b"]}), Choose(answers={"q": ["b", "a"]})),
    ],
)
def test_another_answer_is_not_the_same(one: Answer, other: Answer) -> None:
    assert not same(one, other)


@pytest.mark.parametrize("answer", ONE_OF_EACH)
def test_an_answer_is_the_same_after_it_went_over_the_wire(answer: Answer) -> None:
    assert same(answer, msgspec.json.decode(encode_json(answer), type=Answer))
