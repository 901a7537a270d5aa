"""The simulator's end of the wire: its own stdin and stdout, or whatever carries lines."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from typing import Protocol

__all__ = ["StdioEnd", "WireEnd", "WireListener"]


class WireListener(Protocol):
    """Whom an end tells. Called from the event loop, in order."""

    def data_received(self, data: bytes) -> None:
        """Take some bytes of the client's, cut anywhere."""
        ...

    def eof_received(self) -> None:
        """Note that the client writes nothing more."""
        ...


class WireEnd(Protocol):
    """Carries lines to and from one client."""

    async def start(self, listener: WireListener) -> None:
        """Begin to read."""
        ...

    def write(self, data: bytes) -> None:
        """Take whole lines for the client; never waits, keeps what the client does not read."""
        ...

    async def aclose(self) -> None:
        """Let everything through that was written, then close."""
        ...


class StdioEnd:
    """This process's own standard input and output."""

    def __init__(self) -> None:
        self._writer: asyncio.WriteTransport | None = None
        self._drained = _Drain()

    async def start(self, listener: WireListener) -> None:
        loop = asyncio.get_running_loop()
        if sys.stdout and _can_wait(sys.stdout.fileno()):
            self._writer, _ = await loop.connect_write_pipe(lambda: self._drained, sys.stdout)
        if not sys.stdin:
            loop.call_soon(listener.eof_received)
        elif _can_wait(sys.stdin.fileno()):
            await loop.connect_read_pipe(lambda: _Reading(listener), sys.stdin)
        else:
            loop.call_soon(_read_file, listener)

    def write(self, data: bytes) -> None:
        if self._writer is not None:
            self._writer.write(data)
        elif sys.stdout:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    async def aclose(self) -> None:
        if self._writer is not None:
            self._writer.close()
            await self._drained.closed.wait()


class _Drain(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


class _Reading(asyncio.Protocol):
    def __init__(self, listener: WireListener) -> None:
        self._listener = listener

    def data_received(self, data: bytes) -> None:
        self._listener.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.eof_received()


def _can_wait(descriptor: int) -> bool:
    """Files and /dev/null are always ready, and the event loop cannot watch them."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _read_file(listener: WireListener) -> None:
    while data := os.read(sys.stdin.fileno(), 1 << 16):
        listener.data_received(data)
    listener.eof_received()
