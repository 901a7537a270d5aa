"""The table of what a session's CLI can be."""

from __future__ import annotations

from itertools import product

import pytest

from pilothouse.engine.cli_phase import (
    INITIAL,
    PHASES,
    STEPS,
    TABLE,
    Phase,
    Step,
    after,
    draw,
)


def walked(*steps: Step) -> Phase:
    phase = INITIAL
    for each in steps:
        phase = after(phase, each)
    return phase


def test_every_phase_can_be_reached_and_all_but_the_last_can_be_left() -> None:
    reached = {INITIAL}
    for _ in PHASES:
        reached |= {following for (phase, _), following in TABLE.items() if phase in reached}
    assert reached == set(PHASES)
    assert {phase for phase, _ in TABLE} == set(PHASES) - {"left"}


def test_what_is_not_in_the_table_cannot_happen() -> None:
    for phase, step in product(PHASES, STEPS):
        if (phase, step) not in TABLE:
            with pytest.raises(LookupError, match=f"no CLI can {step} while it is {phase}"):
                after(phase, step)


def test_a_cli_ends_from_wherever_it_is() -> None:
    beginnings: list[tuple[Step, ...]] = [
        ("reserve", "start"),
        ("start",),
        ("reserve", "start", "cancel"),
        ("reserve", "start", "connect"),
        ("reserve", "start", "connect", "close"),
        ("take_up",),
        ("take_up", "close"),
    ]
    for each in beginnings:
        assert walked(*each, "end") == "absent"


def test_only_a_live_one_is_closed_or_left() -> None:
    for step in ("close", "leave"):
        assert {phase for phase, each in TABLE if each == step} == {"live"}


def test_the_drawing_has_every_arrow() -> None:
    lines = draw().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> absent"]
    arrows = {(phase, following) for (phase, _), following in TABLE.items() if phase != following}
    assert len(lines) == 2 + len(arrows)
