"""Line differences in hunks, as Edit and Write report them.

A greedy shortest edit script (Myers): on a tie, lines are removed before lines are added.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

__all__ = ["structured_patch"]

CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file"
_LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


class _Step(Struct, frozen=True):
    """Some lines of one kind at the end of an edit script: the rest hangs behind it."""

    sign: str
    count: int
    before: _Step | None


class _Path(Struct):
    """How far one diagonal has come in the old text, and by which steps."""

    old: int
    last: _Step | None


def structured_patch(old: str, new: str) -> list[dict[str, Any]]:
    """The hunks that turn one text into the other, with three lines of context."""
    before, after = _lines(old), _lines(new)
    return [_hunk(part) for part in _groups(_marked(before, after))]


def _lines(text: str) -> list[str]:
    # The CLI shows every leading tab as two spaces, before it compares.
    spaced = _LEADING_TABS.sub(lambda tabs: "  " * len(tabs.group()), text)
    lines = spaced.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _marked(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    """Every line of both texts once, with its sign."""
    marked: list[tuple[str, str]] = []
    old = new = 0
    for sign, count in _steps(before, after):
        source, start = (after, new) if sign == "+" else (before, old)
        marked += [(sign, line) for line in source[start : start + count]]
        old += 0 if sign == "+" else count
        new += 0 if sign == "-" else count
    return marked


def _steps(before: list[str], after: list[str]) -> list[tuple[str, int]]:
    paths: dict[int, _Path] = {0: _Path(old=-1, last=None)}
    if _slide(paths[0], 0, before, after) >= len(after) and paths[0].old + 1 >= len(before):
        return _unrolled(paths[0].last)
    for length in range(1, len(before) + len(after) + 1):
        for diagonal in range(-length, length + 1, 2):
            path = _extended(paths, diagonal, len(before), len(after))
            if path is None:
                continue
            new = _slide(path, diagonal, before, after)
            if path.old + 1 >= len(before) and new >= len(after):
                return _unrolled(path.last)
            paths[diagonal] = path
    return []


def _extended(paths: dict[int, _Path], diagonal: int, old_size: int, new_size: int) -> _Path | None:
    """The better of the two neighbours, one edit further."""
    removing, adding = paths.pop(diagonal - 1, None), paths.get(diagonal + 1)
    can_add = adding is not None and 0 <= adding.old - diagonal < new_size
    can_remove = removing is not None and removing.old + 1 < old_size
    if (
        adding is not None
        and can_add
        and not (can_remove and removing and removing.old >= adding.old)
    ):
        return _Path(old=adding.old, last=_joined(adding.last, "+", 1))
    if removing is not None and can_remove:
        return _Path(old=removing.old + 1, last=_joined(removing.last, "-", 1))
    paths.pop(diagonal, None)
    return None


def _slide(path: _Path, diagonal: int, before: list[str], after: list[str]) -> int:
    """Follow equal lines as far as they go; return how many new lines are used up."""
    new, start = path.old - diagonal, path.old
    while path.old + 1 < len(before) and new + 1 < len(after):
        if before[path.old + 1] != after[new + 1]:
            break
        path.old += 1
        new += 1
    if path.old > start:
        path.last = _joined(path.last, " ", path.old - start)
    return new + 1


def _joined(last: _Step | None, sign: str, count: int) -> _Step:
    if last is not None and last.sign == sign:
        return _Step(sign, last.count + count, last.before)
    return _Step(sign, count, last)


def _unrolled(last: _Step | None) -> list[tuple[str, int]]:
    steps: list[tuple[str, int]] = []
    while last is not None:
        steps.append((last.sign, last.count))
        last = last.before
    steps.reverse()
    for at in range(1, len(steps)):
        if steps[at - 1][0] == "+" and steps[at][0] == "-":
            steps[at - 1], steps[at] = steps[at], steps[at - 1]
    return steps


def _groups(marked: list[tuple[str, str]]) -> list[tuple[int, int, list[tuple[str, str]]]]:
    """The changed places with their context: old start, new start, lines."""
    changed = [at for at, (sign, _) in enumerate(marked) if sign != " "]
    spans: list[list[int]] = []
    for at in changed:
        low, high = max(0, at - CONTEXT), min(len(marked), at + CONTEXT + 1)
        if spans and low <= spans[-1][1]:
            spans[-1][1] = high
        else:
            spans.append([low, high])
    return [(*_starts(marked, low), marked[low:high]) for low, high in spans]


def _starts(marked: list[tuple[str, str]], at: int) -> tuple[int, int]:
    old = sum(sign != "+" for sign, _ in marked[:at])
    new = sum(sign != "-" for sign, _ in marked[:at])
    return old + 1, new + 1


def _hunk(group: tuple[int, int, list[tuple[str, str]]]) -> dict[str, Any]:
    old_start, new_start, marked = group
    lines: list[str] = []
    for sign, line in marked:
        lines.append(sign + line.removesuffix("\n"))
        if not line.endswith("\n"):
            lines.append(NO_NEWLINE)
    return {
        "oldStart": old_start,
        "oldLines": sum(sign != "+" for sign, _ in marked),
        "newStart": new_start,
        "newLines": sum(sign != "-" for sign, _ in marked),
        "lines": lines,
    }
