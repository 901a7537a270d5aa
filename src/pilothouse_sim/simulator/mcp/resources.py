"""The tools with which the model looks at what servers keep: their resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.mcp.server import McpServer

__all__ = ["RESOURCE_TOOLS"]

Servers = dict[str, "McpServer"]


async def _list(servers: Servers, arguments: dict[str, Any]) -> ToolOutcome:
    named = arguments.get("server")
    asked = list(servers.values()) if named is None else [_find(servers, named)]
    found: list[dict[str, Any]] = []
    for server in asked:
        if server.has_resources:
            answer = await server.request("resources/list")
            kept: list[dict[str, Any]] = answer.get("resources") or []
            found += [
                {"name": each["name"], "uri": each["uri"], **each, "server": server.name}
                for each in kept
            ]
    return _outcome(found)


async def _read(servers: Servers, arguments: dict[str, Any]) -> ToolOutcome:
    server = _find(servers, arguments.get("server"))
    answer = await server.request("resources/read", {"uri": arguments.get("uri")})
    return _outcome({"contents": answer.get("contents") or []})


def _find(servers: Servers, name: Any) -> McpServer:
    if name not in servers:
        raise ToolFailure(f'Server "{name}" not found. Available servers: {", ".join(servers)}')
    return servers[name]


def _outcome(found: Any) -> ToolOutcome:
    return ToolOutcome(content=msgspec.json.encode(found).decode(), result=found)


RESOURCE_TOOLS: Final[dict[str, Callable[[Servers, dict[str, Any]], Awaitable[ToolOutcome]]]] = {
    "ListMcpResourcesTool": _list,
    "ReadMcpResourceTool": _read,
}
