"""What a client brings back with its answers is its own word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.errors import UsageError
from pilothouse.faces.mcp.operating import Act
from pilothouse.faces.mcp.rounds import ROUNDS, Round

ACT = Act(tool="claude_status", session_id="s-1", cursor=3, wait_s=10, after=3)


def test_a_round_comes_back_as_it_went() -> None:
    this = Round(act=ACT, noted=["q-1"]).asked()
    assert Round.opened(this.sealed(), "claude_status") == this
    assert this.number == 1


def test_what_was_answered_is_not_waited_for_again() -> None:
    this = Round(act=ACT, noted=["q-2"]).answered({"q-1"})
    assert (this.act.after, this.act.cursor) == (None, 3)
    assert this.noted == ["q-1", "q-2"]


def test_a_client_is_asked_while_its_call_waits_and_not_without_end() -> None:
    assert Round(act=ACT).may_ask
    assert not Round(act=Act(tool="claude_start", session_id="s-1")).may_ask
    assert not Round(act=ACT, number=ROUNDS).may_ask


def forged(**members: Any) -> str:
    told = json.loads(Round(act=ACT).sealed())
    told["act"] |= members
    return json.dumps(told)


@pytest.mark.parametrize(
    "state",
    [
        "",
        "null",
        "{}",
        "nonsense",
        "\ud800",
        " " * 200_000,
        json.dumps({"act": {"tool": "claude_status", "session_id": "s-1"}, "number": 99}),
        json.dumps({"act": {"tool": "claude_status", "session_id": "s-1"}, "more": 1}),
        forged(tool="claude_start"),
        forged(wait_s=10_000),
        forged(output_lines=10_000_000),
        forged(session_id=7),
    ],
)
def test_what_is_none_of_ours_is_refused(state: str) -> None:
    with pytest.raises(UsageError, match="requestState"):
        Round.opened(state, "claude_status")


def test_it_can_say_nothing_that_a_call_would_not_tell() -> None:
    state = forged(told={"status": "done", "resumed": True})
    assert Round.opened(state, "claude_status").act.told == {"resumed": True}


@given(st.text())
def test_any_other_text_is_refused(state: str) -> None:
    with pytest.raises(UsageError):
        Round.opened(state, "claude_status")
