"""What a run of the fuzzer found: each distinct failure once, with the least it takes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import pytest

from tests.support.fuzz.mutation import shorter
from tests.support.places import ROOT

SOURCE = ROOT / "src"
SEED = int(os.environ.get("PILOTHOUSE_SEED", "7"))
MANY = 500_000
"""How many lines the long forms play."""
SHOWN = 300
LISTED = 5
SECONDS = 40.0
"""As long the least lines are looked for, for each failure."""


class Failure(NamedTuple):
    """One way to fail."""

    where: str
    """By which it is told from others."""
    why: str = ""


Fails = Callable[[Sequence[bytes]], bool]


class Findings:
    """Failures by what failed and where; `check` fails with all of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._found: dict[str, tuple[str, Sequence[bytes]]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __iter__(self) -> Iterator[Failure]:
        return iter([Failure(where, why) for where, (why, _) in self._found.items()])

    def __contains__(self, failure: Failure) -> bool:
        return failure.where in self._found

    def note(self, failure: Failure, lines: Sequence[bytes] = ()) -> None:
        """Keep the smallest lines with which this happens."""
        known = self._found.get(failure.where)
        if known is None or sum(map(len, lines)) < sum(map(len, known[1])):
            self._found[failure.where] = failure.why, list(lines)

    @contextmanager
    def watching(self, *lines: bytes) -> Generator[None]:
        """Note whatever goes wrong with these lines, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            self.note(failure_of(error), lines)

    def check(self) -> None:
        """Fail if there is anything."""
        if self._found:
            pytest.fail(self._told(), pytrace=False)

    def _told(self) -> str:
        parts = [f"seed {self.seed}: {len(self._found)} distinct failures"]
        for where, (why, lines) in sorted(self._found.items()):
            parts += ["", where, f"  {why}", *(f"  {shown(each)}" for each in lines[:LISTED])]
            parts += [f"  and {len(lines) - LISTED} lines more"] if len(lines) > LISTED else []
        return "\n".join(parts)


def failure_of(error: BaseException) -> Failure:
    """What failed and where: of ours, the innermost place."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if Path(each.filename).is_relative_to(SOURCE)]
    place = (ours or list(frames))[-1]
    path = Path(place.filename)
    file = path.relative_to(SOURCE) if ours else path.name
    where = f"{type(error).__name__} at {file}:{place.lineno} in {place.name}"
    return Failure(where, ascii(str(error))[:SHOWN])


def shown(line: bytes) -> str:
    """The beginning of a line, as it can be pasted."""
    more = f" ... {len(line)} bytes" if len(line) > SHOWN else ""
    return f"{line[:SHOWN]!r}{more}"


def least(lines: Sequence[bytes], fails: Fails) -> Sequence[bytes]:
    """As few of the lines, and of their members, as still fail, as far as there is time to try."""
    trying = _Trying(fails)
    size = len(lines)
    while size := size // 2:
        for start in reversed(range(0, len(lines), size)):
            fewer = [*lines[:start], *lines[start + size :]]
            lines = fewer if trying.fail(fewer) else lines
    for number in range(len(lines)):
        lines = _with_least(lines, number, trying)
    return lines


def _with_least(lines: Sequence[bytes], number: int, trying: _Trying) -> Sequence[bytes]:
    """These lines, one of them without the members that do not matter."""
    before, line, after = lines[:number], lines[number], lines[number + 1 :]
    candidates = shorter(line)
    while trying.has_time and (each := next(candidates, None)) is not None:
        if trying.fail([*before, each, *after]):
            line, candidates = each, shorter(each)
    return [*before, line, *after]


class _Trying:
    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._until = monotonic() + SECONDS

    @property
    def has_time(self) -> bool:
        return monotonic() < self._until

    def fail(self, lines: Sequence[bytes]) -> bool:
        """Whether these lines fail, as long as there is time to try."""
        return self.has_time and self._fails(lines)
