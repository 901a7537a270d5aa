"""HTTP requests to one server, and the errors that its answers mean."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pilothouse.api.problems import PROBLEM, Problem, error_from
from pilothouse.errors import PilothouseError, ServerError

if TYPE_CHECKING:
    import ssl

    import httpx
    from websockets.asyncio.client import ClientConnection

__all__ = ["HttpClient", "meant_by"]

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 300.0
"""A verb may wait for a CLI to start, or for a control request; the server's limits are lower."""
GONE: Final = "start it with `pilothouse serve`, or check the address"


class HttpClient:
    """A client of one server. It imports httpx and connects on first use."""

    def __init__(self, address: str, token: str, tls: ssl.SSLContext | None) -> None:
        self.address = address.rstrip("/")
        self.token = token
        self.tls = tls
        self.closed = False
        self.sockets: set[ClientConnection] = set()
        """Those that watch; closed with this."""
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        also: int = 0,
    ) -> T:
        """Return the answer as this type. `also` is a status other than 2xx that is an answer."""
        response = await self._send(method, path, body, query)
        told = response.status_code == also and not _is_problem(response.headers)
        if not response.is_success and not told:
            raise meant_by(response.status_code, response.headers, response.content)
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ServerError(
                f"the server at {self.address} answers in an unknown way ({error}); "
                "check that it and this program are of one version"
            ) from error

    async def stream(self, path: str) -> AsyncGenerator[bytes]:
        """Yield an answer piece by piece. One that breaks off is an error."""
        import httpx

        try:
            async with self._http().stream("GET", path) as response:
                if not response.is_success:
                    content = await response.aread()
                    raise meant_by(response.status_code, response.headers, content)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.HTTPError as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> ServerError:
        reason = str(error) or type(error).__name__
        return ServerError(f"the server at {self.address} cannot be reached ({reason}); {GONE}")

    async def _send(
        self, method: str, path: str, body: Any, query: Mapping[str, Any] | None
    ) -> httpx.Response:
        import httpx

        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            return await self._http().request(
                method, path, content=content, headers=headers, params=_written(query)
            )
        except httpx.HTTPError as error:
            raise self._away(error) from error

    def _http(self) -> httpx.AsyncClient:
        # Imported late: who watches nothing and asks nothing does not pay for it.
        import httpx

        if self.closed:
            raise ServerError(f"this engine at {self.address} is closed")
        if self._client is None:
            secure = self.address.startswith("https:")
            self._client = httpx.AsyncClient(
                base_url=self.address,
                headers={"authorization": f"Bearer {self.token}"},
                timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None),
                # The token goes to this server alone: to no proxy of the environment's.
                trust_env=False,
                verify=self.tls if self.tls is not None else secure,
                transport=None if secure else self._proven(),
            )
        return self._client

    def _proven(self) -> httpx.AsyncBaseTransport:
        """Return a transport on which the server proves itself: there is no certificate."""
        from .transport import ProvenTransport

        return ProvenTransport(self.address, self.token)

    async def aclose(self) -> None:
        self.closed = True
        for socket in tuple(self.sockets):
            await socket.close()
        if self._client is not None:
            await self._client.aclose()


def meant_by(status: int, headers: Mapping[str, str], content: bytes) -> PilothouseError:
    """Return the error that a server's answer means."""
    if _is_problem(headers):
        try:
            return error_from(msgspec.json.decode(content, type=Problem))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
    return ServerError(f"the server answered with status {status} and no reason")


def _is_problem(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith(PROBLEM)


def _written(query: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return parameters as text, without those that are None."""
    if query is None:
        return None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }
