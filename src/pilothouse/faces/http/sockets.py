"""The WebSockets: events or patches one way, requests and their answers the other.

A request is `{"id": 1, "do": "say", "session_id": "...", "content": "..."}`: `do` is the name of
an operation of the API, the rest its parameters and the members of its body. It is answered with
`{"type": "done", "id": 1, "result": ...}` or `{"type": "failed", "id": 1, "problem": ...}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from pilothouse.api.codec import TooManyParts, check_parts, encode_strictly
from pilothouse.api.engine import Engine
from pilothouse.api.frames import SUBPROTOCOL, TOKEN_PREFIX, Done, Failed
from pilothouse.api.operations import OPERATIONS, Operation, OperationCall
from pilothouse.errors import PilothouseError

from .entrance import signed_out, subprotocols, too_large
from .frames import Piece, ws_frame
from .problems import Unacceptable, problem_of, refuse
from .request_values import check_path, to_type
from .streams import Begin, Begun, Streams, caller_left, check_method, first_of, pump, unless

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .traces import Tracing

__all__ = ["Sockets"]

AT_ONCE: Final = 32
"""How many requests of one socket may be under way; more are read when one is done."""
WAITING: Final = 100
"""How many more may wait for somebody's answer; whatever is beyond is refused."""

DOABLE: Final = {operation.name: operation for operation in OPERATIONS}


class _Asked(Struct, frozen=True):
    id: str | int
    do: str


class Sockets:
    """What every WebSocket of an application shares."""

    def __init__(
        self, engine: Engine, streams: Streams, tracing: Tracing | None, limit: int
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._tracing = tracing
        self._limit = limit

    def serving(self, begin: Begin) -> ASGIApp:
        """Return what serves the sockets of one path: they have the streams that begin so."""
        return functools.partial(self._serve, begin)

    async def _serve(self, begin: Begin, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one, from the handshake to the close."""
        if scope["type"] == "http":
            check_method(scope)
            raise _no_websocket()
        try:
            begun = await begin(self._engine, scope)
        except (PilothouseError, Unacceptable) as error:
            await refuse(scope, send, problem_of(error))
            return
        await receive()  # websocket.connect
        accept: Any = {"type": "websocket.accept", "subprotocol": _subprotocol(scope)}
        await send(accept)
        socket = _Socket(self._engine, receive, send, self._tracing, self._limit)
        with self._streams.one():
            await socket.serve(begun, self._streams.end_of_one(), signed_out(scope))


def _no_websocket() -> Unacceptable:
    return Unacceptable(
        426,
        "upgrade-required",
        "this path is for WebSockets",
        advice="open it with a WebSocket, or read the same as server-sent events at .../stream",
        headers={"upgrade": "websocket", "connection": "upgrade"},
    )


def _subprotocol(scope: Scope) -> str | None:
    """A browser wants one of those it offered; the one without the token, if it can be."""
    offered = subprotocols(scope)
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    return next((each for each in offered if each.startswith(TOKEN_PREFIX)), None)


class _Socket:
    """One accepted WebSocket."""

    def __init__(
        self, engine: Engine, receive: Receive, send: Send, tracing: Tracing | None, limit: int
    ) -> None:
        self._engine = engine
        self._receive = receive
        self._send = send
        self._tracing = tracing
        self._limit = limit
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._over = asyncio.Event()

    async def serve(self, begun: Begun, *ends: Coroutine[Any, Any, None]) -> None:
        # Tells where the stream begins, so that a watcher which saw nothing yet can come back.
        await self._give(begun.first)
        code = 1001
        # What was asked for goes on to its end although its caller has left.
        async with asyncio.TaskGroup() as asked:
            try:
                await first_of(pump(begun.rest, self._give), self._listen(asked), *ends)
            except OSError:
                return
            except PilothouseError as error:
                code = 1011
                await self._say(Failed(problem=problem_of(error)))
            finally:
                self._over.set()
            with contextlib.suppress(OSError, RuntimeError):
                await self._send({"type": "websocket.close", "code": code, "reason": ""})

    async def _give(self, piece: Piece) -> None:
        text = ws_frame(piece)
        await self._send({"type": "websocket.send", "text": text, "bytes": None})

    async def _listen(self, asked: asyncio.TaskGroup) -> None:
        while True:
            message: Any = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._free.acquire()
            asked.create_task(self._do(message.get("text") or message.get("bytes") or ""))

    async def _do(self, text: str | bytes) -> None:
        try:
            await self._say(await self._outcome(text))
        finally:
            self._free.release()

    async def _say(self, frame: Done | Failed) -> None:
        text = encode_strictly(frame).decode()
        # The caller may have left meanwhile; what it asked for is done all the same.
        with contextlib.suppress(OSError, RuntimeError):
            await self._send({"type": "websocket.send", "text": text, "bytes": None})

    async def _outcome(self, text: str | bytes) -> Done | Failed:
        asked: _Asked | None = None
        try:
            members = _members(text, self._limit)
            asked = request = _asked(members)
            operation = _find(request.do)
            call = _call_of(operation, members)
            result = await self._traced(operation, lambda: self._done(operation, call))
            return Done(id=request.id, result=Raw(encode_strictly(result)))
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not end the rest
            return Failed(id=asked.id if asked else None, problem=problem_of(error))

    async def _done(self, operation: Operation, call: OperationCall) -> Any:
        if not operation.waits:
            return await operation.call(self._engine, call)
        async with self._aside():
            return await unless(operation.call(self._engine, call), self._ended())

    @contextlib.asynccontextmanager
    async def _aside(self) -> AsyncGenerator[None]:
        """Let others be done while this one waits, so that the answer can come on this socket."""
        if self._waiting >= WAITING:
            raise Unacceptable(
                429,
                "too-many-waiting",
                f"{self._waiting} requests of this socket wait for an answer",
                advice="let some of them end, wait for less long, or open another socket",
            )
        self._waiting += 1
        self._free.release()
        try:
            yield
        finally:
            self._waiting -= 1
            await self._free.acquire()

    async def _ended(self) -> Unacceptable:
        await self._over.wait()
        return caller_left()

    async def _traced(self, operation: Operation, act: Callable[[], Awaitable[Any]]) -> Any:
        if self._tracing is None:
            return await act()
        with self._tracing.action(operation.name):
            return await act()


def _members(text: str | bytes, limit: int) -> dict[str, Any]:
    if len(text) > limit:
        raise too_large(limit)
    try:
        check_parts(text.encode(errors="replace") if isinstance(text, str) else text)
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TooManyParts) as error:
        raise Unacceptable(
            400, "malformed", f"the frame is no JSON object: {error}", advice="send JSON objects"
        ) from None


def _asked(members: dict[str, Any]) -> _Asked:
    return to_type(members, _Asked, "the frame")


def _find(name: str) -> Operation:
    if operation := DOABLE.get(name):
        return operation
    raise Unacceptable(
        422, "invalid", "there is nothing of that name to `do`", advice="see /openapi.json"
    )


def _call_of(operation: Operation, members: dict[str, Any]) -> OperationCall:
    """Share out the members of a frame among the parameters of a path, of a query, and a body."""
    rest = {name: value for name, value in members.items() if name not in ("id", "do")}
    path = {name: rest.pop(name, "") for name in operation.parameters}
    check_path(to_type(path, dict[str, str], "the frame"))
    query: Any = None
    if operation.query is not None:
        names = operation.query.__struct_fields__
        given = {name: rest.pop(name) for name in names if name in rest}
        query = to_type(given, operation.query, "the frame")
    if operation.body is None and rest:
        raise Unacceptable(
            422, "invalid", f"the frame has members that are not known: {', '.join(sorted(rest))}"
        )
    body = None if operation.body is None else to_type(rest, operation.body, "the frame")
    return OperationCall(path, query, body)
