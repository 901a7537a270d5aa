"""Connections, and what they may cost before a token was shown on them.

    accepted ──> stranger ── a token ──> admitted
                    │
                    └── too many, too slow, too much ──> dropped

uvicorn waits for ever for the rest of a request, takes as many connections as there are, and keeps
what comes on a WebSocket that it has not accepted. So its two protocol classes are given deadlines
here, and its listening socket is served by `ConnectionListener`:

- Half a request, half a body or a TLS handshake that does not get on ends after some seconds.
- There are at most so many strangers. Before one more is accepted, the one that has been there
  longest is dropped, once it had a moment to speak: who has a token shows it at once, so it comes
  in however many others only sit there, and many who come at the same time all do.
- A WebSocket that was refused or closed is over some seconds later, whatever the peer does.

An application tells by `sockets.admit` that it was shown a token.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from socket import socket
from typing import Any, Final

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from .sockets import ADMIT

__all__ = ["ConnectionListener", "HttpConnection", "State", "WebSocketConnection"]

HEAD_S: Final = 10.0
"""For a TLS handshake, and again for the head of a request, from its first byte or from nothing."""
BODY_S: Final = 5.0
"""For the rest of a stranger's body, which nobody reads: it was refused by then."""
SILENCE_S: Final = 30.0
"""Without a byte, in a body that somebody waits for."""
CLOSING_S: Final = 5.0
"""For a peer to take what it was sent last, and to leave."""
TAKING_S: Final = 60.0
"""For a stranger to take the page, over however slow a line."""
EARLY: Final = 64 * 1024
"""Bytes of a WebSocket that are taken before it is accepted; a handshake has fewer."""
LATE: Final = 4 * 1024 * 1024
"""Bytes that are looked through for the peer's own close; a relay has 1 MiB under way."""
MOST: Final = 256
"""Strangers at once."""
PATIENCE_S: Final = 0.25
"""Nobody is dropped for another's sake who has not been there for so long."""
LOOK_AGAIN_S: Final = 0.02
"""Between two looks whether there is room for another one."""
AT_ONCE: Final = 32
"""Connections that are accepted in one turn of the loop, so that others have theirs."""
BACKLOG: Final = 2048
REST_S: Final = 1.0
"""Before accepting is tried again, where the system has no room for a connection."""

log = logging.getLogger("pilothouse.doors")

Drop = Callable[[], object]


class Strangers:
    """Connections on which no token was shown yet, in the order they came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._there: dict[object, tuple[float, Drop]] = {}

    def add(self, connection: object, drop: Drop) -> None:
        """Count a connection, or change what ends it."""
        since, _ = self._there.get(connection, (time.monotonic(), drop))
        self._there[connection] = (since, drop)

    def remove(self, connection: object) -> None:
        """Count it no more: it is admitted, or gone."""
        self._there.pop(connection, None)

    @property
    def has_room(self) -> bool:
        """Whether there may be another one."""
        return len(self._there) < self._most

    def make_room(self) -> bool:
        """Whether there is room for another one, which the oldest may have to leave to it."""
        if self.has_room:
            return True
        since, _ = next(iter(self._there.values()))
        is_old = time.monotonic() - since >= PATIENCE_S
        if is_old:
            self.drop_oldest()
        return is_old

    def drop_oldest(self) -> None:
        """End the connection that has been there longest."""
        oldest = next(iter(self._there), None)
        if oldest is not None:
            _, drop = self._there.pop(oldest)
            drop()


class State(ServerState):
    """What all connections of one server share."""

    def __init__(self) -> None:
        super().__init__()
        self.strangers = Strangers(max(1, min(MOST, _descriptors() // 4)))


def _descriptors() -> int:
    """How many files the process may have open; no number is infinite."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4 * MOST if limit == resource.RLIM_INFINITY else limit


class _Deadline:
    """The moment at which a connection ends as it is."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, drop: Drop) -> None:
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, drop)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpConnection(H11Protocol):
    """A connection as every one begins.

    What the peer owes is a head, a body, or nothing. A stranger also has to take its answer: else
    it would keep what it was sent, and what it asks next.
    """

    def __init__(
        self, config: Config, server_state: State, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(config, server_state, {**app_state, ADMIT: self._admit}, **more)
        self._strangers = server_state.strangers
        self._deadline = _Deadline()
        self._owed = ""
        self._admitted = False
        self.is_made = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.is_made = True
        self._strangers.add(self, transport.abort)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # A transport that closes waits, without a limit, until what it holds was taken.
        if not self._admitted:
            self._deadline.set(TAKING_S, self.transport.abort)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        # The other protocol counts for itself, and hears of the connection's end.
        self._forget()
        super().handle_websocket_upgrade(event)

    def _admit(self) -> None:
        self._admitted = True
        self._strangers.remove(self)
        self._watch()

    def _forget(self) -> None:
        self._strangers.remove(self)
        self._deadline.cancel()

    def _watch(self) -> None:
        """Set the deadline for what is owed, unless it is set already."""
        owed = self._what_is_owed()
        is_getting_on = owed == "body" and self._admitted
        if owed == self._owed and not is_getting_on:
            return
        self._owed = owed
        match owed:
            case "head":
                self._deadline.set(HEAD_S, self.transport.abort)
            case "body":
                self._deadline.set(SILENCE_S if self._admitted else BODY_S, self._end_silence)
            case "taking":
                self._deadline.set(CLOSING_S, self.transport.abort)
            case _:
                self._deadline.cancel()

    def _what_is_owed(self) -> str:
        if self.transport.get_protocol() is not self:
            return ""
        if self.transport.is_closing() or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            return "" if self._admitted else "taking"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        # Between two requests uvicorn has a deadline of its own, until the first byte comes.
        return "head" if self.timeout_keep_alive_task is None else ""

    def _end_silence(self) -> None:
        if self._admitted and self.flow.read_paused:
            # It is us who do not read on.
            self._deadline.set(SILENCE_S, self._end_silence)
        else:
            self.transport.abort()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A connection that asks to be a WebSocket, or is one."""

    def __init__(
        self, config: Config, server_state: State, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(config, server_state, {**app_state, ADMIT: self._admit}, **more)
        self._application: Any = self.app
        self.app = self._answer
        self._strangers = server_state.strangers
        self._deadline = _Deadline()
        self.data_received = self._count_received
        self._early = EARLY
        self._late = LATE
        self._admitted = False
        self._lost = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._strangers.add(self, transport.abort)
        self._deadline.set(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._strangers.remove(self)
        self._deadline.cancel()
        super().connection_lost(exc)

    def _admit(self) -> None:
        self._admitted = True
        self._strangers.remove(self)
        self._deadline.cancel()
        # From now on nothing of what comes is counted, until it is over.
        self.data_received = super().data_received

    def _count_received(self, data: bytes) -> None:
        if not self._admitted:
            self._early -= len(data)
        elif self.close_sent:
            self._late -= len(data)
        if self._early < 0:
            self.transport.abort()
        elif self._late >= 0:
            super().data_received(data)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)
        # uvicorn takes a refusal for no answer, and would log an error for each of them.
        self.handshake_complete = self.handshake_complete or self.close_sent

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.data_received = self._count_received
        # To close may mean to wait until the peer has taken everything.
        if not self._lost:
            self._deadline.set(CLOSING_S, self.transport.abort)


class ConnectionListener:
    """Accepts the connections of one socket.

    asyncio would do it, but gives a TLS handshake a minute, and where the process has no
    descriptor left it tries, and logs, 2048 times a second.
    """

    def __init__(
        self,
        listening: socket,
        connection: Callable[[], HttpConnection],
        strangers: Strangers,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._socket = listening
        self._connection = connection
        self._strangers = strangers
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Accept no more; those that were accepted stay."""
        self._loop.remove_reader(self._socket)
        if self._resting is not None:
            self._resting.cancel()
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        # Somebody waits, or this would not be called.
        if not self._strangers.make_room():
            self._rest(LOOK_AGAIN_S)
            return
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._fail(error)
                return
            accepted.setblocking(False)
            connection = self._connection()
            task = self._loop.create_task(self._open(connection, accepted))
            self._opening.add(task)
            task.add_done_callback(partial(self._opened, connection, accepted))
            self._strangers.add(connection, task.cancel)
            if not self._strangers.has_room:
                return

    def _fail(self, error: OSError) -> None:
        log.error("no connection can be taken: %s", error.strerror or error)
        self._strangers.drop_oldest()
        self._rest(REST_S)

    def _rest(self, seconds: float) -> None:
        """Let those who come wait in the system's own queue."""
        self._loop.remove_reader(self._socket)
        self._resting = self._loop.call_later(seconds, self._listen)

    async def _open(self, connection: HttpConnection, accepted: socket) -> None:
        # Whoever speaks no TLS, or left again, is nothing to tell of.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HEAD_S if self._tls else None,
                ssl_shutdown_timeout=CLOSING_S if self._tls else None,
            )

    def _opened(
        self, connection: HttpConnection, accepted: socket, task: asyncio.Task[None]
    ) -> None:
        self._opening.discard(task)
        if not connection.is_made:
            self._strangers.remove(connection)
            accepted.close()
