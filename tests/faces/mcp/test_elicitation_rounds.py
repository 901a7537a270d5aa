"""What a client brings back with its answers is what it was given here, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.errors import UsageError
from pilothouse.faces.mcp import elicitation
from pilothouse.faces.mcp.elicitation import ROUNDS, Round
from pilothouse.faces.mcp.tool_handlers import Act

ACT = Act(tool="claude_status", session_id="s-1", cursor=3, wait_s=10, after=3)


def test_a_round_comes_back_as_it_went() -> None:
    this = Round(act=ACT, noted=["q-1"], closed=["q-1"]).asking({"q-2": 1})
    assert Round.opened(this.sealed(), "claude_status") == this
    assert (this.number, this.asked) == (1, ["q-2"])


def test_what_was_answered_is_not_waited_for_again() -> None:
    this = Round(act=ACT, asked=["q-1"], noted=["q-2"]).answered({"q-1"}, {"q-1"})
    assert (this.act.after, this.act.cursor) == (None, 3)
    assert (this.asked, this.noted, this.closed) == ([], ["q-1", "q-2"], ["q-1"])


def test_a_client_is_asked_while_its_call_waits_and_not_without_end() -> None:
    assert Round(act=ACT).may_ask
    assert not Round(act=Act(tool="claude_start", session_id="s-1")).may_ask
    assert not Round(act=ACT, number=ROUNDS).may_ask


SEALED = Round(act=ACT).sealed()


@pytest.mark.parametrize(
    "state",
    [
        "",
        "null",
        "{}",
        "nonsense",
        "\ud800",
        " \ud800",
        " " * 200_000,
        SEALED.split(" ", 1)[1],
        SEALED.replace("s-1", "s-2"),
        "0" + SEALED[1:] if SEALED[0] != "0" else "1" + SEALED[1:],
        SEALED + " ",
    ],
)
def test_what_was_not_sealed_here_is_refused(state: str) -> None:
    with pytest.raises(UsageError, match="requestState is none of this server's"):
        Round.opened(state, "claude_status")


def test_another_process_has_sealed_it_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elicitation, "KEY", b"another")
    with pytest.raises(UsageError, match="claude_status tells"):
        Round.opened(SEALED, "claude_status")


def test_one_tools_is_no_other_tools() -> None:
    with pytest.raises(UsageError, match="of another tool"):
        Round.opened(SEALED, "claude_start")


@given(st.text())
def test_any_other_text_is_refused(state: str) -> None:
    with pytest.raises(UsageError):
        Round.opened(state, "claude_status")
