"""What passes through: counted for `/metrics`, and traced when that is configured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .tracing import Tracing

__all__ = ["Observed", "route_of"]


class Observed:
    """An ASGI application that notes how another one answers."""

    def __init__(
        self, app: ASGIApp, tracing: Tracing | None, answers: Counter[tuple[str, str, int]]
    ) -> None:
        """`answers`: how often each method of each route was answered with each status."""
        self._app = app
        self._tracing = tracing
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._tracing is None:
            await self._count(scope, receive, send)
        else:
            await self._trace(self._tracing, scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"])
            await send(message)

        await self._app(scope, receive, noting)

    async def _trace(self, tracing: Tracing, scope: Scope, receive: Receive, send: Send) -> None:
        method = _method(scope)
        carried = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with tracing.request(method, carried) as span:

            async def noting(message: Any) -> None:
                if message["type"] == "http.response.start":
                    self._note(scope, message["status"])
                    # A stream has no end of its own: its span is the time until it begins.
                    tracing.answered(span, method, route_of(scope), message["status"])
                await send(message)

            await self._app(scope, receive, noting)

    def _note(self, scope: Scope, status: int) -> None:
        self._answers[_method(scope), route_of(scope), status] += 1


def _method(scope: Any) -> str:
    """Callers may make methods up: those are counted as one."""
    method = str(scope["method"])
    known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return method if method in known else "OTHER"


def route_of(scope: Any) -> str:
    """The path as the API's document has it; callers may make paths up: those are one."""
    route = scope.get("route")
    return "unmatched" if route is None else str(route.path)
