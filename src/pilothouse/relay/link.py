"""One connection to a door: a socket, TLS where it is asked for, and a WebSocket on top.

Nothing here waits: the loop says when the socket is ready, and what is sent is kept until the
socket takes it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from .addresses import reachable
from .refusals import HEADER, refusal_in
from .watching import READ, WRITE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from .addresses import Address, Target
    from .watching import Watch

__all__ = ["Link", "LinkOwner", "tls_context"]

RECEIVE = 16 * 1024
MESSAGES = (Opcode.BINARY, Opcode.CONT, Opcode.TEXT)


class LinkOwner(Protocol):
    """Whom a link tells."""

    def link_opened(self) -> None:
        """Note that messages can be sent."""
        ...

    def link_received(self, message: bytes) -> None:
        """Take one binary message."""
        ...

    def link_heard(self) -> None:
        """Note that something came, whatever it was."""
        ...

    def link_lost(self, reason: str, code: int | None) -> None:
        """Note the end, told once; `code` is the door's word for it, if it gave one."""
        ...


class Link:
    """Connects to the first of the addresses that answers; `close` at any time."""

    def __init__(
        self,
        target: Target,
        token: str,
        owner: LinkOwner,
        watch: Watch,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._target = target
        self._token = token
        self._owner = owner
        self._watch = watch
        self._tls = tls
        self._addresses: deque[Address] = deque()
        self._socket: socket.socket | None = None
        self._step = self._connected
        self._out: deque[memoryview] = deque()
        self._queued = 0
        self._over = False
        self._parts: list[bytes] = []
        self._protocol = ClientProtocol(parse_uri(target.url), max_size=None)

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._socket is not None and self._protocol.state is State.OPEN

    @property
    def queued(self) -> int:
        """Bytes the socket has not taken yet."""
        return self._queued

    # -- connecting

    def connect(self, addresses: Sequence[Address]) -> None:
        """Try the addresses one after the other."""
        if self._over:
            return
        self._addresses.extend(addresses)
        if not addresses:
            self._lose(f"the name {self._target.host} is not known")
        else:
            self._try_next(None)

    def _try_next(self, error: OSError | None) -> None:
        self._drop()
        if not self._addresses:
            self._lose(f"cannot connect: {error}")
            return
        family, address = self._addresses.popleft()
        self._step = self._connected
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            _dial(self._socket, address)
        except BlockingIOError:
            self._want(WRITE)
        except OSError as failure:
            # A Unix socket whose queue is full says so at once, like one that nobody serves.
            self._try_next(failure)
        else:
            self._connected()

    def _connected(self) -> None:
        assert self._socket is not None
        if number := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next(OSError(number, os.strerror(number)))
            return
        if self._socket.family != socket.AF_UNIX:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            self._upgrade()
            return
        # Before its number passes to the socket that TLS makes of it.
        self._unwatch()
        self._socket = self._tls.wrap_socket(
            self._socket, server_hostname=self._target.host, do_handshake_on_connect=False
        )
        self._step = self._secure
        self._secure()

    def _secure(self) -> None:
        import ssl

        try:
            cast("ssl.SSLSocket", self._socket).do_handshake()
        except ssl.SSLWantReadError:
            self._want(READ)
        except ssl.SSLWantWriteError:
            self._want(WRITE)
        except OSError as error:
            self._lose(f"no TLS: {error}")
        else:
            self._upgrade()

    def _upgrade(self) -> None:
        request = self._protocol.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._protocol.send_request(request)
        self._step = self._receive
        self._flush_protocol()

    # -- the socket

    def _want(self, events: int) -> None:
        if self._socket is not None:
            self._watch.set(self._socket.fileno(), events, self._ready)

    def _unwatch(self) -> None:
        if self._socket is not None:
            self._watch.forget(self._socket.fileno())

    def _ready(self, mask: int) -> None:
        if self._socket is None:
            return
        if self._step != self._receive:
            self._step()
            return
        if mask & WRITE:
            self._send()
        if mask & READ:
            self._receive()

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(RECEIVE)
            except BlockingIOError:
                break
            except OSError as error:
                if _is_want(error):
                    break
                self._lose(f"the connection broke: {error}")
                break
            if data:
                self._owner.link_heard()
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            self._handle_events()
            if not data:
                self._lose("the connection ended")
            if self._tls is None and len(data) < RECEIVE:
                break

    def _handle_events(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._frame_received(event)
            elif isinstance(event, Response):
                self._answered(event)
            if self._socket is None:
                return
        self._flush_protocol()
        if self._protocol.handshake_exc is not None:
            self._lose(f"no WebSocket: {self._protocol.handshake_exc}")
        elif self._protocol.state is State.CLOSING:
            self._lose(f"not a WebSocket's bytes: {self._protocol.parser_exc}")

    def _answered(self, response: Response) -> None:
        if self._protocol.handshake_exc is None:
            self._owner.link_opened()
        else:
            refusal = refusal_in(response.headers.get_all(HEADER))
            self._lose(f"no WebSocket: HTTP {response.status_code}", refusal)

    def _frame_received(self, frame: Frame) -> None:
        if frame.opcode in MESSAGES:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                message = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts = []
                self._owner.link_received(message)
        elif frame.opcode is Opcode.CLOSE:
            self._flush_protocol()
            closed = self._protocol.close_rcvd
            code = closed.code if closed else None
            self._lose(f"the door closed: {code} {closed.reason if closed else ''}".strip(), code)

    # -- sending

    def send(self, message: bytes) -> None:
        """Send one binary message, unless the connection is not open."""
        if self.is_open:
            self._protocol.send_binary(message)
            self._flush_protocol()

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.is_open:
            self._protocol.send_ping(b"")
            self._flush_protocol()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the connection, which is not told to the owner."""
        if self.is_open:
            with suppress(WebSocketException):
                self._protocol.send_close(code, reason)
            self._flush_protocol()
        self._over = True
        self._drop()

    def _flush_protocol(self) -> None:
        if writes := self._protocol.data_to_send():
            for data in writes:
                # An empty one asks for a half-close, which our closing makes needless.
                if data:
                    self._out.append(memoryview(data))
                    self._queued += len(data)
            self._send()

    def _send(self) -> None:
        while self._out and self._socket is not None:
            try:
                sent = self._socket.send(self._out[0])
            except OSError as error:
                if isinstance(error, BlockingIOError) or _is_want(error):
                    break
                # What the door said last may still be there to be read.
                self._out.clear()
                self._queued = 0
                break
            self._queued -= sent
            if sent == len(self._out[0]):
                self._out.popleft()
            else:
                self._out[0] = self._out[0][sent:]
        self._want(READ | WRITE if self._out else READ)

    # -- the end

    def _lose(self, reason: str, code: int | None = None) -> None:
        self._drop()
        if not self._over:
            self._over = True
            self._owner.link_lost(reason, code)

    def _drop(self) -> None:
        self._unwatch()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _dial(dialling: socket.socket, address: tuple[Any, ...] | str) -> None:
    if not isinstance(address, str):
        dialling.connect(address)
        return
    # A Unix socket takes us at once or not at all, so its short name is not needed for longer.
    with reachable(address) as place:
        dialling.connect(place)


def _is_want(error: OSError) -> bool:
    """Whether TLS only has to wait; told by name, so that `ssl` is imported only where used."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def tls_context(ca: str | None) -> ssl.SSLContext:
    """Verify the door's certificate and name, against the system's authorities or this file's."""
    # Here, since most relays talk to a Unix socket.
    import ssl

    return ssl.create_default_context(cafile=ca)
