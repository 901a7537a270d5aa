"""A view takes its entries in any order, and can be put down and taken up between any two."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.answers import Allow, Deny
from pilothouse.api.records import (
    InterruptAsked,
    OptionsChanged,
    PromptWithdrawn,
    QuestionDecided,
    SessionLinked,
    TurnEnded,
)
from pilothouse.api.requests import SessionOptions
from pilothouse.engine.session_state import STATES
from tests.support.engine.entries import (
    ALIVE,
    CLOSED,
    DIED,
    INIT,
    STARTED,
    STOPPED,
    Entry,
    Folding,
    asks,
    calls,
    check_cuts,
    closes,
    echo,
    ends,
    entry,
    gives,
    line,
    said,
    sent,
    told,
)

PROMPTS, QUESTIONS, TOOLS = st.sampled_from("pq"), st.sampled_from("ab"), st.sampled_from("tu")
RESULTS: list[dict[str, Any]] = [
    {},
    {"is_error": True},
    {"subtype": "error_max_turns"},
    {"terminal_reason": "aborted_streaming"},
    {"origin": {"kind": "task-notification"}},
    {"permission_denials": [{"tool_use_id": "t"}]},
]
FIXED: list[Entry] = [
    STARTED,
    STOPPED,
    ALIVE,
    DIED,
    CLOSED,
    INIT,
    told("running"),
    told("requires_action"),
    told("idle"),
    entry(InterruptAsked()),
    entry(SessionLinked(successor="z")),
    entry(OptionsChanged(options=SessionOptions(mode="plan"))),
    entry(TurnEnded(outcome="finished", reason="completed", cost_usd=1.0)),
    line("conversation_reset", new_conversation_id="n"),
    line("system", subtype="api_retry", attempt=1, max_retries=9, error="overloaded"),
    line("rate_limit_event", rate_limit_info={"status": "allowed"}),
    line("system", subtype="task_started", task_id="k", description="scout"),
    line("system", subtype="task_notification", task_id="k", status="completed"),
    line("system", subtype="background_tasks_changed", tasks=[{"task_id": "k"}]),
    line("system", subtype="permission_denied", tool_use_id="t"),
    line("user", message={"content": "[Request interrupted by user]"}),
    ("partial", b"{}"),
    ("noise", b'"?"'),
]
ENTRIES = st.one_of(
    st.sampled_from(FIXED),
    st.builds(said, PROMPTS, st.sampled_from(["hi", "/compact"])),
    st.builds(sent, PROMPTS),
    st.builds(lambda each: entry(PromptWithdrawn(id=each)), PROMPTS),
    st.builds(echo, PROMPTS),
    st.builds(
        lambda each, state: line("command_lifecycle", command_uuid=each, state=state),
        PROMPTS,
        st.sampled_from(["queued", "started", "completed", "cancelled"]),
    ),
    st.builds(
        lambda uuids, fields: ends(*uuids, **fields), st.lists(PROMPTS), st.sampled_from(RESULTS)
    ),
    st.builds(calls, TOOLS, parent=st.sampled_from([None, "x"])),
    st.builds(gives, TOOLS, is_error=st.booleans()),
    st.builds(asks, QUESTIONS, tool_use_id=TOOLS),
    st.builds(
        closes,
        QUESTIONS,
        st.sampled_from([None, Allow(), Deny()]),
        decidable=st.booleans(),
    ),
    st.builds(lambda each: entry(QuestionDecided(id=each, answer=Allow())), QUESTIONS),
)


@given(st.lists(ENTRIES, max_size=40))
@settings(max_examples=150, deadline=None)
def test_going_on_from_a_snapshot_is_the_same_as_having_seen_it_all(entries: list[Entry]) -> None:
    check_cuts(entries)


@given(st.lists(ENTRIES, max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_order_of_entries_leaves_the_table_or_forgets_what_goes_on(
    entries: list[Entry],
) -> None:
    folding = Folding()
    for each in entries:
        view = folding.feed(each)
        assert view.state in STATES
        assert (view.state == "awaiting_input") == bool(view.open_questions)
        assert not (view.state == "active" and not view.busy)
        # A session that is being stopped is no longer active although its CLI still works.
        at_work = {"active", "awaiting_input", "interrupted"}
        assert not view.busy or view.state in at_work
        assert (view.reason is None) or view.state in ("error", "interrupted")
        assert view.status().state == view.state
