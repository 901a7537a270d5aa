"""A server of one tool, and what a client of it says first: enough to test a way in."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession

from tests.support.waiting import DEADLINE

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}


class OneToolServer:
    """A server of one tool, which waits or talks as it is told."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.text = "done"
        self._session: ServerSession | None = None
        self.server: Server[Any] = Server(
            "house", on_list_tools=self._list, on_call_tool=self._call
        )

    async def elicit(self) -> types.ElicitResult:
        """Ask the client whose request came last."""
        assert self._session is not None
        return await self._session.elicit_form("well?", {"type": "object", "properties": {}})

    async def elicit_until(self, asked: asyncio.Event) -> types.ElicitResult:
        """Ask the client whose request came last, again if it could not be reached yet."""
        session = self._session
        assert session is not None
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        async with asyncio.timeout(DEADLINE):
            while True:
                asking = asyncio.create_task(session.elicit_form("well?", schema))
                waiting = asyncio.create_task(asked.wait())
                await asyncio.wait({asking, waiting}, timeout=0.2, return_when="FIRST_COMPLETED")
                if asked.is_set():
                    return await asking
                asking.cancel()
                waiting.cancel()

    async def _list(self, ctx: Any, _: Any) -> types.ListToolsResult:
        self._session = ctx.session
        tool = types.Tool(name="work", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    async def _call(self, _: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.arguments:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return types.CallToolResult(content=[types.TextContent(type="text", text=self.text)])
