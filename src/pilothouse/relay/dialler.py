"""Reaches a door: looks its name up, tries its addresses one after the other, and speaks TLS where
that is asked for. Nothing here waits: the poller says when a socket is ready."""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from .addresses import Resolver, reachable
from .poller import READ, WRITE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from .addresses import Address, Target
    from .poller import Poller

__all__ = ["Dialler", "tls_context"]


class Dialler:
    """Connects to the first address that answers, and hands its socket to `connected`.

    Where none does, `failed` is called with the reason. `stop` ends an attempt at any time.
    """

    def __init__(
        self,
        target: Target,
        tls: ssl.SSLContext | None,
        poller: Poller,
        connected: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._target = target
        self._tls = tls
        self._poller = poller
        self._connected = connected
        self._failed = failed
        self._addresses: deque[Address] = deque()
        self._socket: socket.socket | None = None
        self._step = self._reached
        self._resolver = Resolver()
        poller.set(self._resolver.fileno(), READ, lambda _: self._resolver.ready())

    def dial(self) -> None:
        """Begin an attempt."""
        self.stop()
        self._resolver.ask(self._target, self._try)

    def stop(self) -> None:
        """End the attempt, if there is one, without a word."""
        self._resolver.forget()
        self._addresses.clear()
        self._drop()

    def _try(self, addresses: Sequence[Address]) -> None:
        self._addresses.extend(addresses)
        if not addresses:
            self._fail(f"the name {self._target.host} is not known")
        else:
            self._try_next(None)

    def _try_next(self, error: OSError | None) -> None:
        self._drop()
        if not self._addresses:
            self._fail(f"cannot connect: {error}")
            return
        family, address = self._addresses.popleft()
        self._step = self._reached
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            _connect(self._socket, address)
        except BlockingIOError:
            self._want(WRITE)
        except OSError as failure:
            # A Unix socket whose queue is full says so at once, like one that nobody serves.
            self._try_next(failure)
        else:
            self._reached()

    def _reached(self) -> None:
        assert self._socket is not None
        if number := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next(OSError(number, os.strerror(number)))
            return
        if self._socket.family != socket.AF_UNIX:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            self._hand_over()
            return
        # Before its number passes to the socket that TLS makes of it.
        self._release()
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
            self._fail(f"no TLS: {error}")
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        assert self._socket is not None
        self._release()
        connected, self._socket = self._socket, None
        self._addresses.clear()
        self._connected(connected)

    def _fail(self, reason: str) -> None:
        self.stop()
        self._failed(reason)

    def _want(self, events: int) -> None:
        if self._socket is not None:
            self._poller.set(self._socket.fileno(), events, lambda _: self._step())

    def _release(self) -> None:
        if self._socket is not None:
            self._poller.forget(self._socket.fileno())

    def _drop(self) -> None:
        self._release()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _connect(dialling: socket.socket, address: tuple[Any, ...] | str) -> None:
    if not isinstance(address, str):
        dialling.connect(address)
        return
    # A Unix socket takes us at once or not at all, so its short name is not needed for longer.
    with reachable(address) as place:
        dialling.connect(place)


def tls_context(ca: str | None) -> ssl.SSLContext:
    """Verify the door's certificate and name, against the system's authorities or this file's."""
    # Here, since most relays talk to a Unix socket.
    import ssl

    return ssl.create_default_context(cafile=ca)
