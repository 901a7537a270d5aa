"""What the door does not take is kept: in memory, on the disk, and then in the CLI itself."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from pilothouse.relay import leftovers, registry
from pilothouse.transport.base import LONGEST_LINE
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import RunningRelay, python, relay

# Says lines as fast as it can, once it may, and writes down how far it has come.
COUNTS = """
import os, sys, time
progress = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
while os.path.exists(sys.argv[3]):
    time.sleep(0.005)
for number in range(int(sys.argv[1])):
    os.write(1, b"%07d " % number + b"x" * 992 + b"\\n")
    os.pwrite(progress, b"%07d" % number, 0)
"""
MIB = 1024 * 1024


def counts(folder: Path, count: int) -> list[str]:
    return python(COUNTS, str(count), str(folder / "progress"), str(folder / "not-yet"))


def expected(count: int) -> list[bytes]:
    return [b"%07d " % number + b"x" * 992 for number in range(count)]


async def until_it_stands_still(running: RunningRelay, folder: Path) -> int:
    """How many lines the CLI could say before it had to wait."""
    # A CLI that says nothing for a while may just not have had its turn on a busy machine.
    while "the spool is full" not in running.said():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.02)
    before = -1
    while True:
        await asyncio.sleep(0.3)
        now = int((folder / "progress").read_bytes() or b"0") if _exists(folder) else 0
        if now and now == before:
            return now + 1
        before = now


def _exists(folder: Path) -> bool:
    return (folder / "progress").exists()


def spool_files(pid: int) -> int:
    """Bytes in the files of the spool, which have no name any more."""
    size = 0
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        # A socket that it dials with may be closed meanwhile.
        with suppress(FileNotFoundError):
            if "/spool/lines-" in str(fd.readlink()):
                size += fd.stat().st_size
    return size


def resident(pid: int, name: str = "VmRSS") -> int:
    """Bytes of memory now; by the name of VmHWM, the most there ever were."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


async def test_what_memory_cannot_hold_goes_to_the_disk_and_comes_back(tmp_path: Path) -> None:
    count = 30_000
    async with RelayDoor().opened() as door:
        await door.kill()
        async with relay(door.url, tmp_path, counts(tmp_path, count)) as running:
            while "the CLI ended" not in running.said():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
            assert spool_files(running.pid) > 20 * MIB
            assert resident(running.pid) < 48 * MIB
            await door.open()
            await door.ended()
            assert await running.result() == 0
    assert door.lines == expected(count)


async def test_a_full_spool_stops_the_reading_and_says_so_and_drops_nothing(
    tmp_path: Path,
) -> None:
    count, limit = 20_000, 6 * MIB
    async with RelayDoor().opened() as door:
        await door.kill()
        async with relay(
            door.url, tmp_path, counts(tmp_path, count), "--spool-limit", str(limit)
        ) as running:
            said = await until_it_stands_still(running, tmp_path)
            # The limit, one reading beyond it, and the pipe.
            assert limit <= said * 1001 <= limit + 3 * MIB
            assert "the spool is full" in running.said()
            await door.open()
            await door.ended()
            assert await running.result() == 0
            assert "room again" in running.said()
    assert door.hellos[0].full
    assert door.lines == expected(count)


async def test_a_door_that_acknowledges_nothing_gets_no_more_than_a_window(
    tmp_path: Path,
) -> None:
    async with RelayDoor().opened() as door:
        door.acknowledging = False
        async with relay(
            door.url, tmp_path, counts(tmp_path, 12_000), "--spool-limit", str(5 * MIB)
        ) as running:
            await until_it_stands_still(running, tmp_path)
            while sum(len(line) + 1 for line in door.lines) < MIB:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
            assert sum(len(line) + 1 for line in door.lines) <= 2 * MIB
            await door.acknowledge()
            await door.ended()
            assert await running.result() == 0
    assert door.lines == expected(12_000)


async def test_a_full_spool_does_not_outlast_the_last_will(tmp_path: Path) -> None:
    haste = {"interrupt": 0.1, "close": 0.1, "end_of_output": 0.1, "farewell": 0.1}
    options = ("--spool-limit", str(MIB), "--last-will", "1")
    async with relay(
        "ws://127.0.0.1:9", tmp_path, counts(tmp_path, 12_000), *options, pace=haste
    ) as running:
        assert await running.result() == 1
        assert "the spool is full" in running.said()
    assert not (running.spool / registry.NAME).exists()
    left = (running.spool / leftovers.LINES).read_bytes().splitlines()
    # The last one was cut off when the CLI was ended.
    assert left[:-1] == expected(len(left) - 1)
    assert len(left) > 1000


async def test_a_line_longer_than_every_other_limit_passes(tmp_path: Path) -> None:
    size = 12 * MIB
    source = f"import sys; sys.stdout.write('a' * {size} + '\\n' + 'b\\n')"
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(source), "--spool-limit", str(MIB)) as running,
    ):
        await door.ended()
        assert await running.result() == 0
    assert [len(line) for line in door.lines] == [size, 1]


async def test_without_a_place_on_the_disk_memory_is_the_limit(tmp_path: Path) -> None:
    count = 15_000
    not_yet = tmp_path / "not-yet"
    not_yet.touch()
    async with RelayDoor().opened() as door:
        await door.kill()
        async with relay(door.url, tmp_path, counts(tmp_path, count)) as running:
            while not _exists(tmp_path):  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.005)
            taken_away = tmp_path / "taken-away"
            os.rename(running.spool, taken_away)  # noqa: PTH104
            not_yet.unlink()
            said = await until_it_stands_still(running, tmp_path)
            assert said * 1001 <= 8 * MIB
            assert "the spool is full (No such file or directory)" in running.said()
            await door.open()
            await door.ended()
            assert await running.result() == 0
    assert door.lines == expected(count)


# Says a line, much without a newline, and a line again once it is told to.
ENDLESS = """
import os, sys
os.write(1, b"before\\n")
part = b"x" * (1024 * 1024)
for _ in range(int(sys.argv[1])):
    left = part
    while left:
        left = left[os.write(1, left) :]
os.write(2, b"said")
sys.stdin.readline()
os.write(1, b"\\nafter\\n")
"""


async def test_a_line_without_end_takes_no_more_memory_than_the_longest_line(
    tmp_path: Path,
) -> None:
    size = 8 * LONGEST_LINE
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(ENDLESS, str(size // MIB))) as running,
    ):
        await door.has(1)
        # Read when the CLI has said all of it, since it waits for its pipe to be read.
        await door.say(b"go on")
        await door.has(2)
        assert resident(running.pid, "VmHWM") < LONGEST_LINE + 32 * MIB
        await door.ended()
        assert await running.result() == 0
    assert door.lines == [b"before", b"after"]
    assert door.dropped == {2: size}
    assert door.repeated == 0
    assert len(door.hellos) == 1


# Says a line, one of so many bytes, and another.
THREE = """
import sys
print("a", "x" * int(sys.argv[1]), "b", sep="\\n")
"""


async def test_a_dropped_line_is_told_again_until_it_is_acknowledged(tmp_path: Path) -> None:
    size = LONGEST_LINE + 1
    async with RelayDoor().opened() as door:
        door.acknowledging = False
        async with relay(door.url, tmp_path, python(THREE, str(size))) as running:
            await door.ended()
            assert (door.lines, door.dropped) == ([b"a", b"b"], {2: size})
            await door.kill()
            door.lines, door.dropped, door.exit = [b"a"], {}, None
            door.acknowledging = True
            await door.open()
            await door.ended()
            assert await running.result() == 0
    assert (door.lines, door.dropped) == ([b"a", b"b"], {2: size})
