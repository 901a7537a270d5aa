"""The application: the table of operations on Litestar, behind the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, asgi, route
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, ControllerRouterHandler, Method, Receive, Scope, Send

from pilothouse.api import proof
from pilothouse.api.codec import encode_strictly
from pilothouse.api.engine import Engine
from pilothouse.api.operations import OPERATIONS, Call, Operation
from pilothouse.api.problems import PROBLEM

from . import metrics
from .document import make_document
from .guard import Guard, NameGuard, header
from .observing import Observed
from .problems import Unacceptable, problem_of
from .proving import prover
from .reading import IDEMPOTENCY_KEY, check_path, read_body, read_query, with_key
from .sockets import Sockets
from .streams import Streams, caller_left, serve_events, unless
from .tracing import Tracing

__all__ = ["create_app", "end_streams"]

JSON = "application/json"


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
) -> Litestar:
    """An ASGI application that gives an engine to whoever has the token.

    `stream_seconds`: how long an event stream or WebSocket may be open before its reader has to
    come back with its cursor; for ever if left out. `mounts`: other applications behind the same
    guard, each by its path.
    """
    face = _Face(engine, body_limit, version, tracer, Streams(stream_seconds))
    app = Litestar(
        [
            *face.handlers(),
            _get(proof.PATH, prover(token)),
            *(_mounted(path, other) for path, other in mounts.items()),
        ],
        openapi_config=None,
        logging_config=None,
        exception_handlers={Exception: _answer_error},
        on_shutdown=[face.aclose],
    )
    app.state["streams"] = face.streams
    # Litestar's own middleware sees no request that matches no route; these have to see all.
    guard = Guard(app.asgi_handler, token=token, body_limit=body_limit, mounts=mounts)
    app.asgi_handler = face.observe(NameGuard(guard, hosts=hosts, origins=origins))
    return app


def end_streams(app: Litestar) -> None:
    """End every open stream, so that a server need not wait for its watchers to leave."""
    app.state["streams"].end()


def _answer_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    problem = problem_of(error)
    headers = error.headers if isinstance(error, Unacceptable | HTTPException) else None
    body = encode_strictly(problem)
    return Response(body, status_code=problem.status, media_type=PROBLEM, headers=headers)


class _Face:
    """The handlers of one application, and what they share."""

    def __init__(
        self,
        engine: Engine,
        body_limit: int,
        version: str,
        tracing: Tracing | None,
        streams: Streams,
    ) -> None:
        self._engine = engine
        self._body_limit = body_limit
        self._version = version
        self._tracing = tracing
        self._observed: Observed | None = None
        self._document: bytes | None = None
        self.streams = streams

    def observe(self, app: Any) -> Observed:
        self._observed = Observed(app, self._tracing)
        return self._observed

    def handlers(self) -> list[ControllerRouterHandler]:
        plain = [
            _get("/metrics", self._metrics),
            _get("/openapi.json", self._openapi),
        ]
        paths = dict.fromkeys(operation.path for operation in OPERATIONS)
        return [*map(self._handler, paths), *plain, self._stream(), self._socket()]

    async def aclose(self) -> None:
        self.streams.end()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def _handler(self, path: str) -> ControllerRouterHandler:
        """All methods of a path in one handler: so Litestar's own `OPTIONS` knows them all."""
        here = [each for each in OPERATIONS if each.path == path]
        taken: list[Method] = [each.method for each in here]
        methods: dict[str, Operation] = {each.method: each for each in here}

        async def serve(request: Request[Any, Any, Any]) -> Response[bytes]:
            operation = methods[request.method]
            call = await self._read(operation, request)
            work = operation.call(self._engine, call)
            if operation.waits:
                work = unless(work, _left(request.receive), self.streams.ending())
            result = await work
            body = encode_strictly(result)
            status = operation.status_of(result)
            return Response(body, status_code=status, media_type=JSON)

        return route(path.replace("}", ":str}"), http_method=taken, status_code=200)(serve)

    async def _read(self, operation: Operation, request: Request[Any, Any, Any]) -> Call:
        scope = request.scope
        path: dict[str, str] = dict(request.path_params)
        check_path(path)
        query = read_query(scope["query_string"], operation.query)
        body = None
        if operation.method != "GET":
            body = await read_body(
                scope,
                request.receive,
                operation.body,
                self._body_limit,
                empty=b"{}" if operation.body_optional else b"",
            )
        if operation.keyed:
            body = with_key(body, header(scope, IDEMPOTENCY_KEY.lower().encode()))
        return Call(path, query, body)

    async def _metrics(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        read_query(request.scope["query_string"], None)
        assert self._observed is not None
        text = await metrics.render(
            self._engine, self._observed.answers, self.streams.watchers, self._version
        )
        return Response(text.encode(), media_type=metrics.CONTENT_TYPE)

    async def _openapi(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        read_query(request.scope["query_string"], None)
        if self._document is None:
            self._document = msgspec.json.encode(make_document(self._version))
        return Response(self._document, media_type=JSON)

    def _stream(self) -> ControllerRouterHandler:
        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            await serve_events(self._engine, self.streams, scope, receive, send)

        return asgi("/api/events/stream", name="stream", copy_scope=False)(stream)

    def _socket(self) -> ControllerRouterHandler:
        async def socket(scope: Scope, receive: Receive, send: Send) -> None:
            sockets = Sockets(self._engine, self.streams, self._tracing, self._body_limit)
            await sockets.serve(scope, receive, send)

        return asgi("/api/ws", name="socket", copy_scope=False)(socket)


async def _left(receive: Receive) -> Unacceptable:
    """Wait until the caller is gone. Its request has been read."""
    while (await receive())["type"] != "http.disconnect":
        continue
    return caller_left()


def _mounted(path: str, other: ASGIApp) -> ControllerRouterHandler:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await other(scope, receive, send)

    return asgi(path, copy_scope=False)(serve)


def _get(path: str, answer: Any) -> ControllerRouterHandler:
    async def serve(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await answer(request)

    return route(path, http_method=["GET"])(serve)
