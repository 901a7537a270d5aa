"""The control connection: kept up for as long as the server wants this runner."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from websockets.asyncio.client import ClientConnection, connect

from pilothouse.relay import addresses
from pilothouse.relay.addresses import Target
from pilothouse.relay.pace import Pace
from pilothouse.relay.refusals import Refusal

from . import messages
from .messages import FromRunner, FromServer, Hello, MessageError, Welcome
from .troubles import TROUBLES, describe

__all__ = ["Control", "ControlListener", "Gate", "gate_of"]

FINAL: Final = {
    Refusal.TOKEN_REFUSED: "the server refuses this token: it was revoked, or never given out; "
    "on the server's machine, `pilothouse runners add NAME` makes a new one",
    Refusal.SESSION_UNKNOWN: "the server has no place for this runner",
}
"""Refusals after which there is no use in coming back."""
REPLACED_OFTEN: Final = 3
"""So often in a row another one came with our token. Two runners would send each other away for
ever, and each time the sessions of one would be taken for gone: the one that was there first ends.
"""
REPLACED: Final = (
    "another runner uses the same token; every machine needs its own: pilothouse runners add NAME"
)
CLOSING: Final = 2.0

# Told more, it would write the headers down, and the token with them.
_wire = logging.getLogger("pilothouse.runner.wire")
_wire.setLevel(logging.INFO)


class Gate(NamedTuple):
    """Where to go, and what to show there."""

    target: Target
    token: str
    tls: ssl.SSLContext | None


class ControlListener(Protocol):
    """Whom the connection tells."""

    def hello(self) -> Awaitable[Callable[[], Hello]]:
        """Make ready to say who we are; what it returns is called in the moment of saying it."""
        ...

    def welcomed(self, welcome: Welcome) -> None: ...

    def received(self, message: FromServer) -> None: ...

    def unserved(self, reason: str) -> None: ...


def gate_of(url: str, token: str, tls: Callable[[], ssl.SSLContext]) -> Gate:
    """Read the server's address; raises `BadAddress`."""
    door = addresses.parse(url, "x")
    target = door._replace(url=door.url.removesuffix("/relay/x") + "/runner")
    return Gate(target, token, tls() if target.secure else None)


class _Connect(connect):
    """Goes where it was told to, and nowhere else: a redirection would be shown the token."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Control:
    """Connects, greets and listens, again and again."""

    def __init__(self, gate: Gate, listener: ControlListener, pace: Pace) -> None:
        self._gate = gate
        self._listener = listener
        self._pace = pace
        self._failures = 0
        self._replaced = 0
        self._outbox: asyncio.Queue[FromRunner] | None = None
        self._connections = 0

    @property
    def current(self) -> int:
        """The number of the connection there is; 0 if there is none."""
        return self._connections if self._outbox is not None else 0

    def tell(self, message: FromRunner) -> None:
        """Send a message, unless there is no connection: the next hello says what counts."""
        if self._outbox is not None:
            self._outbox.put_nowait(message)

    async def run(self) -> str:
        """Stay connected until the server refuses us for good; why, in words."""
        while True:
            code, reason = await self._visit()
            if (refusal := self._refusal(code)) is not None:
                return f"{refusal} ({reason})"
            self._listener.unserved(reason)
            # The back-off: a server that is away is not asked without a pause.
            await asyncio.sleep(self._delay(code))

    def _refusal(self, code: int | None) -> str | None:
        if code == Refusal.REPLACED:
            self._replaced += 1
            return REPLACED if self._replaced >= REPLACED_OFTEN else None
        return FINAL[Refusal(code)] if code in FINAL else None

    def _delay(self, code: int | None) -> float:
        pace = self._pace
        longest = pace.local_delay if self._gate.target.is_local else pace.longest_delay
        delay = min(longest, pace.first_delay * 2 ** min(self._failures, 20))
        self._failures += 1
        if code == Refusal.REPLACED:
            delay = max(delay, pace.replaced_delay)
        return delay * random.uniform(0.5, 1.0)

    async def _visit(self) -> tuple[int | None, str]:
        """One connection's life; the code that the server gave, and what to say of its end."""
        hello = await self._listener.hello()
        try:
            async with await self._dial() as connection:
                await self._serve(connection, hello)
        except TROUBLES as error:
            return describe(error, self._gate.target)
        return None, "the connection ended"

    async def _dial(self) -> _Connect:
        target, pace = self._gate.target, self._pace
        given: dict[str, Any] = {}
        if target.unix:
            given["sock"] = await _unix(target.unix)
        if self._gate.tls is not None:
            given["ssl"] = self._gate.tls
        return _Connect(
            target.url,
            additional_headers={"Authorization": f"Bearer {self._gate.token}"},
            compression=None,
            # Relays know of no proxy either.
            proxy=None,
            open_timeout=pace.handshake,
            ping_interval=pace.ping,
            ping_timeout=pace.silence - pace.ping,
            close_timeout=CLOSING,
            max_size=None,
            logger=_wire,
            **given,
        )

    async def _serve(self, connection: ClientConnection, hello: Callable[[], Hello]) -> None:
        outbox: asyncio.Queue[FromRunner] = asyncio.Queue()
        # Together: what happens from now on is told behind the hello.
        outbox.put_nowait(hello())
        self._outbox = outbox
        self._connections += 1
        sending = asyncio.create_task(_send(connection, outbox))
        try:
            await self._listen(connection)
        finally:
            self._outbox = None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _listen(self, connection: ClientConnection) -> None:
        async with asyncio.timeout(self._pace.handshake):
            welcome = messages.from_server(await connection.recv())
        if not isinstance(welcome, Welcome):
            raise MessageError("a server says welcome first")
        self._listener.welcomed(welcome)
        steady = asyncio.get_running_loop().call_later(self._pace.steady, self._prove_steady)
        try:
            while True:
                message = messages.from_server(await connection.recv())
                if message is not None:
                    self._listener.received(message)
        finally:
            steady.cancel()

    def _prove_steady(self) -> None:
        self._failures = 0
        self._replaced = 0


async def _send(connection: ClientConnection, outbox: asyncio.Queue[FromRunner]) -> None:
    while True:
        await connection.send(messages.encode(await outbox.get()))


async def _unix(place: str) -> socket.socket:
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    own.setblocking(False)
    try:
        with addresses.reachable(place) as name:
            await asyncio.get_running_loop().sock_connect(own, name)
    except BaseException:
        own.close()
        raise
    return own
