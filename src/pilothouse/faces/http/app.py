"""The application: the table of operations as routes, behind the guards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.routing import Route, Router, WebSocketRoute

from pilothouse.api import proof
from pilothouse.api.codec import encode_strictly
from pilothouse.api.engine import Engine
from pilothouse.api.operations import OPERATIONS, Operation, OperationCall
from pilothouse.api.queries import ProofQuery

from . import metrics
from .compression import packed
from .document import make_document
from .entrance import ConsoleApp, DoorApp, Entrance, Guests, NameCheck, header, too_large
from .problems import Unacceptable, no_such_method, no_such_path, problem_of, refuse
from .request_values import IDEMPOTENCY_KEY, check_path, read_body, read_query, with_key
from .responses import Answering, HttpAnswer, begin_response, note_status
from .sockets import Sockets
from .streams import (
    Begin,
    Streams,
    begin_conversation,
    begin_events,
    begin_sessions,
    caller_left,
    check_method,
    first_of,
    serve_stream,
    unless,
)
from .traces import Tracing

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Application", "create_app", "end_streams", "read_bytes"]

CONVERSATION = "/api/sessions/{session_id}/conversation"
CASSETTE = "/api/sessions/{session_id}/cassette"
_CASSETTE_HEADERS = ((b"content-type", b"application/jsonl"),)
KEY_HEADER = IDEMPOTENCY_KEY.lower().encode()


AnyRoute = Route | WebSocketRoute


def create_app(
    engine: Engine,
    *,
    token: str,
    hosts: Sequence[str],
    origins: Sequence[str] = (),
    body_limit: int,
    version: str,
    tracer: Tracing | None = None,
    stream_seconds: float | None = None,
    mounts: Mapping[str, ASGIApp] = MappingProxyType({}),
    doors: DoorApp | None = None,
    guests: Guests | None = None,
    console: ConsoleApp | None = None,
) -> Application:
    """An ASGI application that gives an engine to whoever has the token.

    `stream_seconds`: how long an event stream or WebSocket may be open before its reader has to
    come back with its cursor; for ever if left out. `mounts`: other applications behind the same
    checks, each by its path. `doors`: where relays come in at the same address. `guests`: counts
    everybody else. `console`: the page, and the browsers that are signed in to it.
    """
    counted = Counter[tuple[str, str, int]]()
    streams = Streams(stream_seconds)
    answers = _Answers(engine, body_limit, version, token, tracer, streams, counted)
    routes = answers.routes()
    for path, other in mounts.items():
        routes += _both(path, _Mount(other))
    if console is not None:
        routes += [Route(path, _Path(each)) for path, each in console.answers().items()]
    router = Router(
        routes, redirect_slashes=False, default=_nothing_here, lifespan=answers.lifespan
    )
    entrance = Entrance(
        router,
        NameCheck(hosts, origins),
        token=token,
        body_limit=body_limit,
        mounts=mounts,
        tracing=tracer,
        answers=counted,
        doors=doors,
        guests=guests,
        console=console,
    )
    return Application(router, routes, entrance, streams)


def end_streams(app: Application) -> None:
    """End every open stream, so that a server need not wait for its watchers to leave."""
    app.streams.end()


class Application:
    """The engine over HTTP, as an ASGI application."""

    def __init__(
        self, router: Router, routes: Sequence[AnyRoute], entrance: Entrance, streams: Streams
    ) -> None:
        self.routes = routes
        self.streams = streams
        self._router = router
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._router.lifespan(scope, receive, send)
        else:
            await self._entrance(scope, receive, send)


class _Answers:
    """What one application answers, path by path, and what the answers share."""

    def __init__(
        self,
        engine: Engine,
        body_limit: int,
        version: str,
        token: str,
        tracing: Tracing | None,
        streams: Streams,
        counted: Counter[tuple[str, str, int]],
    ) -> None:
        self._engine = engine
        self._body_limit = body_limit
        self._version = version
        self._token = token
        self._tracing = tracing
        self._document: bytes | None = None
        self._streams = streams
        self._counted = counted

    def routes(self) -> list[AnyRoute]:
        methods: dict[str, dict[str, Answering]] = {}
        for operation in OPERATIONS:
            methods.setdefault(operation.path, {})[operation.method] = self._answering(operation)
        methods["/metrics"] = {"GET": self._metrics}
        methods["/openapi.json"] = {"GET": self._openapi}
        methods[proof.PATH] = {"GET": self._prove}
        return [
            # Before the paths with a session's id in them, which would take these for one.
            *self._watching("/api/sessions/stream", "/api/sessions/ws", begin_sessions),
            *(Route(path, _Path(answers)) for path, answers in methods.items()),
            Route(CASSETTE, _Download(self._engine)),
            *self._watching("/api/events/stream", "/api/ws", begin_events),
            *self._watching(f"{CONVERSATION}/stream", f"{CONVERSATION}/ws", begin_conversation),
        ]

    def _watching(self, stream: str, socket: str, begin: Begin) -> list[AnyRoute]:
        sockets = Sockets(self._engine, self._streams, self._tracing, self._body_limit)
        return [
            Route(stream, _Stream(self._engine, self._streams, begin)),
            *_both(socket, _Mount(sockets.serving(begin))),
        ]

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncGenerator[None]:
        yield
        self._streams.end()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def _answering(self, operation: Operation) -> Answering:
        async def answer(scope: Scope, receive: Receive) -> HttpAnswer:
            call = await self._read(operation, scope, receive)
            work = operation.call(self._engine, call)
            if operation.waits:
                work = unless(work, _left(receive), self._streams.ending())
            result = await work
            return HttpAnswer(encode_strictly(result), status=operation.status_of(result))

        return answer

    async def _read(self, operation: Operation, scope: Scope, receive: Receive) -> OperationCall:
        path: dict[str, str] = scope["path_params"]
        check_path(path)
        query = read_query(scope["query_string"], operation.query)
        body = None
        if operation.method != "GET":
            content = await read_bytes(receive, self._body_limit)
            if operation.body is not None:
                empty = b"{}" if operation.body_optional else b""
                body = read_body(scope, content or empty, operation.body)
        if operation.keyed:
            body = with_key(body, header(scope, KEY_HEADER))
        return OperationCall(path, query, body)

    async def _metrics(self, scope: Scope, _: Receive) -> HttpAnswer:
        read_query(scope["query_string"], None)
        text = await metrics.render(
            self._engine, self._counted, self._streams.watchers, self._version
        )
        return HttpAnswer(text.encode(), metrics.CONTENT_TYPE)

    async def _openapi(self, scope: Scope, _: Receive) -> HttpAnswer:
        read_query(scope["query_string"], None)
        if self._document is None:
            self._document = msgspec.json.encode(make_document(self._version))
        return HttpAnswer(self._document)

    async def _prove(self, scope: Scope, _: Receive) -> HttpAnswer:
        """The one path that is open to everybody: the proof that this server knows the token.

        The ends are those of the socket: no header of a caller's may decide what they are.
        """
        query: ProofQuery = read_query(scope["query_string"], ProofQuery)
        made = proof.make_proof(self._token, query.nonce, scope["server"], scope["client"])
        return HttpAnswer(msgspec.json.encode(proof.Proof(made)))


class _Path:
    """One path as an ASGI application; every method of it in one place, so that all are known."""

    def __init__(self, answers: Mapping[str, Answering]) -> None:
        self._answers = answers
        self._allow = ", ".join(sorted({*answers, "OPTIONS"}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = self._answers.get(scope["method"], self._other)
        try:
            answer = await packed(scope, await answering(scope, receive))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, it is told
            await _refuse(scope, send, error)
        else:
            await begin_response(scope, send, answer.status, _headers(answer))
            body = b"" if scope["method"] == "HEAD" else answer.body
            await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _other(self, scope: Scope, _: Receive) -> HttpAnswer:
        if scope["method"] != "OPTIONS":
            raise no_such_method(self._allow)
        return HttpAnswer(b"", media="", status=204, headers=((b"allow", self._allow.encode()),))


def _headers(answer: HttpAnswer) -> tuple[tuple[bytes, bytes], ...]:
    if not answer.media:
        return answer.headers
    return (
        (b"content-type", answer.media.encode()),
        (b"content-length", b"%d" % len(answer.body)),
        *answer.headers,
    )


class _Stream:
    """Server-sent events as an ASGI application."""

    def __init__(self, engine: Engine, streams: Streams, begin: Begin) -> None:
        self._engine = engine
        self._streams = streams
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_method(scope)
            begun = await self._begin(self._engine, scope)
        except Exception as error:  # noqa: BLE001 - the boundary, as above
            await _refuse(scope, send, error)
            return
        await serve_stream(begun, self._streams, scope, receive, send)


class _Download:
    """A session's cassette, which is written while it is read from the journal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id: str = scope["path_params"]["session_id"]
        async with aclosing(self._engine.cassette(session_id)) as pieces:
            try:
                check_method(scope)
                check_path(scope["path_params"])
                read_query(scope["query_string"], None)
                first = await anext(pieces, b"")
            except Exception as error:  # noqa: BLE001 - the boundary, as above
                await _refuse(scope, send, error)
                return
            await begin_response(scope, send, 200, _CASSETTE_HEADERS)
            await first_of(self._send(first, pieces, send), self._wait_until_left(receive))

    async def _wait_until_left(self, receive: Receive) -> None:
        # The answer has begun: nobody is told any more why it ends.
        await _left(receive)

    async def _send(self, piece: bytes, pieces: AsyncGenerator[bytes], send: Send) -> None:
        # The socket takes a piece before the next is read.
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        async for each in pieces:
            await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Mount:
    """Another application at a path of its own; what it fails with is told, if it still can be."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_begun = False

        async def noting(message: Any) -> None:
            nonlocal is_begun
            is_begun = True
            if message["type"] == "http.response.start":
                note_status(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:
            if is_begun:
                raise
            await _refuse(scope, send, error)


def _both(path: str, app: _Mount) -> list[AnyRoute]:
    """The routes to an application that takes WebSockets as well."""
    return [Route(path, app), WebSocketRoute(path, app)]


async def _nothing_here(scope: Scope, _: Receive, send: Send) -> None:
    await _refuse(scope, send, no_such_path())


async def _refuse(scope: Scope, send: Send, error: Exception) -> None:
    headers = error.headers if isinstance(error, Unacceptable) else None
    await refuse(scope, send, problem_of(error), headers)


async def _left(receive: Receive) -> Unacceptable:
    """Wait until the caller is gone. Its request has been read."""
    while (await receive())["type"] != "http.disconnect":
        continue
    return caller_left()


async def read_bytes(receive: Receive, limit: int) -> bytes:
    """The whole body. One without an announced length is counted as it comes."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise Unacceptable(400, "disconnected", "the caller left before the body was complete")
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)
