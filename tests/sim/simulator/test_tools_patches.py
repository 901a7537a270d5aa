"""The hunks that Edit and Write report."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse_sim.simulator.tools.patches import NO_NEWLINE, structured_patch

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "  d", ""]), max_size=20).map("\n".join)


def applied(old: str, hunks: list[dict[str, Any]]) -> str:
    """The old text with the hunks carried out."""
    lines = old.splitlines(keepends=True)
    new: list[str] = []
    at = 0
    for hunk in hunks:
        new += lines[at : hunk["oldStart"] - 1]
        new += _new_lines(hunk["lines"])
        at = hunk["oldStart"] - 1 + hunk["oldLines"]
    return "".join(new + lines[at:])


def _new_lines(marked: list[str]) -> list[str]:
    lines: list[str] = []
    last = ""
    for line in marked:
        if line == NO_NEWLINE:
            if last != "-":
                lines[-1] = lines[-1].removesuffix("\n")
            continue
        last = line[0]
        if last != "-":
            lines.append(line[1:] + "\n")
    return lines


@given(TEXTS, TEXTS)
def test_the_hunks_turn_the_old_text_into_the_new_one(old: str, new: str) -> None:
    hunks = structured_patch(old, new)
    assert applied(old, hunks) == new
    for hunk in hunks:
        kept = [line for line in hunk["lines"] if line != NO_NEWLINE]
        assert hunk["oldLines"] == sum(line[0] != "+" for line in kept)
        assert hunk["newLines"] == sum(line[0] != "-" for line in kept)


@given(TEXTS)
def test_equal_texts_have_no_hunks(text: str) -> None:
    assert structured_patch(text, text) == []


def test_changes_far_apart_are_hunks_of_their_own() -> None:
    old = [f"{at}\n" for at in range(20)]
    new = ["x\n", *old[1:8], "y\n", *old[9:]]
    hunks = structured_patch("".join(old), "".join(new))
    assert [(hunk["oldStart"], hunk["oldLines"]) for hunk in hunks] == [(1, 4), (6, 7)]
    closer = structured_patch("".join(old), "".join(["x\n", *old[1:7], "y\n", *old[8:]]))
    assert [(hunk["oldStart"], hunk["oldLines"]) for hunk in closer] == [(1, 11)]


def test_leading_tabs_are_shown_as_two_blanks_each() -> None:
    (hunk,) = structured_patch("\ta\tb\n", "\t\ta\tb\n")
    assert hunk["lines"] == ["-  a\tb", "+    a\tb"]
