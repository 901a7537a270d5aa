"""Faults on demand: what a CLI does to its client on a bad day.

`PILOTHOUSE_FAULTS` names them, separated by commas; N counts the lines written, from 1:

    delay=SECONDS   every line waits this long
    crash=N         after line N the process is gone, without a word (crash=N:9 by signal 9)
    hang=N          after line N it writes nothing more, reads nothing more, and stays
    garbage=N       before line N comes a line that is no JSON
    long=N          before line N comes a message of 20 MB
    ignore-eof      it does not end when its input ends
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from msgspec import Struct, convert

if TYPE_CHECKING:
    from pilothouse_sim.simulator.wire_ends import WireEnd, WireListener

__all__ = ["BadFault", "Faults", "FaultyEnd"]

LONG_LINE = 20_000_000
GARBAGE = b"\x1b[31mWarning:\x1b[0m this is no message {\n"


class BadFault(Exception):
    """PILOTHOUSE_FAULTS names a fault that there is not; the text says which there are."""


class Faults(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The faults of one run."""

    delay: float = 0.0
    crash: int | None = None
    crash_signal: int | None = None
    hang: int | None = None
    garbage: int | None = None
    long: int | None = None
    ignore_eof: bool = False

    @classmethod
    def parse(cls, words: str) -> Faults:
        """Read the value of PILOTHOUSE_FAULTS."""
        given: dict[str, str] = {}
        for word in filter(None, words.split(",")):
            name, _, value = word.strip().partition("=")
            given[name] = value or "true"
            if name == "crash" and ":" in value:
                given["crash"], _, given["crash-signal"] = value.partition(":")
        try:
            found = convert(given, cls, strict=False)
            if found.crash_signal is not None:
                signal.Signals(found.crash_signal)
            return found
        except ValueError as error:
            known = ", ".join(name for name in cls.__struct_encode_fields__ if "signal" not in name)
            raise BadFault(f"PILOTHOUSE_FAULTS={words}: {error}; known faults: {known}") from error


class FaultyEnd:
    """An end that goes wrong where it is told to."""

    def __init__(self, end: WireEnd, faults: Faults) -> None:
        self._end = end
        self._faults = faults
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None
        self._listener: WireListener | None = None
        self._hangs = False

    async def start(self, listener: WireListener) -> None:
        self._listener = listener
        self._pump = asyncio.create_task(self._write_lines())
        await self._end.start(self)

    def write(self, data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            self._lines.put_nowait(line)

    async def aclose(self) -> None:
        self._lines.put_nowait(None)
        if self._pump is not None and self._hangs:
            # It would wait for ever; a signal still ends a process that hangs.
            self._pump.cancel()
        elif self._pump is not None:
            await self._pump
        await self._end.aclose()

    def data_received(self, data: bytes) -> None:
        if self._listener is not None and not self._hangs:
            self._listener.data_received(data)

    def eof_received(self) -> None:
        if self._listener is not None and not self._hangs and not self._faults.ignore_eof:
            self._listener.eof_received()

    async def _write_lines(self) -> None:
        number = 0
        while (line := await self._lines.get()) is not None:
            number += 1
            await asyncio.sleep(self._faults.delay)
            if number == self._faults.garbage:
                self._end.write(GARBAGE)
            if number == self._faults.long:
                self._end.write(_long_line())
            self._end.write(line)
            if number == self._faults.crash:
                await self._crash()
            if number == self._faults.hang:
                self._hangs = True
                await asyncio.Event().wait()

    async def _crash(self) -> None:
        # What was written before the crash did reach the client.
        await self._end.aclose()
        if self._faults.crash_signal is not None:
            os.kill(os.getpid(), signal.Signals(self._faults.crash_signal))
        os._exit(1)


def _long_line() -> bytes:
    head, tail = b'{"type":"system","subtype":"long_line","padding":"', b'"}\n'
    return head + b"x" * (LONG_LINE - len(head) - len(tail)) + tail
