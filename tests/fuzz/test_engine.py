"""Whatever CLIs write, an engine keeps it, answers everybody, and begins again where it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from pilothouse.errors import Refused
from tests.support.engine.played import quick_folder
from tests.support.fuzz.findings import MANY, SEED, Failure, Findings, least
from tests.support.fuzz.hostile_cli import ANSWERS
from tests.support.fuzz.known import KNOWN
from tests.support.fuzz.mutation import mutated
from tests.support.fuzz.stage import fuzz_staged, play

TOGETHER = 250
"""Lines of one play."""
MORE, PARTS = 5_000, 100
PLAYS = 2


def played(lines: Sequence[bytes], seed: int) -> Findings:
    with quick_folder() as folder:
        return asyncio.run(play(folder, lines, seed))


def check(seed: int, plays: int, together: int = TOGETHER) -> None:
    """Tell each distinct failure with the fewest lines that it takes."""
    rng, findings = Random(seed), Findings(seed)
    for _ in range(plays):
        lines = [mutated(rng) for _ in range(together)]
        for failure in played(lines, seed):
            if failure not in findings:
                findings.note(failure, least(lines, partial(fails, failure, seed)))
    findings.check()


def fails(failure: Failure, seed: int, lines: Sequence[bytes]) -> bool:
    return failure in played(lines, seed)


def test_an_engine_outlives_what_its_sessions_say() -> None:
    check(SEED, PLAYS)


def test_an_engine_outlives_what_was_once_too_much() -> None:
    findings = Findings(SEED)
    for failure in played(KNOWN, SEED):
        alone = next((each for each in KNOWN if fails(failure, SEED, [each])), None)
        findings.note(failure, KNOWN if alone is None else [alone])
    findings.check()


@pytest.mark.parametrize("greets", [False, True], ids=["answers", "greets, too"])
async def test_what_clis_answer_is_told_or_refused(greets: bool, tmp_path: Path) -> None:
    findings = Findings(0)
    async with fuzz_staged(tmp_path, findings) as stage:
        crowd = [await stage.start(each, each if greets else b"") for each in ANSWERS]
        await stage.ask(crowd)
        await stage.settle()
        await stage.read()
        await stage.check_kept()
    findings.check()


async def test_a_directory_whose_name_is_no_text_is_worked_in_or_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (tmp_path / "work").symlink_to(folder)
    findings = Findings(0)
    async with fuzz_staged(tmp_path, findings) as stage:
        with suppress(Refused):
            session_id = await stage.start()
            stage.clis[session_id].tell(b'{"type":"result","subtype":"success","result":"fine"}')
        await stage.settle()
        await stage.read()
        await stage.close()
        await stage.open()
        await stage.read()
    findings.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_an_engine_outlives_half_a_million_lines(part: int) -> None:
    check(SEED + 1000 * (part + 1), MANY // PARTS // MORE, MORE)
