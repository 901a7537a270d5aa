"""One client over a pair of pipes, to its end: a line is a JSON-RPC message.

Both pipes are used only when they are ready, and are never made non-blocking: they are shared with
whoever started this process. So no thread is ever stuck in one of them, and the end is prompt.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple, cast

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
KEPT: Final = 1024
"""Bytes of a line that is too long: enough to see whose answer it wants."""
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
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, reading, longest, incoming, answers.clone())
            tasks.start_soon(_write, writing, outgoing, tasks.cancel_scope)
            await server.run(requests, answers, options)
            # A client that is there but does not read keeps nobody here.
            tasks.cancel_scope.deadline = anyio.current_time() + GRACE
    except* anyio.BrokenResourceError:
        # A message came while the serving was being ended: the library passes it on to nobody.
        log.debug("a message came too late")


# What the client says


async def _read(
    descriptor: int,
    longest: int,
    incoming: ObjectSendStream[SessionMessage | Exception],
    answers: Sent,
) -> None:
    lines = LineSplitter(longest)
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
    line: bytes | TooLong,
    longest: int,
    incoming: ObjectSendStream[SessionMessage | Exception],
    answers: Sent,
) -> None:
    if isinstance(line, TooLong):
        told = f"a line may have {longest} bytes at most (the setting body_limit)"
        message = _refused(_seen(line.beginning), types.INVALID_REQUEST, told)
    else:
        message = read_message(line)
    if isinstance(message, SessionMessage):
        if isinstance(message.message, types.JSONRPCError) and message.message.id is None:
            return  # it could not read something of ours; there is nothing to add
        await incoming.send(message)
    elif message is not None:
        await answers.send(SessionMessage(message))


class TooLong(NamedTuple):
    """A line of which the beginning alone was kept."""

    beginning: bytes


class LineSplitter:
    """Cuts bytes into lines; of one that is too long next to nothing is kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._is_too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._end()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if not self._is_too_long and len(self._begun) + len(piece) > self._longest:
            self._is_too_long = True
            del self._begun[KEPT:]
        room = KEPT - len(self._begun) if self._is_too_long else len(piece)
        self._begun += piece[: max(room, 0)]

    def _end(self) -> bytes | TooLong:
        line = bytes(self._begun)
        ended = TooLong(line) if self._is_too_long else line
        self._begun.clear()
        self._is_too_long = False
        return ended


def read_message(line: bytes) -> Read:
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


Read = SessionMessage | types.JSONRPCError | None


def _fault(line: bytes) -> Read:
    try:
        given = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = "Parse error: a line is one JSON-RPC message"
        return _refused(_read_leniently(line), types.PARSE_ERROR, told)
    told = "Invalid request: jsonrpc, id, method or params is not what JSON-RPC 2.0 has there"
    return _refused(_object(given), types.INVALID_REQUEST, told)


def _refused(members: dict[str, Any], code: int, told: str) -> Read:
    """What becomes of a message with these members: who asks is answered, by its id if it has one.

    Who answers wrongly is not, or two of a kind would never end. But whoever waits here for that
    answer gets no other, and learns of it.
    """
    known = members.get("id")
    request_id = known if isinstance(known, str | int) and not isinstance(known, bool) else None
    error = _error(request_id, code, told)
    if "method" in members or not members.keys() & {"result", "error"}:
        return error
    return None if request_id is None else SessionMessage(error)


def _read_leniently(line: bytes) -> dict[str, Any]:
    try:
        # It takes halves of surrogate pairs.
        return _object(json.loads(line))
    except (ValueError, RecursionError):
        return _seen(line[:KEPT])


def _object(given: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,"]|[^\s{}\[\]:,"]+')


def _seen(beginning: bytes) -> dict[str, Any]:
    """The members of an object that the beginning of a line shows.

    Nothing, if it does not show whether it asks or answers: both have ids, of different people.
    """
    found: dict[str, Any] = {}
    depth, name, is_value = 0, b"", False
    for each in TOKEN.finditer(beginning):
        token = each[0]
        if token == b'"' or each.end() == len(beginning):
            break  # it may go on
        if is_value:
            found.setdefault(str(_plain(name)), _plain(token))
        is_value = depth == 1 and token == b":"
        name = name if is_value else token
        depth += (token in b"{[") - (token in b"}]")
    return found if found.keys() & {"method", "result", "error"} else {}


def _plain(token: bytes) -> str | int | None:
    try:
        return msgspec.json.decode(token, type=str | int)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _members(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


def _error(request_id: str | int | None, code: int, told: str) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=told)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


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
