"""What tests of turns share: a shell command that the test holds, and ways to read a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from pilothouse import Allow, Client, PermissionRequest
from pilothouse.protocol import ControlResponse
from pilothouse_sim.scenario import ToolCall, tool

E = TypeVar("E")


class HeldCommand:
    """Bash that connects to the test and stays until the test hangs up."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.ended = asyncio.Event()
        self._released = asyncio.Event()
        self._port = 0

    @property
    def call(self) -> ToolCall:
        """The model's call of it."""
        return tool("Bash", command=self.command, description="wait for the test")

    @property
    def background_call(self) -> ToolCall:
        """The model's call of it as work that goes on beside the turns."""
        call = self.call
        return tool(call.name, **call.input, run_in_background=True)

    @property
    def command(self) -> str:
        return f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{self._port}; cat <&3'"

    @property
    def released(self) -> bool:
        return self._released.is_set()

    def release(self) -> None:
        self._released.set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HeldCommand]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.release()
            server.close()
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.running.set()
        release = asyncio.ensure_future(self._released.wait())
        gone = asyncio.ensure_future(reader.read())
        await asyncio.wait((release, gone), return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            writer.write(b"let go\n")
        writer.close()
        release.cancel()
        gone.cancel()
        await asyncio.gather(release, gone, return_exceptions=True)
        self.ended.set()


async def allow(_: PermissionRequest) -> Allow:
    """A person who says yes to everything."""
    return Allow()


async def next_of(client: Client, kind: type[E]) -> E:
    """Reads on to the next event of this kind."""
    async with aclosing(client.read()) as events:
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError(f"the session ended without a {kind.__name__}")


async def unread(client: Client) -> list[Any]:
    """Everything the CLI has written until now: a round trip marks where now is."""
    await client.mcp_status()
    seen: list[Any] = []
    async with aclosing(client.read()) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ControlResponse) and b"mcpServers" in event.raw:
                return seen
    raise AssertionError("the session ended")
