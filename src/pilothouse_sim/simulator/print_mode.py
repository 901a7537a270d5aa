"""`claude -p "prompt"`: one turn from a plain text, and its result as text or JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.wire_ends import WireEnd, WireListener

__all__ = ["NoPrompt", "PrintEnd"]

_MISSING: Final = (
    "Error: Input must be provided either through stdin or as a prompt argument when using --print"
)
_BLANK: Final = (
    "Error: Input contained only whitespace. Provide a prompt with text through stdin or as a "
    "prompt argument when using --print"
)
_FOR_STREAMS: Final = "lifecycle_wakeup_source_v1"
"""A capability that only those have who read line by line."""


class NoPrompt(Exception):
    """There is nothing to do; the text says what is missing."""


class PrintEnd:
    """Stands in for a client that says one thing and wants one answer."""

    def __init__(self, launch: LaunchFlags, end: WireEnd) -> None:
        self._launch = launch
        self._end = end
        self._piped = bytearray()
        self._read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held: list[bytes] = []
        """Lines that wait for the end, to be written as one list."""

    async def start(self, listener: WireListener) -> None:
        """Read what was piped in, then say it behind the prompt of the command line."""
        await self._end.start(self)
        if not sys.stdin.isatty():
            await self._read
        piped = self._piped.decode("utf-8", "replace")
        words = "\n".join(filter(None, (self._launch.prompt, piped)))
        if not words.strip():
            raise NoPrompt(_BLANK if words else _MISSING)
        message = {"type": "user", "message": {"role": "user", "content": words}}
        listener.data_received(msgspec.json.encode(message) + b"\n")
        listener.eof_received()

    def write(self, data: bytes) -> None:
        if self._launch.output_format == "stream-json":
            self._end.write(data)
            return
        for line in data.splitlines():
            self._show(line)

    async def aclose(self) -> None:
        if self._held:
            self._end.write(b"[" + b",".join(self._held) + b"]\n")
        await self._end.aclose()

    def data_received(self, data: bytes) -> None:
        self._piped += data

    def eof_received(self) -> None:
        if not self._read.done():
            self._read.set_result(None)

    def _show(self, line: bytes) -> None:
        message: dict[str, Any] = msgspec.json.decode(line)
        is_result = message["type"] == "result"
        # What was spent since the last result is told only where there may be several.
        message.pop("model_usage_since_last_result", None)
        if self._launch.output_format == "text":
            if is_result:
                self._end.write(self._told(message).encode())
        elif self._launch.verbose:
            self._hold(message)
        elif is_result:
            self._end.write(msgspec.json.encode(message) + b"\n")

    def _hold(self, message: dict[str, Any]) -> None:
        match message.get("subtype"):
            case "session_state_changed":
                return
            case "init":
                message["capabilities"].remove(_FOR_STREAMS)
            case _:
                pass
        self._held.append(msgspec.json.encode(message))

    def _told(self, result: dict[str, Any]) -> str:
        match result["subtype"]:
            case "success":
                words: str = result["result"]
                return words if words.endswith("\n") else f"{words}\n"
            case "error_max_turns":
                return f"Error: Reached max turns ({self._launch.max_turns})"
            case "error_max_budget_usd":
                return f"Error: Exceeded USD budget ({self._launch.max_budget_usd:g})"
            case _:
                return "Execution error"
