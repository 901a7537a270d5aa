"""Many clients over streamable HTTP, of both eras, behind one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import RequestId

from .form_push import REACHES

__all__ = ["OverHttp", "open_app"]

IDLE_SECONDS: Final = 30 * 60.0
"""How long a session of the handshake's era may have no request and no open stream."""
MOST_SESSIONS: Final = 1000
GRACE: Final = 2.0


class OverHttp:
    """An ASGI application whose open requests can be ended."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager
        self._open: set[anyio.CancelScope] = set()
        self._left = anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        answer = _Answer(send)
        with self._counted() as ending:
            within = {**scope, REACHES: self._reaches}
            await self._manager.handle_request(within, receive, answer.send)
        if ending.cancelled_caught:
            await answer.end()

    def _reaches(self, session_id: str, call: RequestId | None) -> bool:
        # The SDK drops what it has no stream for, and tells nobody, unless one looks where it does.
        transport = self._manager._server_instances.get(session_id)  # pyright: ignore[reportPrivateUsage]
        if transport is None:
            return False
        streams = transport._request_streams  # pyright: ignore[reportPrivateUsage]
        return (GET_STREAM_KEY if call is None else str(call)) in streams

    @contextmanager
    def _counted(self) -> Generator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                yield scope
            finally:
                self._open.discard(scope)
                self._left.set()

    async def aclose(self) -> None:
        """End every open request, so that a server need not wait for its clients to leave."""
        for scope in list(self._open):
            scope.cancel()
        with anyio.move_on_after(GRACE):
            while self._open:
                self._left = anyio.Event()
                await self._left.wait()


class _Answer:
    """One response, which is ended in order however far it came."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._is_begun = False
        self._is_ended = False

    async def send(self, message: Any) -> None:
        self._is_begun = True
        if message["type"] == "http.response.body":
            self._is_ended = not message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        if not self._is_begun:
            await self._send({"type": "http.response.start", "status": 503, "headers": []})
        if not self._is_ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def open_app(
    server: Server[Any], *, body_limit: int, idle_s: float = IDLE_SECONDS
) -> AsyncGenerator[OverHttp]:
    """Open the application and its clients' sessions for as long as the context lasts.

    It checks neither host nor origin: the guard before it does.
    """
    manager = StreamableHTTPSessionManager(
        server,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        session_idle_timeout=idle_s,
        max_request_body_size=body_limit,
        max_sessions=MOST_SESSIONS,
    )
    async with manager.run():
        app = OverHttp(manager)
        try:
            yield app
        finally:
            # First, because without their sessions they would be left without an answer.
            await app.aclose()
