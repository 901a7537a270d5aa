"""One WebSocket connection to the server: bytes of text in, lines out, and how it closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from websockets.uri import WebSocketURI

__all__ = ["LinkRefused", "SdkUrlLink", "User", "dial"]

_LOST: Final = 1006
_TEXT: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class LinkRefused(Exception):
    """The server answered the upgrade with another HTTP status than 101."""


class User(Protocol):
    """Whom a link tells. Called from the event loop, in order."""

    def link_opened(self, link: SdkUrlLink) -> None:
        """Take the link, which now sends."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take some bytes of the server's lines, cut anywhere."""
        ...


async def dial(
    url: str,
    headers: Mapping[str, str],
    user: User,
    tls: Callable[[], ssl.SSLContext],
) -> SdkUrlLink:
    """Open a connection; raises `LinkRefused`, or `OSError` when there is no WebSocket server."""
    uri = parse_uri(url)
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(
        lambda: SdkUrlLink(uri, headers, user),
        uri.host,
        uri.port,
        ssl=tls() if uri.secure else None,
    )
    try:
        await link.opened
    except BaseException:
        link.abort()
        raise
    return link


class SdkUrlLink(asyncio.Protocol):
    """A client's side of one WebSocket."""

    def __init__(self, uri: WebSocketURI, headers: Mapping[str, str], user: User) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[int] = loop.create_future()
        self.heard_pong = True
        self._headers = headers
        self._user = user
        # `client_max_window_bits` without a value, as the CLI offers it.
        deflate = ClientPerMessageDeflateFactory(client_max_window_bits=True)
        self._protocol = ClientProtocol(uri, extensions=[deflate], max_size=None)
        self._transport: asyncio.Transport | None = None

    def send(self, line: str) -> None:
        """Send one text frame; a connection that is closing takes none."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(line.encode())
            self._flush()

    def ping(self) -> None:
        """Ask for a pong; `heard_pong` tells whether it came."""
        if self._protocol.state is State.OPEN:
            self.heard_pong = False
            self._protocol.send_ping(b"")
            self._flush()

    def close(self) -> None:
        """Send what is queued and a close frame with code 1000, then hang up."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> int:
        """Wait until it is gone; its close code."""
        return await asyncio.shield(self._closed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        request = self._protocol.connect()
        request.headers.update(self._headers)
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._take_events()
        self._flush()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._take_events()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the server hung up"))
        received = self._protocol.close_rcvd
        self._closed.set_result(_LOST if received is None else received.code)

    def _take_events(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._note_answer(self._protocol.handshake_exc)
            elif isinstance(event, Frame):
                self._take_frame(event)
        # An answer that cannot be read as HTTP is an error without an event.
        if self._protocol.handshake_exc is not None:
            self._note_answer(self._protocol.handshake_exc)

    def _note_answer(self, error: Exception | None) -> None:
        if self.opened.done():
            return
        if error is None:
            # At once: frames may stand right behind the answer, and what they ask is answered
            # over this link.
            self._user.link_opened(self)
            self.opened.set_result(None)
        elif isinstance(error, InvalidStatus):
            self.opened.set_exception(LinkRefused(str(error)))
        else:
            self.opened.set_exception(ConnectionError(str(error)))

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode in _TEXT:
            self._user.data_received(bytes(frame.data))
        elif frame.opcode is Opcode.PONG:
            self.heard_pong = True

    def _flush(self) -> None:
        assert self._transport is not None
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
        if self._protocol.close_rcvd is not None:
            self._transport.close()
