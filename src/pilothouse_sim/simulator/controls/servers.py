"""Requests about MCP servers and about work in the background."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pilothouse_sim.simulator.controls.base import (
    Answer,
    ControlAsk,
    Handler,
    RequestRefused,
    required,
)
from pilothouse_sim.simulator.mcp.channels import McpFailure

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]


@contextmanager
def _refusing() -> Generator[None]:
    """Answer with an error in the server's own words."""
    try:
        yield
    except McpFailure as failure:
        raise RequestRefused(str(failure)) from None


def mcp_status(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The servers and whether they are connected."""
    return {"mcpServers": session.mcp.status()}


async def mcp_set_servers(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Replace the servers that were set this way."""
    servers = asked.get("servers")
    if not isinstance(servers, dict) or not _are_objects(cast("dict[str, Any]", servers)):
        raise RequestRefused("mcp_set_servers: servers must be an object of config objects")
    return await session.mcp.set_servers(cast("dict[str, Any]", servers))


def _are_objects(servers: dict[str, Any]) -> bool:
    return all(isinstance(config, dict) for config in servers.values())


async def mcp_reconnect(session: SimulatedSession, asked: ControlAsk) -> None:
    """Connect a server again."""
    name = required(asked, "serverName", "mcp_reconnect")
    with _refusing():
        await session.mcp.reconnect(name)


async def mcp_toggle(session: SimulatedSession, asked: ControlAsk) -> None:
    """Turn a server on or off."""
    name = required(asked, "serverName", "mcp_toggle")
    with _refusing():
        await session.mcp.toggle(name, enabled=bool(asked.get("enabled")))


def mcp_message(session: SimulatedSession, asked: ControlAsk) -> None:
    """Take what an in-process server sends unasked; anything else is ignored."""
    name, message = asked.get("server_name"), asked.get("message")
    if isinstance(name, str) and isinstance(message, dict):
        session.mcp.receive(name, cast("dict[str, Any]", message))


async def mcp_call(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Call a server's tool for the client."""
    tool = required(asked, "tool", "mcp_call")
    if not tool.startswith("mcp__") or tool.count("__") < 2:
        raise RequestRefused(f"Not a fully-qualified MCP tool name: {tool}")
    server = tool.split("__")[1]
    if {each["name"]: each["status"] for each in session.mcp.status()}.get(server) != "connected":
        raise RequestRefused(f"MCP server not connected: {server}")
    with _refusing():
        return await session.mcp.call_for_client(tool, asked.get("arguments") or {})


def mcp_read_resource(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Read a resource of a server's that is meant for display; none has any."""
    name = required(asked, "serverName", "mcp_read_resource")
    uri = required(asked, "uri", "mcp_read_resource")
    if not uri.startswith("ui://"):
        raise RequestRefused("mcp_read_resource: uri must use the ui:// scheme")
    raise RequestRefused(f"Server not found: {name}")


# Logins of servers, which need a person and a browser


def channel_enable(session: SimulatedSession, asked: ControlAsk) -> None:
    """Let a server send prompts."""
    raise RequestRefused(f"server {asked.get('serverName') or ''} is not connected")


def mcp_authenticate(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Begin a login."""
    name = asked.get("serverName") or ""
    known = {server["name"] for server in session.mcp.listing()}
    if name not in known:
        raise RequestRefused(f"Server not found: {name}")
    raise RequestRefused(f"Server {name} does not support OAuth")


def mcp_oauth_callback_url(session: SimulatedSession, asked: ControlAsk) -> None:
    """Take the URL a login came back with."""
    raise RequestRefused(f"No active OAuth flow for server: {asked.get('serverName') or ''}")


# Work in the background


async def stop_task(session: SimulatedSession, asked: ControlAsk) -> Answer:
    """Stop a task; one that is not there has stopped already."""
    stopped = await session.tasks.stop(required(asked, "task_id", "stop_task"))
    return Answer(body={}, then=session.activity.say_again if stopped else None)


def background_tasks(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Move running tools to the background."""
    tool_use_id = asked.get("tool_use_id")
    moved = _move(session, tool_use_id)
    return {} if tool_use_id is None else {"backgrounded": moved}


def _move(session: SimulatedSession, tool_use_id: str | None) -> bool:
    move = getattr(session.tasks, "move_to_background", None)
    return bool(move(tool_use_id)) if move else False


def get_task_output(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """What a task has written so far."""
    task = session.tasks.find(required(asked, "task_id", "get_task_output"))
    if task is None or task.output is None:
        words = "no shell or Monitor task with that task_id in this session"
        raise RequestRefused(f"get_task_output: {words}")
    data = task.output.read_bytes() if task.output.exists() else b""
    output = data.decode(errors="replace")
    return {"output": output, "total_bytes": len(data), "truncated": False}


ANSWERS: dict[str, Handler] = {
    "mcp_status": mcp_status,
    "mcp_set_servers": mcp_set_servers,
    "mcp_reconnect": mcp_reconnect,
    "mcp_toggle": mcp_toggle,
    "mcp_message": mcp_message,
    "mcp_call": mcp_call,
    "mcp_read_resource": mcp_read_resource,
    "channel_enable": channel_enable,
    "mcp_authenticate": mcp_authenticate,
    "mcp_clear_auth": mcp_authenticate,
    "mcp_oauth_callback_url": mcp_oauth_callback_url,
    "stop_task": stop_task,
    "background_tasks": background_tasks,
    "get_task_output": get_task_output,
}
