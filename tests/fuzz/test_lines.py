"""Whatever a CLI writes is received and folded, line by line, and the session goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import TypeVar

import pytest

from pilothouse.protocol import Connection, Role
from tests.support.fuzz.findings import MANY, SEED, Failure, Findings, failure_of, least
from tests.support.fuzz.folds import Fold, raw_of
from tests.support.fuzz.known import KNOWN
from tests.support.fuzz.mutation import as_read, is_blank, mutated
from tests.support.fuzz.strict import depth_of

FEW, PARTS = 4_000, 100
TOGETHER = 40
"""Lines of one session."""

DEEP, STACKS = 60, (0, 100, 400)
T = TypeVar("T")
WhyNot = Callable[[Sequence[bytes], Random], Failure | None]


def sessions(rng: Random, count: int) -> Iterator[list[bytes]]:
    """So many lines, for sessions of different lengths."""
    while count > 0:
        lines = [mutated(rng) for _ in range(min(count, rng.randint(1, TOGETHER)))]
        count -= len(lines)
        yield lines


def in_pieces(rng: Random, lines: Sequence[bytes]) -> Iterator[bytes]:
    """The stream of these lines, cut anywhere."""
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice((0, 1, 5))))
    for start, end in pairwise([0, *cuts, len(stream)]):
        yield stream[start:end]


def why_not_received(lines: Sequence[bytes], rng: Random) -> Failure | None:
    wanted = [as_read(each) for each in lines if not is_blank(each)]
    connection = Connection(Role.CLIENT)
    try:
        for piece in in_pieces(rng, lines):
            connection.receive_data(piece)
        found = [raw_of(each) for each in connection.events()]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return failure_of(error)
    return None if found == wanted else Failure("not one event for each line, with its bytes")


def why_not_folded(lines: Sequence[bytes], rng: Random) -> Failure | None:
    fold = Fold()
    try:
        for piece in in_pieces(rng, lines):
            fold.take(piece)
        fold.check()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return failure_of(error)
    return None


def check(seed: int, count: int, why_not: WhyNot) -> None:
    """Try so many lines; tell each distinct failure with the fewest lines that it takes."""
    rng, findings = Random(seed), Findings(seed)
    for lines in sessions(rng, count):
        failure = why_not(lines, rng)
        if failure is not None and failure not in findings:
            findings.note(failure, least(lines, partial(is_alike, failure, why_not, rng)))
    findings.check()


def is_alike(failure: Failure, why_not: WhyNot, rng: Random, lines: Sequence[bytes]) -> bool:
    found = why_not(lines, rng)
    return found is not None and found.where == failure.where


def test_every_line_becomes_one_event_that_has_its_bytes() -> None:
    check(SEED, FEW, why_not_received)


def test_a_session_lives_through_its_lines_and_can_be_told_again() -> None:
    check(SEED, FEW, why_not_folded)


def test_what_was_once_too_much_is_received_and_lived_through() -> None:
    rng, findings = Random(SEED), Findings(SEED)
    for why_not in (why_not_received, why_not_folded):
        for lines in ([each] for each in KNOWN):
            failure = why_not(lines, rng)
            if failure is not None:
                findings.note(failure, lines)
        failure = why_not(KNOWN, rng)
        if failure is not None:
            findings.note(failure, KNOWN)
    findings.check()


def test_what_a_line_is_does_not_depend_on_how_deep_the_stack_is() -> None:
    rng, findings = Random(SEED), Findings(SEED)
    for line in deep_ones(rng, DEEP):
        shallow, *others = [at_depth(each, lambda line=line: told_of_line(line)) for each in STACKS]
        if any(each != shallow for each in others):
            findings.note(Failure("another entry where the stack is deeper"), [line])
    findings.check()


def deep_ones(rng: Random, count: int) -> Iterator[bytes]:
    """Lines that are nested about as deep as a parser goes, some of them broken far inside."""
    while count:
        line = mutated(rng)
        if depth_of(line) > 500:
            count -= 1
            at = line.find(b"[" * 400) + rng.randrange(400)
            yield line if rng.random() < 0.5 else line[:at] + b"x" + line[at:]


def at_depth(depth: int, work: Callable[[], T]) -> T:
    """What it returns with so many frames below it."""
    return at_depth(depth - 1, work) if depth else work()


def told_of_line(line: bytes) -> list[tuple[str, bytes]]:
    fold = Fold()
    fold.take(line + b"\n")
    return [(each.kind, bytes(each.body)) for each in fold.entries]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_half_a_million_lines_are_received_and_lived_through(part: int) -> None:
    seed = SEED + 1000 * (part + 1)
    check(seed, MANY // PARTS, why_not_received)
    check(seed, MANY // PARTS, why_not_folded)
