"""A door for relays: commits lines, acknowledges them, can be killed and opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.exceptions import ConnectionClosed

from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import (
    CLIExit,
    Dropped,
    Frame,
    FrameKind,
    Order,
    RelayHello,
    RelayWelcome,
)
from pilothouse.relay.refusals import Refusal
from tests.support.waiting import DEADLINE

TOKEN = "token-5f0c1e7a"
SESSION = "a-session"


class RelayDoor:
    """What it has outlives its connections and its being killed, as a server's disk would."""

    def __init__(self, unix: Path | None = None, tls: Any = None) -> None:
        self.lines: list[bytes] = []
        self.dropped: dict[int, int] = {}
        """The sizes of lines that were too long, by their numbers; `lines` has none of them."""
        self.exit: CLIExit | None = None
        self.hellos: list[RelayHello] = []
        self.mistakes: list[str] = []
        self.repeated = 0
        self.outbox: list[tuple[FrameKind, bytes]] = []
        self.written = 0
        self.acknowledging = True
        self.before_commit: Callable[[Frame], None] = lambda frame: None
        self.refusal: Refusal | None = None
        self.closed_with: list[int] = []
        self._unix = unix
        self._tls = tls
        self._port = 0
        self._server: Server | None = None
        self._current: ServerConnection | None = None
        self._open: set[ServerConnection] = set()
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        if self._unix is not None:
            return f"unix:{self._unix}"
        return f"{'wss' if self._tls else 'ws'}://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def committed(self) -> int:
        return len(self.lines) + len(self.dropped) + (self.exit is not None)

    @property
    def connected(self) -> bool:
        return self._current is not None

    # -- its life

    async def open(self) -> None:
        given: dict[str, Any] = {"max_size": None, "compression": None, "ssl": self._tls}
        given["close_timeout"] = 0.2
        if self._unix is not None:
            self._unix.unlink(missing_ok=True)
            self._server = await unix_serve(self._serve, str(self._unix), **given)
        else:
            self._server = await serve(self._serve, "127.0.0.1", self._port, **given)
            self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def kill(self) -> None:
        """Leave without a word, as a killed process does."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close(close_connections=False)
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        for each in list(self._open):
            each.transport.abort()

    async def restart(self) -> None:
        await self.kill()
        await self.open()

    async def close_all(self, code: int) -> None:
        await asyncio.gather(*(each.close(code) for each in list(self._open)))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[RelayDoor]:
        await self.open()
        try:
            yield self
        finally:
            await self.kill()
            assert self.mistakes == []

    # -- waiting

    def _note(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def has(self, lines: int) -> None:
        await self.until(lambda: len(self.lines) >= lines)

    async def ended(self) -> CLIExit:
        await self.until(lambda: self.exit is not None)
        assert self.exit is not None
        return self.exit

    async def greeted(self, times: int = 1) -> RelayHello:
        await self.until(lambda: len(self.hellos) >= times)
        return self.hellos[-1]

    async def wrote(self, number: int) -> None:
        await self.until(lambda: self.written >= number)

    # -- speaking

    async def say(self, *lines: bytes) -> None:
        for line in lines:
            self.outbox.append((FrameKind.LINES, line + b"\n"))
            await self._send_last()

    async def order(self, do: str) -> None:
        self.outbox.append((FrameKind.ORDER, door_frames.pack(Order(do))))
        await self._send_last()

    async def _send_last(self) -> None:
        if self._current is not None:
            await self._send_outgoing(self._current, len(self.outbox))

    async def _send_outgoing(self, connection: ServerConnection, number: int) -> None:
        kind, payload = self.outbox[number - 1]
        await self.send(Frame(kind, number, self.committed, payload), connection)

    async def send(self, frame: Frame, connection: ServerConnection | None = None) -> None:
        to = connection or self._current
        assert to is not None
        with suppress(ConnectionClosed):
            await to.send(door_frames.encode(frame))

    # -- listening

    async def _serve(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        self._open.add(connection)
        try:
            if self.refusal is not None:
                await connection.close(self.refusal)
            elif request.headers.get("Authorization") != f"Bearer {TOKEN}":
                await connection.close(Refusal.TOKEN_REFUSED)
            elif request.path != f"/relay/{SESSION}":
                await connection.close(Refusal.SESSION_UNKNOWN)
            else:
                await self._greet(connection)
        except ConnectionClosed as closed:
            if closed.rcvd is not None:
                self.closed_with.append(closed.rcvd.code)
        finally:
            self._open.discard(connection)
            if self._current is connection:
                self._current = None
            self._note()

    async def _greet(self, connection: ServerConnection) -> None:
        frame = door_frames.decode(_binary(await connection.recv()))
        assert frame.kind is FrameKind.HELLO
        hello: RelayHello = door_frames.unpack(RelayHello, frame.payload)
        older, self._current = self._current, connection
        self.hellos.append(hello)
        if hello.first > self.committed + 1:
            self.mistakes.append(f"hello: {hello.first} after {self.committed}")
        welcome = door_frames.pack(RelayWelcome(self.committed))
        await self.send(Frame(FrameKind.WELCOME, 0, self.committed, welcome), connection)
        self.written = max(self.written, hello.written)
        for number in range(hello.written + 1, len(self.outbox) + 1):
            await self._send_outgoing(connection, number)
        self._note()
        if older is not None:
            await older.close(Refusal.REPLACED)
        async for message in connection:
            if self._current is not connection:
                break
            await self._receive(connection, door_frames.decode(_binary(message)))

    async def _receive(self, connection: ServerConnection, frame: Frame) -> None:
        self.before_commit(frame)
        self.written = max(self.written, frame.acknowledged)
        if frame.kind is FrameKind.LINES:
            self._commit(frame)
        elif frame.kind is FrameKind.DROPPED and frame.number == self.committed + 1:
            self.dropped[frame.number] = door_frames.unpack(Dropped, frame.payload).size
        elif frame.kind is FrameKind.EXIT and self.exit is None:
            if frame.number != self.committed + 1:
                self.mistakes.append(f"exit: {frame.number} after {self.committed}")
            self.exit = door_frames.unpack(CLIExit, frame.payload)
        if self.acknowledging:
            await self.send(Frame(FrameKind.ACK, 0, self.committed), connection)
        self._note()

    def _commit(self, frame: Frame) -> None:
        if frame.number > self.committed + 1:
            self.mistakes.append(f"{frame.number} after {self.committed}")
        if not frame.payload.endswith(b"\n"):
            self.mistakes.append("a line without its newline")
        # Only a connection that somebody else replays has lines that came before.
        known = self.committed + 1 - frame.number
        self.repeated += min(known, frame.payload.count(b"\n"))
        self.lines += frame.payload.split(b"\n")[known:-1]

    async def acknowledge(self) -> None:
        """Acknowledge what was kept back."""
        self.acknowledging = True
        await self.send(Frame(FrameKind.ACK, 0, self.committed))


def _binary(message: str | bytes) -> bytes:
    assert isinstance(message, bytes)
    return message
