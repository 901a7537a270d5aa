"""Every line arrives once and in order, whatever becomes of the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import ECHO, SAYS, python, relay

# Ten thousand lines a second.
STEADY = """
import sys, time
count, pad = int(sys.argv[1]), sys.argv[2]
began = time.monotonic()
for number in range(0, count, 50):
    sys.stdout.write("".join(f"{each} {pad}\\n" for each in range(number, number + 50)))
    sys.stdout.flush()
    time.sleep(max(0, began + number / 10_000 - time.monotonic()))
"""


def expected(count: int, pad: str) -> list[bytes]:
    return [f"{number} {pad}".encode() for number in range(count)]


@pytest.mark.parametrize("where", ["tcp", "unix"])
async def test_lines_and_the_end_arrive(tmp_path: Path, where: str) -> None:
    unix = tmp_path / "door" if where == "unix" else None
    async with (
        RelayDoor(unix).opened() as door,
        relay(door.url, tmp_path, python(SAYS, "1000", "x" * 300)) as running,
    ):
        assert (await door.ended()).code == 0
        assert await running.result() == 0
    assert door.lines == expected(1000, "x" * 300)
    assert not running.spool.exists()


async def test_what_the_door_says_is_written_once(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(ECHO)) as running,
    ):
        await door.greeted()
        await door.say(b"one", b"two")
        await door.has(2)
        await door.restart()
        await door.say(b"three")
        await door.has(3)
        await door.order("close_input")
        assert (await door.ended()).code == 0
        assert await running.result() == 0
    assert door.lines == [b"heard one", b"heard two", b"heard three"]
    assert door.written == 4


@pytest.mark.slow
async def test_a_steady_stream_survives_twenty_kills_of_the_door(tmp_path: Path) -> None:
    count = 120_000
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(STEADY, str(count), "s" * 280)) as running,
    ):
        for kill in range(1, 21):
            await door.has(kill * 5_500)
            await door.restart()
        await door.ended()
        assert await running.result() == 0
    assert door.lines == expected(count, "s" * 280)
    assert len({hello.pid for hello in door.hellos}) == 1
    assert len(door.hellos) > 15


async def test_nothing_is_lost_or_doubled_when_the_door_is_killed_many_times(
    tmp_path: Path,
) -> None:
    count = 60_000
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(SAYS, str(count), "y" * 200)) as running,
    ):
        for kill in range(1, 13):
            await door.has(kill * 4000)
            await door.restart()
        await door.ended()
        assert await running.result() == 0
    assert door.lines == expected(count, "y" * 200)
    assert len(door.hellos) > 5
