"""Tools the model can call which run in this very process.

    @tool
    async def add(a: int, b: Annotated[int, "the second number"] = 0) -> int:
        '''Add two numbers.'''

    server = ToolServer([add], name="calc")

The CLI carries MCP's JSON-RPC inside its control channel, one `mcp_message` request per message.
Whatever can answer such a message is a `ToolHost`:

    ToolServer      functions of the user's; needs no MCP package
    McpBridge       a server object of the `mcp` package, run on streams in memory; see `attach`
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast, runtime_checkable

from pilothouse.protocol.wire import JsonObject

from .cancellation import is_being_cancelled
from .tool_definitions import (
    NAME,
    Image,
    Tool,
    ToolAnnotations,
    ToolContext,
    ToolResult,
    tool,
)

__all__ = [
    "Image",
    "McpBridge",
    "NotificationHandler",
    "Tool",
    "ToolAnnotations",
    "ToolContext",
    "ToolHost",
    "ToolResult",
    "ToolServer",
    "attach",
    "tool",
    "tool_hosts",
]

RequestId = str | int
NotificationHandler = Callable[[JsonObject], Awaitable[None]]

# Newest first: the answer to a client that asks for a version not listed here.
PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

# How long an attached server may take to end by itself once its input has ended.
SHUTDOWN_GRACE = 2.0

_TOOL_USE_ID = "claudecode/toolUseId"

_log = logging.getLogger("pilothouse.tools")


@runtime_checkable
class ToolHost(Protocol):
    """What the client needs of anything that serves tools over the control channel."""

    @property
    def name(self) -> str:
        """The name the CLI knows the server by: its tools are `mcp__<name>__<tool>`."""
        ...

    async def start(self, on_notification: NotificationHandler | None = None) -> None:
        """Get ready to answer; messages the server sends unasked go to `on_notification`."""
        ...

    async def handle(self, message: JsonObject) -> JsonObject | None:
        """Answer one JSON-RPC message; None where it asks for no answer. Never raises."""
        ...

    async def aclose(self) -> None:
        """Stop. Calls still running are given up."""
        ...


# JSON-RPC


class _Refused(Exception):
    """A request that gets a JSON-RPC error for its answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Call:
    """A JSON-RPC request; a notification when `id` is None."""

    id: RequestId | None
    method: str
    params: JsonObject


def _read_id(message: Any) -> RequestId | None:
    value = cast(JsonObject, message).get("id") if isinstance(message, dict) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _read_call(message: Any) -> _Call | None:
    """The request or notification in `message`; None for a response, which asks for nothing."""
    if not isinstance(message, dict):
        raise _Refused(INVALID_REQUEST, "a message is a JSON object")
    members = cast(JsonObject, message)
    method, params, request_id = members.get("method"), members.get("params"), _read_id(members)
    if method is None and ("result" in members or "error" in members):
        return None
    if not isinstance(method, str):
        raise _Refused(INVALID_REQUEST, "`method` must be a string")
    if "id" in members and request_id is None:
        raise _Refused(INVALID_REQUEST, "`id` must be a string or an integer")
    if params is not None and not isinstance(params, dict):
        raise _Refused(INVALID_PARAMS, "`params` must be an object")
    return _Call(request_id, method, cast(JsonObject, params or {}))


def _cancelled_id(call: _Call) -> RequestId | None:
    """The request that a notification cancels, if that is what it is for."""
    if call.method != "notifications/cancelled":
        return None
    return _read_id({"id": call.params.get("requestId")})


def _reply(request_id: RequestId | None, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: RequestId | None, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _server_name(name: str) -> str:
    # The CLI takes `mcp__<server>__<tool>` apart at the double underscores.
    if not NAME.fullmatch(name) or "__" in name:
        raise ValueError(
            f"{name!r} is no name for a server: 1 to 64 letters, digits, hyphens or"
            " single underscores"
        )
    return name


class ToolServer:
    """Serves tools to the CLI. Several clients may be given one; each works on its own copy."""

    def __init__(
        self,
        tools: Iterable[Tool[..., Any]],
        *,
        name: str,
        version: str = "1.0.0",
        instructions: str | None = None,
    ) -> None:
        self._name = _server_name(name)
        self._version = version
        self._instructions = instructions
        self._tools: dict[str, Tool[..., Any]] = {}
        for each in tools:
            self._add(each)
        self._running: dict[RequestId, list[asyncio.Task[JsonObject]]] = {}
        self._withdrawn: set[asyncio.Task[JsonObject]] = set()

    @property
    def name(self) -> str:
        return self._name

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        return tuple(self._tools.values())

    def copy(self, name: str) -> ToolServer:
        """The same tools under another name, with calls of its own."""
        return ToolServer(
            self.tools, name=name, version=self._version, instructions=self._instructions
        )

    async def start(self, on_notification: NotificationHandler | None = None) -> None:
        """Nothing to start, and nothing is ever sent unasked."""

    async def aclose(self) -> None:
        """Nothing to stop: every call ends with the `handle` that waits for it."""

    async def handle(self, message: JsonObject) -> JsonObject | None:
        """Answer one JSON-RPC message; None where it asks for no answer."""
        try:
            call = _read_call(message)
            if call is None:
                return None
            if call.id is None:
                self._notice(call)
                return None
            return _reply(call.id, await self._answer(call.id, call))
        except _Refused as refused:
            return _error(_read_id(message), refused.code, str(refused))

    def _add(self, each: Tool[..., Any]) -> None:
        if not isinstance(each, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{each!r} is not a tool: decorate it with @tool")
        if each.name in self._tools:
            raise ValueError(f"two tools are named {each.name}")
        self._tools[each.name] = each

    async def _answer(self, request_id: RequestId, call: _Call) -> JsonObject:
        match call.method:
            case "initialize":
                return self._introduce(call.params)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [each.definition() for each in self._tools.values()]}
            case "tools/call":
                return await self._call(request_id, call.params)
            case method:
                raise _Refused(METHOD_NOT_FOUND, f"no such method: {method}")

    def _introduce(self, params: JsonObject) -> JsonObject:
        asked = params.get("protocolVersion")
        introduction: JsonObject = {
            "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._name, "version": self._version},
        }
        if self._instructions is not None:
            introduction["instructions"] = self._instructions
        return introduction

    async def _call(self, request_id: RequestId, params: JsonObject) -> JsonObject:
        name, arguments, meta = (params.get(key) for key in ("name", "arguments", "_meta"))
        called = self._tools.get(name) if isinstance(name, str) else None
        if called is None:
            raise _Refused(INVALID_PARAMS, f"unknown tool: {name}")
        if arguments is not None and not isinstance(arguments, dict):
            raise _Refused(INVALID_PARAMS, "`arguments` must be an object")
        context = self._context(called.name, meta)
        return await self._run(request_id, called.run(cast(JsonObject, arguments or {}), context))

    def _context(self, tool_name: str, meta: Any) -> ToolContext:
        known = cast(JsonObject, meta) if isinstance(meta, dict) else {}
        tool_use_id = known.get(_TOOL_USE_ID)
        return ToolContext(
            server=self._name,
            tool=tool_name,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else None,
            meta=known,
        )

    async def _run(
        self, request_id: RequestId, work: Coroutine[Any, Any, JsonObject]
    ) -> JsonObject:
        """Run a call as a task of its own, so that `notifications/cancelled` can end it.

        That notification is all the CLI sends when a turn is interrupted while a tool runs; the
        control request that carried the call is not withdrawn.
        """
        task = asyncio.create_task(work)
        running = self._running.setdefault(request_id, [])
        running.append(task)
        try:
            return await task
        except asyncio.CancelledError:
            if task in self._withdrawn and not is_being_cancelled():
                raise _Refused(REQUEST_CANCELLED, "cancelled") from None
            raise
        finally:
            self._withdrawn.discard(task)
            running.remove(task)
            if not running:
                del self._running[request_id]

    def _notice(self, call: _Call) -> None:
        request_id = _cancelled_id(call)
        running = [] if request_id is None else self._running.get(request_id, [])
        # A client that connects again counts from 0 again: with two calls of the same number there
        # is no telling which is meant, and ending the wrong one is worse than ending none.
        if len(running) == 1:
            self._withdrawn.add(running[0])
            running[0].cancel()


# Servers of the mcp package


def attach(server: Any, *, name: str | None = None) -> McpBridge:
    """Serve a server object of the `mcp` package (low-level or high-level) to the CLI."""
    return McpBridge(server, name=name)


def tool_hosts(servers: Mapping[str, Any]) -> dict[str, ToolHost]:
    """Hosts for one client, by name; a server's configuration is left to the CLI."""
    return {
        name: _host(_server_name(name), server)
        for name, server in servers.items()
        if not isinstance(server, Mapping)
    }


def _host(name: str, server: Any) -> ToolHost:
    if isinstance(server, ToolServer | McpBridge):
        return server.copy(name)
    return server if isinstance(server, ToolHost) else attach(server, name=name)


class McpBridge:
    """Runs a server of the `mcp` package on streams in memory, for one client."""

    def __init__(self, server: Any, *, name: str | None = None) -> None:
        self._server = _low_level(server)
        self._name = _server_name(name or str(getattr(server, "name", "")))
        self._on_notification: NotificationHandler | None = None
        self._link: _Link | None = None
        self._introduced = False

    @property
    def name(self) -> str:
        return self._name

    def copy(self, name: str) -> McpBridge:
        """The same server under another name, to be run once more."""
        return McpBridge(self._server, name=name)

    async def start(self, on_notification: NotificationHandler | None = None) -> None:
        """Start the server; messages it sends unasked go to `on_notification`."""
        if self._link is not None:
            raise RuntimeError(f"server {self._name} is in use; run a copy() of it")
        self._on_notification = on_notification
        self._open()

    async def aclose(self) -> None:
        """Stop the server. Calls it still owes an answer to get an error."""
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    async def handle(self, message: JsonObject) -> JsonObject | None:
        """Answer one JSON-RPC message; None where it asks for no answer."""
        try:
            call = _read_call(message)
            if call is None:
                return None
            link = await self._link_for(call)
            return await link.carry(call, message)
        except _Refused as refused:
            return _error(_read_id(message), refused.code, str(refused))

    def _open(self) -> _Link:
        self._introduced = False
        self._link = _Link(self._server, self._on_notification)
        return self._link

    async def _link_for(self, call: _Call) -> _Link:
        if self._link is None:
            raise _Refused(INTERNAL_ERROR, f"server {self._name} is not running")
        if call.method != "initialize":
            return self._link
        # A client that introduces itself again (`mcp_reconnect`) expects a fresh server.
        if self._introduced:
            old = self._link
            self._open()
            await old.aclose()
        self._introduced = True
        return self._link


def _low_level(server: Any) -> Any:
    # `_lowlevel_server` is where MCPServer of mcp 2.x keeps it, `_mcp_server` FastMCP of 1.x.
    for attribute in ("_lowlevel_server", "_mcp_server"):
        server = getattr(server, attribute, server)
    if not callable(getattr(server, "create_initialization_options", None)):
        raise TypeError(f"{type(server).__name__} is not a server of the mcp package")
    return server


class _Link:
    """One run of an attached server: its streams, its tasks, and the answers it owes."""

    def __init__(self, server: Any, on_notification: NotificationHandler | None) -> None:
        # Lazy: `mcp` takes over a second to import, and few sessions attach one of its servers.
        anyio = import_module("anyio")
        memory_stream = anyio.create_memory_object_stream
        self._broken = (anyio.BrokenResourceError, anyio.ClosedResourceError)
        self._server = server
        self._on_notification = on_notification
        self._codec = _McpCodec()
        self._owed: dict[RequestId, asyncio.Future[JsonObject]] = {}
        self._outcome = "the server ended"
        self._ended: str | None = None
        self._to_server, server_input = memory_stream(math.inf)
        server_output, self._from_server = memory_stream(math.inf)
        self._serving = asyncio.create_task(self._serve(server_input, server_output))
        self._reading = asyncio.create_task(self._read())

    async def carry(self, call: _Call, message: JsonObject) -> JsonObject | None:
        if call.id in self._owed:
            raise _Refused(INVALID_REQUEST, f"request {call.id} is still being answered")
        try:
            sent = self._send(message)
        except ValueError as error:
            raise _Refused(INVALID_REQUEST, str(error)) from error
        if self._ended is not None or not sent:
            raise _Refused(INTERNAL_ERROR, self._ended or self._outcome)
        if call.id is None:
            self._notice(call)
            return None
        return await self._answer(call.id)

    async def aclose(self) -> None:
        """End the server's input, give it a moment, then end the server."""
        self._end("the server was stopped")
        self._to_server.close()
        await asyncio.wait([self._serving], timeout=SHUTDOWN_GRACE)
        self._serving.cancel()
        await asyncio.wait([self._serving, self._reading], timeout=SHUTDOWN_GRACE)
        self._reading.cancel()
        await asyncio.wait([self._reading], timeout=SHUTDOWN_GRACE)
        self._from_server.close()

    def _send(self, message: JsonObject) -> bool:
        """Whether the server could still be told."""
        item = self._codec.decode(message)
        try:
            self._to_server.send_nowait(item)
        except self._broken:
            return False
        return True

    async def _answer(self, request_id: RequestId) -> JsonObject:
        answer = asyncio.get_running_loop().create_future()
        self._owed[request_id] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            self._send(_cancellation(request_id))
            raise
        finally:
            del self._owed[request_id]

    def _notice(self, call: _Call) -> None:
        """A server does not answer a request that was cancelled: answer in its stead."""
        request_id = _cancelled_id(call)
        if request_id is not None:
            self._settle(_error(request_id, REQUEST_CANCELLED, "cancelled"))

    async def _serve(self, server_input: Any, server_output: Any) -> None:
        # The boundary to the attached server: its failure ends its tools, not the session.
        try:
            options = self._server.create_initialization_options()
            await self._server.run(server_input, server_output, options)
        except Exception as error:  # noqa: BLE001
            self._outcome = f"the server failed: {type(error).__name__}: {error}"
            _log.warning("an attached MCP server failed", exc_info=error)
        finally:
            server_input.close()
            server_output.close()

    async def _read(self) -> None:
        try:
            async for item in self._from_server:
                await self._receive(self._codec.encode(item))
        finally:
            self._end(self._outcome)

    async def _receive(self, message: JsonObject) -> None:
        if "method" not in message:
            self._settle(message)
        elif "id" in message:
            self._decline(message)
        elif self._on_notification is not None:
            await self._pass_on(self._on_notification, message)

    async def _pass_on(self, handler: NotificationHandler, message: JsonObject) -> None:
        # The boundary to the receiver of notifications: answers behind this one must get through.
        try:
            await handler(message)
        except Exception as error:  # noqa: BLE001
            _log.warning("a notification could not be passed on", exc_info=error)

    def _settle(self, message: JsonObject) -> None:
        request_id = _read_id(message)
        answer = None if request_id is None else self._owed.get(request_id)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _decline(self, message: JsonObject) -> None:
        """The CLI offers servers on this channel no capabilities: there is nothing to ask for."""
        request_id = cast(RequestId, message["id"])
        refusal = _error(request_id, METHOD_NOT_FOUND, f"not offered: {message['method']}")
        self._send(_reply(request_id, {}) if message["method"] == "ping" else refusal)

    def _end(self, reason: str) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        for request_id in list(self._owed):
            self._settle(_error(request_id, INTERNAL_ERROR, reason))


def _cancellation(request_id: RequestId) -> JsonObject:
    params = {"requestId": request_id, "reason": "withdrawn"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


class _McpCodec:
    """JSON-RPC as the objects that the `mcp` package puts on its streams."""

    def __init__(self) -> None:
        types = import_module("mcp.types")
        # mcp 1.x has a model for the union of messages, 2.x an adapter.
        adapter = getattr(types, "jsonrpc_message_adapter", None)
        self._validate: Callable[[JsonObject], Any] = (
            types.JSONRPCMessage.model_validate if adapter is None else adapter.validate_python
        )
        self._item: Callable[[Any], Any] = import_module("mcp.shared.message").SessionMessage

    def decode(self, message: JsonObject) -> Any:
        return self._item(self._validate(message))

    def encode(self, item: Any) -> JsonObject:
        return item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
