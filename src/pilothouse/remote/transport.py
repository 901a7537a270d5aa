"""httpx over connections on which the server has proved itself."""

from __future__ import annotations

import asyncio
import select
from contextlib import suppress
from typing import Any, Final

import httpcore
import httpx

from .proven_connection import dial

__all__ = ["ProvenTransport"]

KEPT_SECONDS: Final = 5.0
"""How long an idle connection is kept; uvicorn ends it then as well."""


class ProvenTransport(httpx.AsyncBaseTransport):
    """Carries the requests to one server at an `http` address, whole answers only.

    httpx lets nobody make its connections; the pool that it stands on does.
    """

    def __init__(self, address: str, token: str) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            keepalive_expiry=KEPT_SECONDS,
            network_backend=_Backend(address, token),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        try:
            answer = await self._pool.request(
                request.method,
                httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.content or None,
                extensions=request.extensions,
            )
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise httpx.TransportError(str(error) or type(error).__name__) from error
        return httpx.Response(answer.status, headers=answer.headers, content=answer.content)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Backend(httpcore.AsyncNetworkBackend):
    """Makes every connection of a pool."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the name is httpcore's
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            own = await dial(self._address, self._token)
            return _Stream(*await asyncio.open_connection(sock=own))
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error


class _Stream(httpcore.AsyncNetworkStream):
    """A connection of asyncio's, as httpcore wants it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the name is httpcore's
    ) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(f"no answer within {timeout} s") from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - the name is httpcore's
    ) -> None:
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(f"not taken within {timeout} s") from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def get_extra_info(self, info: str) -> Any:
        """Whether there is something to read: an idle connection of which that holds has ended."""
        if info != "is_readable":
            return None
        if self._reader.at_eof() or self._writer.is_closing():
            return True
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket"), select.POLLIN)
        return bool(poll.poll(0))
