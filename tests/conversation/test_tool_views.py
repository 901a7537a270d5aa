"""The change of a file of which both sides are known."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pilothouse.api.tool_views import DiffView
from pilothouse.conversation import tool_views
from pilothouse.conversation.tool_views import NO_LINE_END, changed_file

LINES = st.lists(st.sampled_from(["oak", "ash", "", "elm", " ash"]), max_size=30)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def sides(view: DiffView, sign: str) -> list[tuple[int, str]]:
    """The lines of one side that a diff shows, numbered from 0."""
    found: list[tuple[int, str]] = []
    for hunk in view.hunks:
        at = (hunk.old_start if sign == "-" else hunk.new_start) - 1
        kept = False
        for line in hunk.lines:
            if line == NO_LINE_END:
                if kept:
                    found[-1] = (found[-1][0], found[-1][1].removesuffix("\n"))
                continue
            kept = line[0] in (" ", sign)
            if kept:
                found.append((at, f"{line[1:]}\n"))
                at += 1
    return found


def changed_by(view: DiffView, before: str) -> str:
    """The text after the change, made of the text before it and of the diff alone."""
    lines = before.splitlines(keepends=True)
    for hunk in reversed(view.hunks):
        part = DiffView(path="", hunks=[hunk])
        old, new = sides(part, "-"), sides(part, "+")
        begin = hunk.old_start - 1
        assert lines[begin : begin + len(old)] == [line for _, line in old]
        lines[begin : begin + len(old)] = [line for _, line in new]
    return "".join(lines)


@given(TEXTS, TEXTS)
@example("", "oak")
@example("oak", "oak\n")
@example("oak\n" * 20, "oak\n" * 19)
def test_a_diff_leads_from_one_side_to_the_other(before: str, after: str) -> None:
    view = changed_file("a.txt", before, after)
    assert changed_by(view, before) == after
    after_lines = after.splitlines(keepends=True)
    assert all(after_lines[at] == line for at, line in sides(view, "+"))
    marks = [line[0] for hunk in view.hunks for line in hunk.lines]
    assert (view.added, view.removed) == (marks.count("+"), marks.count("-"))
    assert view.is_numbered


def test_lines_around_a_change_are_shown_and_no_others() -> None:
    before = "".join(f"{number}\n" for number in range(1, 101))
    view = changed_file("a.txt", before, before.replace("50\n", "fifty\n"))
    [hunk] = view.hunks
    assert (hunk.old_start, hunk.new_start) == (47, 47)
    assert hunk.lines == [" 47", " 48", " 49", "-50", "+fifty", " 51", " 52", " 53"]


def test_two_long_texts_are_not_compared_line_by_line() -> None:
    count = int(tool_views.MOST_COMPARED**0.5) + 1
    before = "same\n" + "".join(f"old {number}\n" for number in range(count)) + "end\n"
    after = "same\n" + "".join(f"new {number}\n" for number in range(count)) + "end\n"
    view = changed_file("a.txt", before, after)
    [hunk] = view.hunks
    assert hunk.lines[:2] == [" same", "-old 0"]
    assert (view.added, view.removed) == (count, count)
    # As many lines as a person reads; how many there are more is said.
    assert len(hunk.lines) + view.cut == 2 * count + 2
