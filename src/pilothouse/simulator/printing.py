"""`claude -p "prompt"`: one turn from a plain text, and its result as text or JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pilothouse.simulator.ends import End, Listener
    from pilothouse.simulator.flags import Launch

__all__ = ["NoPrompt", "PrintEnd"]


class NoPrompt(Exception):
    """There is nothing to do; the text says what is missing."""


class PrintEnd:
    """Stands in for a client that says one thing and wants one answer."""

    def __init__(self, launch: Launch, end: End) -> None:
        self._launch = launch
        self._end = end
        self._listener: Listener | None = None
        self._piped = bytearray()
        self._read = asyncio.get_running_loop().create_future()

    async def start(self, listener: Listener) -> None:
        """Reads what was piped in, then says it together with the prompt of the command line."""
        await self._end.start(self)
        if not sys.stdin.isatty():
            await self._read
        words = "\n".join(filter(None, (self._piped.decode("utf-8", "replace"), self._launch.prompt)))
        if not words.strip():
            raise NoPrompt(
                "Error: Input must be provided either through stdin or as a prompt argument when "
                "using --print"
            )
        message = {"type": "user", "message": {"role": "user", "content": words}}
        listener.data_received(msgspec.json.encode(message) + b"\n")
        listener.eof_received()

    def write(self, data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            self._show(line)

    async def aclose(self) -> None:
        await self._end.aclose()

    def data_received(self, data: bytes) -> None:
        self._piped += data

    def eof_received(self) -> None:
        self._read.set_result(None)

    def _show(self, line: bytes) -> None:
        if self._launch.output_format == "stream-json":
            self._end.write(line)
            return
        message: dict[str, Any] = msgspec.json.decode(line)
        if message["type"] != "result":
            return
        if self._launch.output_format == "json":
            self._end.write(line)
        else:
            words = message.get("result") or "\n".join(message.get("errors", ()))
            self._end.write(words.encode() + b"\n")
