"""The table of states: total, and true to its rules."""

from __future__ import annotations

from itertools import product

import pytest

from pilothouse.api.values import State
from pilothouse.engine.session_state import INITIAL, SIGNALS, STATES, TABLE, Signal, draw, step

RESTING: tuple[State, ...] = ("done", "error", "interrupted")


def after(*signals: Signal, state: State = INITIAL) -> State:
    for signal in signals:
        state = step(state, signal)
    return state


def test_every_pair_of_state_and_signal_leads_to_a_state() -> None:
    assert set(TABLE) == set(product(STATES, SIGNALS))
    assert set(TABLE.values()) == set(STATES)


def test_every_state_can_be_reached_from_the_first_and_left_again() -> None:
    reached = set[State]([INITIAL])
    for _ in STATES:
        reached |= {step(state, signal) for state in reached for signal in SIGNALS}
    assert reached == set(STATES)
    assert all(any(step(state, signal) != state for signal in SIGNALS) for state in STATES)


@pytest.mark.parametrize("state", RESTING)
@pytest.mark.parametrize("signal", ["said", "began"])
def test_a_message_or_a_turn_leads_from_rest_to_active(state: State, signal: Signal) -> None:
    assert step(state, signal) == "active"


@pytest.mark.parametrize("state", STATES)
def test_a_question_is_awaited_in_whatever_state_it_opens(state: State) -> None:
    assert step(state, "asked") == "awaiting_input"


def test_nothing_but_the_end_of_the_last_question_ends_the_wait() -> None:
    leaving = {signal for signal in SIGNALS if step("awaiting_input", signal) != "awaiting_input"}
    assert leaving == {"resolved"}


@pytest.mark.parametrize("state", RESTING)
@pytest.mark.parametrize("signal", ["died", "left", "stopped", "resolved"])
def test_the_end_of_an_idle_cli_changes_nothing(state: State, signal: Signal) -> None:
    assert step(state, signal) == state


def test_work_ends_as_its_last_turn_or_its_cli_did() -> None:
    assert after("said", "began", "finished") == "done"
    assert after("said", "failed") == "error"
    assert after("said", "interrupted") == "interrupted"
    assert after("said", "died") == "error"
    assert after("said", "left") == "interrupted"
    assert after("said", "stopped") == "interrupted"
    assert after("said", "asked", "died", "resolved", "died") == "error"


def test_an_unknown_signal_is_no_transition() -> None:
    with pytest.raises(KeyError):
        step("done", "nonsense")  # type: ignore[arg-type]


def test_the_diagram_draws_each_change_of_state_once() -> None:
    lines = draw().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> done"]
    drawn = {tuple(line.strip().split(": ")[0].split(" --> ")) for line in lines[2:]}
    assert drawn == {(state, new) for (state, _), new in TABLE.items() if new != state}
    assert len(lines) - 2 == len(drawn)
    assert "    active --> error: failed, died" in lines
