"""The comparison itself: what it finds, and what it leaves out of account."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.compare import (
    Difference,
    Intended,
    Neighbours,
    Unsteady,
    Value,
    compare,
    explain,
    normalise,
)
from tests.differential.driver import Transcript, own_uuid
from tests.support.raw_cli import Message

ONE, TWO, THREE = (f"{digit * 8}-1111-4111-8111-{digit * 12}" for digit in "abc")
STEADY = Unsteady([], [])


def transcript(*lines: Message, root: str = "/tmp/left") -> Transcript:
    return Transcript(root, list(lines))


def found(
    real: list[Message], simulated: list[Message], unsteady: Unsteady = STEADY
) -> list[tuple[str, str, str]]:
    differences = compare("scene", transcript(*real), transcript(*simulated), unsteady)
    return [(each.message, each.path, each.kind) for each in differences]


def status(**members: Any) -> Message:
    return {"type": "system", "subtype": "status", **members}


def state(name: str) -> Message:
    return {"type": "system", "subtype": "session_state_changed", "state": name}


def test_equal_lines_do_not_differ_in_paths_times_and_process_ids() -> None:
    real = transcript(status(cwd="/tmp/left/dev", pid=7, duration_ms=12), root="/tmp/left")
    simulated = transcript(status(cwd="/tmp/right/dev", pid=9, duration_ms=3), root="/tmp/right")
    assert compare("scene", real, simulated, STEADY) == []


def test_a_time_of_another_type_is_a_difference() -> None:
    assert found([status(retry_delay_ms=5)], [status(retry_delay_ms=5.5)]) == [
        ("system/status", ".retry_delay_ms", "value")
    ]


def test_fields_are_named_by_their_path() -> None:
    real = status(a={"b": [1, {"c": "x"}]}, gone=1)
    simulated = status(a={"b": [1, {"c": "y"}]}, new=1)
    assert found([real], [simulated]) == [
        ("system/status", ".a.b[1].c", "value"),
        ("system/status", ".gone", "missing"),
        ("system/status", ".new", "extra"),
    ]


def test_entries_with_names_are_compared_by_name() -> None:
    real = status(commands=[{"name": "clear", "hint": "a"}, {"name": "compact", "hint": ""}])
    simulated = status(commands=[{"name": "clear", "hint": "b"}])
    assert found([real], [simulated]) == [
        ("system/status", ".commands[clear].hint", "value"),
        ("system/status", ".commands[compact]", "missing"),
    ]


def test_a_list_of_words_tells_what_is_missing_and_what_is_extra() -> None:
    differences = compare(
        "scene",
        transcript(status(tools=["Bash", "Read"])),
        transcript(status(tools=["Bash", "Glob"])),
        STEADY,
    )
    assert [(each.path, each.real, each.simulated) for each in differences] == [
        (".tools[]", ["Read"], None),
        (".tools[]", None, ["Glob"]),
    ]


def test_true_is_not_one() -> None:
    assert found([status(error=True)], [status(error=1)]) == [("system/status", ".error", "value")]


def test_a_missing_line_does_not_shift_the_rest() -> None:
    real = [state("running"), status(a=1), state("idle")]
    simulated = [state("running"), state("idle")]
    assert found(real, simulated) == [("system/status", "", "line missing")]
    assert found(simulated, real) == [("system/status", "", "line extra")]


def test_ids_may_be_others_but_must_refer_to_the_same() -> None:
    real = [status(uuid=ONE), status(uuid=TWO), status(about=ONE)]
    assert found(real, [status(uuid=TWO), status(uuid=THREE), status(about=TWO)]) == []
    assert found(real, [status(uuid=TWO), status(uuid=THREE), status(about=THREE)]) == [
        ("system/status", ".about", "identity")
    ]


def test_one_wrong_reference_is_told_once() -> None:
    real = [status(session_id=ONE)] * 4
    assert found(real, [status(session_id=ONE), *[status(session_id=TWO)] * 3]) == [
        ("system/status", ".session_id", "identity")
    ]


def test_ids_inside_of_words_are_ids() -> None:
    assert found([status(text=f"see {ONE}.txt")], [status(text=f"see {TWO}.txt")]) == []
    task = status(task_id="b12345678", text="b12345678 runs")
    assert found([task], [status(task_id="babcdefgh", text="babcdefgh runs")]) == []


def test_the_hosts_own_ids_are_compared_as_they_are() -> None:
    assert found([status(about=own_uuid(1))], [status(about=own_uuid(2))]) == [
        ("system/status", ".about", "value")
    ]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"type": "assistant", "message": {"content": [{"type": "text"}]}}, "assistant/text"),
        (
            {"type": "user", "message": {"content": "x"}, "parent_tool_use_id": "toolu_1"},
            "child/user/words",
        ),
        (
            {
                "type": "control_response",
                "response": {"subtype": "success", "request_id": "req-1-x"},
            },
            "control_response/success/x",
        ),
        (
            {
                "type": "control_request",
                "request": {"subtype": "can_use_tool", "tool_name": "Bash"},
            },
            "control_request/can_use_tool/Bash",
        ),
        ({"type": "exit", "code": 0}, "exit"),
    ],
)
def test_a_line_is_named_by_what_it_is(message: Message, kind: str) -> None:
    assert [line.kind for line in normalise(transcript(message))] == [kind]


def test_neighbours_without_an_order_may_change_places() -> None:
    rule = Neighbours("*/running", "system/status", ("sc*",), "a race")
    lines = [state("running"), status(), status(), state("idle")]
    other = [lines[1], lines[2], lines[0], lines[3]]
    assert found(lines, other, Unsteady([rule], [])) == []
    assert found(lines, other) != []


def test_a_value_that_means_nothing_must_still_be_of_its_type() -> None:
    rule = Value("system/status", ".cost", ("scene",), "a race")
    assert found([status(cost=1.5)], [status(cost=2.5)], Unsteady([], [rule])) == []
    assert found([status(cost=1.5)], [status(cost="2")], Unsteady([], [rule])) != []


def test_an_intended_difference_is_explained_where_it_was_meant() -> None:
    difference = Difference("scene", 1, "system/init", ".tools[x].words", "value")
    elsewhere = Difference("other", 1, "system/init", ".tools[x].words", "value")
    entry = Intended("system/*", ".tools[*].words", ("scene",), "ours", "value")
    assert explain([difference, elsewhere], [entry]) == ([elsewhere], {entry})
    assert entry.is_due_in("scene")
    assert not entry.is_due_in("other")
