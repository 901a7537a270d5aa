"""A link that is cut at random moments in every way loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.relay.bad_link import IMPATIENT, TALKS, BadLink
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import python, relay


async def cut_at_random(folder: Path, cuts: int, seed: int) -> None:
    heard = 0
    async with (
        RelayDoor().opened() as door,
        BadLink(door.port, cuts, seed).opened() as proxy,
        relay(proxy.url, folder, python(TALKS), pace=IMPATIENT) as running,
    ):
        await door.greeted()
        while len(proxy.fates) < cuts:
            await door.say(f"line {heard}".encode())
            heard += 1
            await asyncio.sleep(0.01)
        await door.say(b"stop")
        assert (await door.ended()).code == 0
        assert await running.result() == 0
    check(door, heard)


def check(door: RelayDoor, heard: int) -> None:
    *lines, total = [line.decode() for line in door.lines]
    said = [line for line in lines if line.startswith("said ")]
    assert total == f"total {len(said)}"
    assert said == [f"said {number} " + "z" * (number % 700) for number in range(len(said))]
    answers = [line for line in lines if line.startswith("heard ")]
    assert answers == [f"heard line {number}" for number in range(heard)]
    assert len(lines) == len(said) + len(answers)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_link_cut_at_random_loses_nothing_and_doubles_nothing(
    tmp_path: Path, seed: int
) -> None:
    await cut_at_random(tmp_path, 25, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 6))
async def test_a_link_cut_two_hundred_times_loses_nothing(tmp_path: Path, seed: int) -> None:
    await cut_at_random(tmp_path, 200, seed)
