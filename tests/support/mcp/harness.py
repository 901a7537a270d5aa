"""One MCP server on one engine, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client

from pilothouse.faces.mcp.addresses import address_of
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.server import create_server
from pilothouse.faces.mcp.tool_handlers import ToolHandlers
from pilothouse.server.mcp import Lent
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.engine.harness import EngineHarness

MODERN = "2026-07-28"


class McpHarness:
    """A server for any number of clients; `house` is what is behind it."""

    def __init__(
        self,
        house: EngineHarness,
        *,
        answers: Any = "anyone",
        engine: Any = None,
        default_cwd: str | None = "",
        **more: Any,
    ) -> None:
        self.house = house
        self.engine = engine
        self.handle = EngineHandle(self._connect)
        self.tool_handlers = ToolHandlers(self.handle, answers=answers)
        cwd = str(house.cwd) if default_cwd == "" else default_cwd
        self.server = create_server(self.tool_handlers, self.handle, default_cwd=cwd, **more)

    async def _connect(self) -> Any:
        return Lent(self.engine or self.house.engine)

    async def aclose(self) -> None:
        await self.handle.aclose()

    @asynccontextmanager
    async def client(
        self, mode: str = MODERN, *, name: str = "tests", **more: Any
    ) -> AsyncIterator[ToolCaller]:
        """The official client, connected in memory. `elicitation_callback=` makes it a person's."""
        info = types.Implementation(name=name, version="1")
        async with Client(self.server, mode=mode, client_info=info, **more) as client:
            yield ToolCaller(client)


class ToolCaller:
    """What a model does with the tools. The official client checks each result by its schema."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured result; a tool error fails the test."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """What a model reads."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The text of the tool error that this call comes to."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        assert result.structured_content is None
        return text_of(result)

    async def start(self, prompt: str = "go", **arguments: Any) -> str:
        return (await self.call("claude_start", prompt=prompt, **arguments))["sessionId"]

    async def status(self, session_id: str, **arguments: Any) -> dict[str, Any]:
        return await self.call("claude_status", sessionId=session_id, **arguments)

    async def waited(self, session_id: str, **arguments: Any) -> dict[str, Any]:
        """The status at the next thing that matters."""
        return await self.status(session_id, waitSeconds=50, **arguments)

    async def transcript(self, session_id: str) -> str:
        """What a person reads of the session."""
        read = await self.client.read_resource(address_of(session_id, "transcript"))
        return "".join(
            each.text for each in read.contents if isinstance(each, types.TextResourceContents)
        )


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


OpenMcp = Callable[..., Awaitable[McpHarness]]


SOON = 20.0
"""Much less than a call that waits for something would take."""


TOUCH = reply(tool("Bash", command="touch made", description="Do it"))


HELD = reply("One", gate("held"), " and two.")


async def respond(model: ToolCaller, asked: dict[str, Any], *answers: str, **more: Any) -> Any:
    return await model.call(
        "claude_respond",
        sessionId=asked["sessionId"],
        id=asked["pendingQuestion"]["id"],
        answers=list(answers),
        waitSeconds=50,
        **more,
    )
