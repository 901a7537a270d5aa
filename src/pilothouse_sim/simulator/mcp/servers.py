"""The session's MCP servers, as the turn and the client's control requests use them."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.mcp.channels import McpFailure
from pilothouse_sim.simulator.mcp.config import complete, configured
from pilothouse_sim.simulator.mcp.elicitation import McpElicitation
from pilothouse_sim.simulator.mcp.resources import RESOURCE_TOOLS
from pilothouse_sim.simulator.mcp.results import Reader
from pilothouse_sim.simulator.mcp.server import McpServer, ServerTool
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.activity import SessionActivity
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.state import SessionState

__all__ = ["McpServers"]


class McpServers:
    """The session's MCP servers and their tools."""

    def __init__(self, state: SessionState, hooks: SessionHooks, activity: SessionActivity) -> None:
        self._state = state
        self._elicitation = McpElicitation(state.outlet, hooks, activity)
        self._servers: dict[str, McpServer] = {}
        self._set: set[str] = set()
        """The servers that the client set while the session ran."""
        self._greeting: set[asyncio.Task[None]] = set()
        self._is_begun = False

    # Beginning and ending

    def start(self) -> None:
        """Start the processes that the command line and the project name."""
        state = self._state
        found = configured(state.launch, state.cwd, state.environment)
        for name, (config, source) in found.items():
            server = self._add(name, config, source)
            if not server.is_in_host:
                self._greet(server)

    async def begin(self, options: dict[str, Any]) -> None:
        """Greet the servers in the client: those that `initialize` names, and those of flags."""
        names: list[str] = options.get("sdkMcpServers") or []
        for name in names:
            if name not in self._servers:
                self._add(name, {"type": "sdk", "name": name}, "dynamic")
        await self._greet_host()

    async def _greet_host(self) -> None:
        if self._is_begun:
            return
        self._is_begun = True
        for server in self._servers.values():
            if server.is_in_host:
                self._greet(server)
        # The first message to a server comes before the answer to `initialize`.
        await asyncio.sleep(0)

    async def settled(self) -> None:
        """Wait until no server is about to be connected."""
        await self._greet_host()
        if self._greeting:
            await asyncio.wait(self._greeting)

    async def aclose(self) -> None:
        """End the servers it started."""
        for task in self._greeting:
            task.cancel()
        await asyncio.gather(*self._greeting, return_exceptions=True)
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _add(self, name: str, config: dict[str, Any], source: str) -> McpServer:
        server = McpServer(self._state, self._elicitation, name, complete(config), source)
        self._servers[name] = server
        return server

    def _greet(self, server: McpServer) -> None:
        task = asyncio.create_task(server.connect())
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    # Tools

    def tool_names(self) -> list[str]:
        """The tools they offer, as the model calls them."""
        return sorted(self._tools())

    @property
    def have_resources(self) -> bool:
        """Whether one of them has resources."""
        return any(server.has_resources for server in self._servers.values())

    def has_tool(self, name: str) -> bool:
        """Whether the name is that of a tool of theirs."""
        return name in self._tools() or (name in RESOURCE_TOOLS and self.have_resources)

    def is_concurrent(self, name: str) -> bool:
        """Whether a tool may run beside others."""
        return name in RESOURCE_TOOLS or self._tools()[name].is_read_only

    def ask_fields(self, name: str) -> dict[str, Any]:
        """What a question about a tool of theirs says besides."""
        server = self.origin(name)
        return {"mcp_server": server} if server else {}

    def display_name(self, name: str) -> str | None:
        """A tool's name in a question, if it is one of theirs."""
        return _display_name(name) if name in self._tools() else None

    def origin(self, name: str) -> dict[str, Any] | None:
        """The server of a tool, as hooks and questions name it."""
        tool = self._tools().get(name)
        return None if tool is None else {"name": tool.server.name, "source": tool.server.source}

    def _tools(self) -> dict[str, ServerTool]:
        servers = self._servers.values()
        return {tool.full_name: tool for server in servers for tool in server.tools}

    async def use(self, name: str, arguments: dict[str, Any], call_id: str) -> ToolOutcome:
        """Call a tool for the model."""
        try:
            if name in RESOURCE_TOOLS:
                return await RESOURCE_TOOLS[name](self._servers, arguments)
            tool = self._tools()[name]
            meta = {"claudecode/toolUseId": call_id}
            result = await tool.server.call(tool, arguments, meta)
        except McpFailure as failure:
            raise ToolFailure(str(failure)) from None
        return self._reader(tool).outcome(result)

    def _reader(self, tool: ServerTool) -> Reader:
        state = self._state
        folder = facts.project_folder(state.config_dir, state.original_cwd)
        place = folder / state.session_id / "tool-results"
        return Reader(tool.server.name, tool.name, tool.full_name, place)

    def cancel_calls(self) -> None:
        """Tell the servers that the turn was interrupted."""
        for server in self._servers.values():
            server.cancel_calls()

    def call_meta(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        """What an assistant line says besides about calls of their tools."""
        entries = [
            self._entry(block["id"], block["name"])
            for block in blocks
            if block["type"] == "tool_use" and block["name"].startswith("mcp__")
        ]
        return {"tool_use_meta": entries} if entries else {}

    def _entry(self, own: str, name: str) -> dict[str, Any]:
        tool = self._tools().get(name)
        if tool is None:
            return {"id": own, "display_name": _display_name(name)}
        return {
            "id": own,
            "display_name": tool.annotations.get("title") or _display_name(name),
            "server_display_name": tool.server.info.get("name") or tool.server.name,
            "tool_name": tool.name,
        }

    # Reports and requests of the client's

    def listing(self) -> list[dict[str, Any]]:
        """The `mcp_servers` of an init line."""
        return [server.listing() for server in self._servers.values()]

    def status(self) -> list[dict[str, Any]]:
        """The `mcpServers` of the status report."""
        return [server.report() for server in self._servers.values()]

    async def reconnect(self, name: str) -> None:
        """Connect a server again; raise `McpFailure`, as all that the client asks for do."""
        server = self._find(name)
        if server.is_in_host:
            raise McpFailure("SDK servers should be handled in print.ts")
        if self._greeting:
            await asyncio.wait(self._greeting)
        await server.aclose()
        await server.connect()
        if server.status == "failed":
            raise McpFailure(server.error or "Connection failed")

    async def toggle(self, name: str, *, enabled: bool) -> None:
        """Turn a server on or off."""
        server = self._find(name)
        if enabled:
            await server.connect()
        else:
            await server.disable()

    async def set_servers(self, servers: dict[str, Any]) -> dict[str, Any]:
        """Replace the servers set this way: `{added, removed, errors}`."""
        removed = [name for name in self._servers if name in self._set and name not in servers]
        for name in removed:
            await self._servers.pop(name).aclose()
        self._set -= set(removed)
        added = [name for name in servers if name not in self._servers]
        new = [self._add(name, servers[name], "dynamic") for name in added]
        self._set |= set(added)
        await asyncio.gather(*(server.connect() for server in new if not server.is_in_host))
        for server in new:
            if server.is_in_host:
                # Greeted once the answer is written.
                asyncio.get_running_loop().call_soon(self._greet, server)
        errors = {server.name: server.error for server in new if server.error}
        return {"added": added, "removed": removed, "errors": errors}

    async def call_for_client(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call `mcp__server__tool` of a connected server for the client."""
        server = self._server_of(tool)
        # Whether there is such a tool is left to the server.
        found = self._tools().get(tool) or ServerTool(server, tool.split("__", 2)[2], {})
        return await server.call(found, arguments, {})

    def _server_of(self, tool: str) -> McpServer:
        name = tool.split("__")[1]
        server = self._find(name)
        if server.is_in_host:
            words = "mcp_call does not support SDK MCP servers. SDK servers are caller-provided"
            raise McpFailure(f"{words} — invoke {name} directly.")
        return server

    def receive(self, server: str, message: dict[str, Any]) -> None:
        """Take what an in-process server sends unasked."""
        if server in self._servers:
            self._servers[server].receive(message)

    def _find(self, name: str) -> McpServer:
        if name not in self._servers:
            raise McpFailure(f"Server not found: {name}")
        return self._servers[name]


def _display_name(name: str) -> str:
    """A tool's name for people: `mcp__calc__look_up` is `Look Up`."""
    words = name.split("__", 2)[-1].replace("_", " ")
    return re.sub(r"\b\w", lambda letter: letter[0].upper(), words)
