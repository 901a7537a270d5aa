"""What PILOTHOUSE_FAULTS can do to a client."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse_sim.simulator.faults import GARBAGE, LONG_LINE, BadFault, Faults, FaultyEnd
from tests.support.waiting import DEADLINE


class Heard:
    """An end that keeps what it is given, and a listener that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.written = asyncio.Event()
        self.data = b""
        self.ended = False

    async def start(self, listener: object) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.lines.append(data)
        self.written.set()

    async def aclose(self) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.ended = True


async def played(words: str, *lines: bytes) -> list[bytes]:
    heard = Heard()
    end = FaultyEnd(heard, Faults.parse(words))
    await end.start(heard)
    end.write(b"".join(lines))
    async with asyncio.timeout(DEADLINE):
        await end.aclose()
    return heard.lines


async def test_without_faults_lines_pass_as_they_are() -> None:
    assert await played("", b"one\n", b"two\n") == [b"one\n", b"two\n"]


async def test_a_delay_changes_nothing_but_the_time() -> None:
    assert await played("delay=0.001", b"one\n", b"two\n") == [b"one\n", b"two\n"]


async def test_garbage_comes_before_the_line_it_names() -> None:
    assert await played("garbage=2", b"one\n", b"two\n") == [b"one\n", GARBAGE, b"two\n"]


async def test_a_long_line_is_one_message_of_twenty_megabytes() -> None:
    first, second = await played("long=1", b"one\n")
    assert (len(first), first.count(b"\n"), second) == (LONG_LINE, 1, b"one\n")


async def test_a_hanging_end_writes_and_hears_nothing_more() -> None:
    heard = Heard()
    end = FaultyEnd(heard, Faults.parse("hang=1"))
    await end.start(heard)
    end.write(b"one\ntwo\n")
    async with asyncio.timeout(DEADLINE):
        await heard.written.wait()
    await asyncio.sleep(0)
    end.data_received(b"anybody?\n")
    end.eof_received()
    assert (heard.lines, heard.data, heard.ended) == ([b"one\n"], b"", False)


async def test_the_end_of_input_can_be_ignored() -> None:
    heard = Heard()
    end = FaultyEnd(heard, Faults.parse("ignore-eof"))
    await end.start(heard)
    end.data_received(b"still here\n")
    end.eof_received()
    assert (heard.data, heard.ended) == (b"still here\n", False)


def test_a_crash_may_name_a_signal() -> None:
    faults = Faults.parse("crash=3:9, garbage=1")
    assert (faults.crash, faults.crash_signal, faults.garbage) == (3, 9, 1)


@pytest.mark.parametrize("words", ["explode=1", "crash=soon"])
def test_a_fault_that_there_is_not_is_told_with_those_there_are(words: str) -> None:
    with pytest.raises(
        BadFault, match="known faults: delay, crash, hang, garbage, long, ignore-eof"
    ):
        Faults.parse(words)


async def test_a_hanging_end_can_still_be_closed() -> None:
    heard = Heard()
    end = FaultyEnd(heard, Faults.parse("hang=1"))
    await end.start(heard)
    end.write(b"one\ntwo\n")
    async with asyncio.timeout(DEADLINE):
        await heard.written.wait()
        await end.aclose()
    assert heard.lines == [b"one\n"]


def test_a_signal_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadFault, match="99 is not a valid Signals"):
        Faults.parse("crash=1:99")
