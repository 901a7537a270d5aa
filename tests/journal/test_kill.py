"""A process that is killed while it posts has lost nothing that it was told is safe."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import read_all

CHILD = """
import asyncio, itertools, sys
from pathlib import Path
from pilothouse.journal.contract import Draft
from pilothouse.journal.sqlite import SqliteJournal

async def work(journal, name):
    for number in itertools.count():
        kind = "partial" if number % 3 else "cli"
        posted = journal.post([Draft(name, kind, 0, b'{"name":"%s"}' % name.encode())] * 7)
        await posted.committed
        sys.stdout.write(f"{posted.first} {posted.last} {name}\\n")
        sys.stdout.flush()
        if number % 20 == 19:
            await journal.prune_partials(name, posted.first - 50, posted.first)

async def main():
    journal = await SqliteJournal.open(Path(sys.argv[1]))
    await asyncio.gather(*(work(journal, f"s{n}") for n in range(8)))

asyncio.run(main())
"""


def killed_after(path: Path, lines: int) -> list[tuple[int, int, str]]:
    """What a child was told is safe, until it was killed some time after so many answers."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        told += child.stdout.readlines()
    whole = [line.split() for line in told if line.endswith("\n")]
    return [(int(first), int(last), name) for first, last, name in whole]


async def check(path: Path, told: list[tuple[int, int, str]]) -> None:
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    batch = await read_all(journal)
    seqs = [event.seq for event in batch.events]
    owners = {event.seq: event.session_id for event in batch.events}
    assert seqs == sorted(set(seqs))
    removed = {seq for gap in batch.gaps for seq in range(gap.first, gap.last + 1)}
    for first, last, name in told:
        for seq in range(first, last + 1):
            assert owners.get(seq) == name or (seq not in owners and seq in removed)
    await journal.aclose()


@pytest.mark.parametrize(
    "rounds", [5, pytest.param(50, marks=pytest.mark.slow)], ids=["a few", "many"]
)
async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    path: Path, rounds: int
) -> None:
    chance = random.Random(os.environ.get("PILOTHOUSE_SEED", "1"))
    told: list[tuple[int, int, str]] = []
    for _ in range(rounds):
        fresh = await asyncio.to_thread(killed_after, path, chance.randint(1, 300))
        assert not told or fresh[0][0] > told[-1][1]
        told += fresh
        await check(path, told)
