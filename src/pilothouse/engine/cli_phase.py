"""What a session's CLI can be, and what leads from one phase to the next.

    absent      there is none, and nothing is held for one
    reserved    the session's locks and a slot are held: a CLI may be started
    starting    one is being started and greeted
    cancelled   its start was called off; what was begun is being ended
    live        it is there, and can be asked
    closing     it is being ended in order
    left        it goes on behind its relay without this engine

Pure: a table, and nothing that happens by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

__all__ = ["INITIAL", "PHASES", "STEPS", "TABLE", "Phase", "Step", "after", "draw"]

Phase = Literal["absent", "reserved", "starting", "cancelled", "live", "closing", "left"]
Step = Literal[
    "reserve",  # a message was accepted: locks and a slot are taken
    "release",  # nothing came of it
    "start",  # a CLI is started; where the last one died meanwhile, without a reservation
    "connect",  # it has greeted
    "cancel",  # whoever stops the session does not wait for the start
    "take_up",  # a CLI that an engine before this one started is found alive
    "close",  # it is to end in order
    "end",  # it has ended, perhaps while no engine ran, or its start has failed
    "leave",  # this engine ends, and the CLI does not
]

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
STEPS: Final[tuple[Step, ...]] = get_args(Step)
INITIAL: Final[Phase] = "absent"

TABLE: Final[Mapping[tuple[Phase, Step], Phase]] = MappingProxyType(
    {
        ("absent", "reserve"): "reserved",
        ("absent", "start"): "starting",
        ("absent", "take_up"): "live",
        ("absent", "end"): "absent",
        ("reserved", "release"): "absent",
        ("reserved", "start"): "starting",
        ("starting", "connect"): "live",
        ("starting", "cancel"): "cancelled",
        ("starting", "end"): "absent",
        ("cancelled", "connect"): "live",
        ("cancelled", "end"): "absent",
        ("live", "close"): "closing",
        ("live", "end"): "absent",
        ("live", "leave"): "left",
        ("closing", "end"): "absent",
    }
)
"""Every step that there is. What is not in it cannot happen."""


def after(phase: Phase, step: Step) -> Phase:
    """Return the phase after a step; raise LookupError for one that cannot happen."""
    try:
        return TABLE[phase, step]
    except KeyError:
        raise LookupError(f"no CLI can {step} while it is {phase}") from None


def draw() -> str:
    """Return the table as a mermaid diagram, without the steps that change nothing."""
    labels: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, step), following in TABLE.items():
        if following != phase:
            labels.setdefault((phase, following), []).append(step)
    arrows = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in labels.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {INITIAL}", *arrows]) + "\n"
