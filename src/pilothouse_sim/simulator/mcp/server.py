"""One MCP server: how it is greeted, what it offers, and what it asks."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.mcp.channels import (
    HostChannel,
    McpChannel,
    McpFailure,
    ProcessChannel,
)

if TYPE_CHECKING:
    from pilothouse_sim.simulator.mcp.elicitation import McpElicitation
    from pilothouse_sim.simulator.state import SessionState

__all__ = ["McpServer", "ServerTool", "normalised"]

PROTOCOL: Final = "2025-11-25"
GREETING_TIMEOUT: Final = 30.0
CLIENT: Final = {
    "name": "claude-code",
    "title": "Claude Code",
    "description": "Anthropic's agentic coding tool",
    "websiteUrl": "https://claude.com/claude-code",
    "version": facts.VERSION,
}
PROCESS_CAPABILITIES: Final[dict[str, Any]] = {
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
}
UNREACHABLE: Final = "ECONNREFUSED: Unable to connect. Is the computer able to access the url?"
_HINTS: Final = {
    "readOnlyHint": "readOnly",
    "destructiveHint": "destructive",
    "openWorldHint": "openWorld",
}

Status = Literal["pending", "connected", "failed", "disabled"]


def normalised(name: str) -> str:
    """A name as it stands in the names of tools."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


class ServerTool(Struct, frozen=True):
    """A tool of a server."""

    server: McpServer
    name: str
    annotations: dict[str, Any]

    @property
    def full_name(self) -> str:
        """The name the model calls it by."""
        return f"mcp__{normalised(self.server.name)}__{normalised(self.name)}"

    @property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        return self.annotations.get("readOnlyHint") is True

    def report(self) -> dict[str, Any]:
        """The tool as `mcp_status` lists it."""
        hints = {short: True for hint, short in _HINTS.items() if self.annotations.get(hint)}
        return {"name": self.name, "annotations": hints}


class McpServer:
    """A server under the name that the session knows it by."""

    def __init__(
        self,
        state: SessionState,
        elicitation: McpElicitation,
        name: str,
        config: dict[str, Any],
        source: str,
    ) -> None:
        self._state = state
        self._elicitation = elicitation
        self.name = name
        self.config = config
        self.source = "sdk" if config["type"] == "sdk" else source
        self.scope = source
        self.status: Status = "pending"
        self.error: str | None = None
        self.info: dict[str, Any] = {}
        self.tools: list[ServerTool] = []
        self.has_resources = False
        self._channel: McpChannel | None = None
        self._ids = itertools.count()
        self._calls: set[int] = set()
        self._work: set[asyncio.Task[Any]] = set()

    @property
    def is_in_host(self) -> bool:
        """Whether the server lives in the client."""
        return self.config["type"] == "sdk"

    # Connecting

    async def connect(self) -> None:
        """Greet the server and ask for its tools; afterwards it is connected or has failed."""
        self.status, self.error = "pending", None
        self._ids = itertools.count()
        try:
            async with asyncio.timeout(GREETING_TIMEOUT):
                await self._greet()
        except McpFailure as failure:
            self.status, self.error = "failed", str(failure)
        except TimeoutError:
            words = f"Connection timed out after {GREETING_TIMEOUT * 1000:.0f}ms"
            self.status, self.error = "failed", words
        else:
            self.status = "connected"

    async def _greet(self) -> None:
        self._channel = await self._open()
        greeting: dict[str, Any] = {
            "protocolVersion": PROTOCOL,
            "capabilities": {} if self.is_in_host else PROCESS_CAPABILITIES,
            "clientInfo": CLIENT,
        }
        answer = await self.request("initialize", greeting)
        self.info = answer.get("serverInfo") or {}
        self.has_resources = "resources" in (answer.get("capabilities") or {})
        await self.notify("notifications/initialized")
        await self.list_tools()

    async def _open(self) -> McpChannel:
        if self.is_in_host:
            return HostChannel(self._state.outlet, self.name)
        if self.config["type"] != "stdio":
            raise McpFailure(UNREACHABLE)
        environment = {**self._state.environment, **self.config.get("env", {})}
        command = [self.config["command"], *self.config.get("args", [])]
        return await ProcessChannel.start(command, environment, self.receive, self._lost)

    def _lost(self) -> None:
        if self.status == "connected":
            self._channel = None

    async def list_tools(self) -> None:
        """Ask what the server offers."""
        answer = await self.request("tools/list")
        listed: list[dict[str, Any]] = answer.get("tools") or []
        self.tools = [
            ServerTool(self, each["name"], each.get("annotations") or {}) for each in listed
        ]

    async def disable(self) -> None:
        """Turn the server off."""
        await self.aclose()
        self.status = "disabled"

    async def aclose(self) -> None:
        """End the connection and everything that goes on over it."""
        channel, self._channel = self._channel, None
        self.info, self.tools, self.has_resources = {}, [], False
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if channel is not None:
            await channel.aclose()

    # Talking to it

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, own: int | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result; raise `McpFailure`."""
        number = next(self._ids) if own is None else own
        given = {} if params is None else {"params": params}
        message = {"method": method, **given, "jsonrpc": "2.0", "id": number}
        answer = await self._open_channel().request(message)
        error = answer.get("error")
        if error is not None:
            raise McpFailure(error.get("message") or "Unknown error")
        return answer.get("result") or {}

    def _open_channel(self) -> McpChannel:
        if self._channel is None:
            raise McpFailure("Connection closed")
        return self._channel

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        given = {} if params is None else {"params": params}
        await self._open_channel().notify({"jsonrpc": "2.0", "method": method, **given})

    async def call(self, tool: ServerTool, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
        """Call a tool; a process that went away is started again first."""
        if self._channel is None and not self.is_in_host:
            await self.connect()
        number = next(self._ids)
        self._calls.add(number)
        params = {
            "name": tool.name,
            "arguments": arguments,
            "_meta": {**meta, "progressToken": number},
        }
        try:
            return await self.request("tools/call", params, own=number)
        finally:
            self._calls.discard(number)

    def cancel_calls(self) -> None:
        """Tell the server that nobody waits any more for what it is doing."""
        for number in self._calls:
            params = {"requestId": number, "reason": "AbortError: remote-cancel"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self._open_channel().tell(message)
        self._calls.clear()

    # What it says unasked

    def receive(self, message: dict[str, Any]) -> None:
        """Take a request or a notification of the server's."""
        method, own = message.get("method"), message.get("id")
        if method == "notifications/tools/list_changed":
            self._begin(self.list_tools())
        elif own is not None and method is not None:
            self._begin(self._answer(method, own, message.get("params") or {}))

    async def _answer(self, method: str, own: Any, params: dict[str, Any]) -> None:
        body: dict[str, Any]
        match method:
            case "elicitation/create":
                body = {"result": await self._elicitation.elicit(self.name, params)}
            case "roots/list":
                body = {"result": {"roots": [{"uri": f"file://{self._state.original_cwd}"}]}}
            case "ping":
                body = {"result": {}}
            case _:
                body = {"error": {"code": -32601, "message": "Method not found"}}
        await self._open_channel().notify({"jsonrpc": "2.0", "id": own, **body})

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._end_work)

    def _end_work(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and isinstance(task.exception(), McpFailure):
            # The server is gone; whoever calls it next is told.
            return

    # Reports

    def listing(self) -> dict[str, Any]:
        """The server as an init line has it."""
        return {"name": self.name, "status": self.status, "source": self.source}

    def report(self) -> dict[str, Any]:
        """The server as `mcp_status` has it."""
        connected = self.status == "connected"
        return {
            "name": self.name,
            "status": self.status,
            **({"serverInfo": self.info} if connected else {}),
            **({"error": self.error} if self.status == "failed" else {}),
            **({} if self.is_in_host else {"config": self.config}),
            "transport": self.config["type"],
            "scope": self.scope,
            "source": self.source,
            **({"tools": [tool.report() for tool in self.tools]} if connected else {}),
        }
