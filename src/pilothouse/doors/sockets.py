"""One WebSocket, as ASGI servers hand it over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

__all__ = ["ADMIT", "Receive", "Scope", "Send", "Socket", "admit"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]

ADMIT: Final = "pilothouse.admit"
"""In `scope["state"]`: what to call once a token was shown. Only our own listener puts it there."""

# uvicorn raises a RuntimeError for a connection that it has closed itself.
GONE: Final = (OSError, RuntimeError)
BROKEN: Final = 1006
TOO_LONG: Final = 1009
LONGEST_REASON: Final = 120
"""A close frame has room for 123 bytes of it."""


def admit(scope: Any) -> None:
    """Note that whoever has this connection is no stranger: its limits are lifted."""
    state: dict[str, Any] = scope.get("state") or {}
    if (note := state.get(ADMIT)) is not None:
        note()


class Socket:
    """An incoming WebSocket: accept or refuse it, then receive, send and close."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self._receive = receive
        self._send = send
        self._closed = False
        self.close_code: int | None = None
        """With what the peer has closed it, or why it broke; None while it is open."""

    @property
    def was_too_long(self) -> bool:
        """Whether it has ended because the peer sent more at once than is taken."""
        return self.close_code == TOO_LONG

    @property
    def bearer(self) -> str:
        """The token it came with; empty if there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    async def accept(self) -> bool:
        """Open it, for one that has shown a token; False if the peer has left already."""
        admit(self._scope)
        if (await self._receive())["type"] != "websocket.connect":
            self._closed = True
            return False
        await self._send({"type": "websocket.accept"})
        return True

    async def refuse(
        self, status: int, headers: Mapping[str, str] | None = None, *, because: str = ""
    ) -> None:
        """Turn it away before it is open, with an HTTP status and a sentence as its body."""
        if (await self._receive())["type"] == "websocket.connect":
            for message in self._refusal(status, headers or {}, because):
                await self._send(message)
        self._closed = True

    def _refusal(self, status: int, headers: Mapping[str, str], because: str) -> list[Scope]:
        if "websocket.http.response" not in (self._scope.get("extensions") or {}):
            # All that such a server can say, which it does with 403.
            return [{"type": "websocket.close"}]
        body = f"{because}\n".encode() if because else b""
        kind = {"content-type": "text/plain; charset=utf-8"} if because else {}
        given = {"content-length": str(len(body)), **kind, **headers}
        raw = [(name.encode(), value.encode()) for name, value in given.items()]
        start = {"type": "websocket.http.response.start", "status": status, "headers": raw}
        return [start, {"type": "websocket.http.response.body", "body": body}]

    async def receive(self) -> bytes | str | None:
        """The next message; None once the peer is gone."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            self.close_code = message.get("code", BROKEN)
            return None
        data = message.get("bytes")
        return data if data is not None else message["text"]

    async def send(self, data: bytes | str) -> None:
        """Send one message. To a peer that is gone it goes nowhere, and `receive` tells so."""
        if self._closed:
            return
        kind = "bytes" if isinstance(data, bytes) else "text"
        try:
            await self._send({"type": "websocket.send", kind: data})
        except GONE:
            self._closed = True

    async def close(self, code: int, reason: str = "") -> None:
        """Send it away with a code; repeated calls do nothing."""
        if self._closed:
            return
        self._closed = True
        told = reason.encode()[:LONGEST_REASON].decode(errors="ignore")
        try:
            await self._send({"type": "websocket.close", "code": int(code), "reason": told})
        except GONE:
            return
