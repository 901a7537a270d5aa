"""The states of a session as a person sees them, and what leads from one to the next.

    active           a turn runs, or a message waits for one; also a turn the CLI began by itself
    awaiting_input   a question is open
    done             nothing runs, whether or not a CLI is alive, also beside background work
    error            the last turn failed, or its CLI ended in mid-work
    interrupted      the last turn was stopped

The rules:
- As long as a question is open nothing but its end leads out of `awaiting_input`; what happens
  meanwhile is told again afterwards (`finished`, `died`, ...) by whoever follows the session.
- A message leads from each of the three states of rest back to `active`.
- How a CLI ends matters only while it works: an idle one that goes, or is stopped, changes nothing.

Pure: a table, and nothing that happens by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from pilothouse.api.values import State

__all__ = ["INITIAL", "SIGNALS", "STATES", "TABLE", "Signal", "draw", "step"]

Signal = Literal[
    "said",  # a message was accepted
    "began",  # a turn runs
    "asked",  # a question opened
    "resolved",  # the last open question closed
    "finished",  # nothing runs any more: the last turn came to its end
    "failed",  # nothing runs any more: the last turn failed
    "interrupted",  # nothing runs any more: the last turn was stopped
    "died",  # the CLI ended in mid-work, by no will of ours
    "left",  # the CLI was ended in order, in mid-work
    "stopped",  # a caller ends the session's CLI
]

STATES: Final[tuple[State, ...]] = get_args(State)
SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)
INITIAL: Final[State] = "done"

_AT_WORK: dict[Signal, State] = {
    "said": "active",
    "began": "active",
    "asked": "awaiting_input",
    "resolved": "active",
    "finished": "done",
    "failed": "error",
    "interrupted": "interrupted",
    "died": "error",
    "left": "interrupted",
    "stopped": "interrupted",
}

_ASKING: dict[Signal, State] = {
    signal: "active" if signal == "resolved" else "awaiting_input" for signal in SIGNALS
}

_ONLY_AT_WORK: frozenset[Signal] = frozenset({"resolved", "died", "left", "stopped"})


def _at_rest(state: State) -> dict[Signal, State]:
    # A CLI may report the end of a turn whose beginning it never reported: that counts as well.
    return {
        signal: state if signal in _ONLY_AT_WORK else after for signal, after in _AT_WORK.items()
    }


_ROWS: dict[State, dict[Signal, State]] = {
    "active": _AT_WORK,
    "awaiting_input": _ASKING,
    "done": _at_rest("done"),
    "error": _at_rest("error"),
    "interrupted": _at_rest("interrupted"),
}

TABLE: Final[Mapping[tuple[State, Signal], State]] = MappingProxyType(
    {(state, signal): _ROWS[state][signal] for state in STATES for signal in SIGNALS}
)
"""Every state and every signal: there is no pair without an answer."""


def step(state: State, signal: Signal) -> State:
    """The state after this signal."""
    return TABLE[state, signal]


def draw() -> str:
    """The table as a mermaid diagram, without the signals that change nothing."""
    labels: dict[tuple[State, State], list[str]] = {}
    for (state, signal), after in TABLE.items():
        if after != state:
            labels.setdefault((state, after), []).append(signal)
    arrows = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in labels.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {INITIAL}", *arrows]) + "\n"
