"""One client over a pair of pipes, to its end: a line is a JSON-RPC message.

Both pipes are used only when they are ready, and are never made non-blocking: they are shared with
whoever started this process. So no thread is ever stuck in one of them, and the end is prompt.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import mcp_types as types
import msgspec
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

__all__ = ["serve"]

CHUNK: Final = 1 << 16
GRACE: Final = 2.0
"""How long the last messages may take to be read once everything else has ended."""

log = logging.getLogger("pilothouse.mcp")

Sent = ObjectSendStream[SessionMessage]


async def serve(server: Server[Any], reading: int, writing: int, *, longest: int) -> None:
    """Serve the client behind two descriptors until it goes away.

    A line longer than `longest` bytes is refused, and never held in memory.
    """
    incoming, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    options = server.create_initialization_options()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reading, longest, incoming, answers.clone())
        tasks.start_soon(_write, writing, outgoing, tasks.cancel_scope)
        await server.run(requests, answers, options)
        # A client that is there but does not read keeps nobody here.
        tasks.cancel_scope.deadline = anyio.current_time() + GRACE


# What the client says


async def _read(
    descriptor: int,
    longest: int,
    incoming: ObjectSendStream[SessionMessage | Exception],
    answers: Sent,
) -> None:
    lines = Lines(longest)
    async with incoming, answers:
        try:
            while chunk := await _next_chunk(descriptor):
                for line in lines.feed(chunk):
                    await _take(line, longest, incoming, answers)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # Nobody serves any more.
            return


async def _next_chunk(descriptor: int) -> bytes:
    """What has come; nothing at the end."""
    await _ready(anyio.wait_readable, descriptor)
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""


async def _take(
    line: bytes | None,
    longest: int,
    incoming: ObjectSendStream[SessionMessage | Exception],
    answers: Sent,
) -> None:
    if line is None:
        told = f"a line may have {longest} bytes at most (the setting body_limit)"
        await answers.send(_refusal(None, types.INVALID_REQUEST, told))
        return
    message = read_message(line)
    if isinstance(message, SessionMessage):
        if isinstance(message.message, types.JSONRPCError) and message.message.id is None:
            return  # it could not read something of ours; there is nothing to add
        await incoming.send(message)
    elif message is not None:
        await answers.send(SessionMessage(message))


class Lines:
    """Cuts bytes into lines; one that is too long is None, and so is nothing of it kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._is_too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._end()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._longest:
            self._is_too_long = True
            self._begun.clear()
        if not self._is_too_long:
            self._begun += piece

    def _end(self) -> bytes | None:
        line = None if self._is_too_long else bytes(self._begun)
        self._begun.clear()
        self._is_too_long = False
        return line


def read_message(line: bytes) -> SessionMessage | types.JSONRPCError | None:
    """A message, the answer to what is none, or None where nothing is to be said."""
    if not line.strip():
        return None
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _fault(line)
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line:
        # A request whose id is of a wrong type reads as a notification.
        return _fault(line) if "id" in _members(line) else SessionMessage(message)
    return SessionMessage(message)


def _fault(line: bytes) -> types.JSONRPCError | None:
    try:
        given = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error(None, types.PARSE_ERROR, "Parse error: a line is one JSON-RPC message")
    members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if "method" not in members and ("result" in members or "error" in members):
        # Who answers wrongly is not answered, or two of a kind would never end.
        return None
    known = members.get("id")
    request_id = known if isinstance(known, str | int) and not isinstance(known, bool) else None
    told = "Invalid request: jsonrpc, id, method or params is not what JSON-RPC 2.0 has there"
    return _error(request_id, types.INVALID_REQUEST, told)


def _members(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


def _error(request_id: str | int | None, code: int, told: str) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=told)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _refusal(request_id: str | int | None, code: int, told: str) -> SessionMessage:
    return SessionMessage(_error(request_id, code, told))


# What the client is told


async def _write(
    descriptor: int, outgoing: ObjectReceiveStream[SessionMessage], scope: anyio.CancelScope
) -> None:
    async with outgoing:
        try:
            async for message in outgoing:
                await _write_all(descriptor, memoryview(_line(message.message)))
        except OSError:
            # Nobody reads any more.
            scope.cancel()


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        # Half a surrogate pair, say: one answer fails and not the connection.
        known = message.id if isinstance(message, types.JSONRPCResponse) else None
        log.exception("a message cannot be written")
        return _line(_error(known, types.INTERNAL_ERROR, "the answer cannot be written as JSON"))


async def _write_all(descriptor: int, rest: memoryview) -> None:
    while rest:
        await _ready(anyio.wait_writable, descriptor)
        # As much as a pipe that is ready takes without blocking.
        rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]


async def _ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:
        # A file is always ready, and epoll refuses to wait for it.
        await anyio.lowlevel.checkpoint()
