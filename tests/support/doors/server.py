"""A server's doors around one run, on loopback or on a Unix socket, that can be killed."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import serve, serve_at
from pilothouse.doors.relay_transport import RelayTransport
from pilothouse.doors.tokens import Keyring
from tests.support.doors.ledger import Disk, RecordedLedger

SESSION = "a-session"
RUN = "a-run"
KEYRING = Keyring(b"k" * 32)
TOKEN = KEYRING.issue(SESSION, RUN)


class DoorServer:
    """One life of a server."""

    def __init__(self, disk: Disk, *, by_hand: bool = False) -> None:
        self.book = RecordedLedger(disk, by_hand=by_hand)
        self.doors = Doors(KEYRING)
        self.transport = RelayTransport(SESSION, RUN, self.book, carried=disk.carried())
        self.doors.expect(self.transport)

    async def until_connected(self) -> None:
        """Wait for the relay; every greeting has something committed before it."""
        await self.book.until(lambda: self.transport.hello is not None)

    def kill(self) -> None:
        """Commit nothing more, and leave without telling anybody."""
        self.book.dead = True
        self.transport.detach()

    @asynccontextmanager
    async def on_loopback(self) -> AsyncIterator[int]:
        """Served at a port, which is given."""
        await self.transport.start(self.book)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            async with serve(self.doors, listener):
                yield port

    @asynccontextmanager
    async def at(self, path: Path) -> AsyncIterator[None]:
        """Served on a Unix socket."""
        await self.transport.start(self.book)
        async with serve_at(self.doors, path):
            yield
