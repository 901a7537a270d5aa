"""A server that `--sdk-url` peers dial: it keeps every header, frame and POST they send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.support.waiting import DEADLINE

Message = dict[str, Any]


CUT = 0
"""In place of an HTTP status: hang up without an answer."""


@dataclass(frozen=True)
class Post:
    """One POST of a peer."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[Message]:
        return json.loads(self.body)["events"]


class Visit:
    """One WebSocket connection of a peer."""

    def __init__(self, request: Request, protocol: ServerProtocol, writer: Writer) -> None:
        self.path = request.path
        self.headers = request.headers
        self.frames: list[Frame] = []
        self.ended = False
        self._protocol = protocol
        self._writer = writer

    @property
    def texts(self) -> list[bytes]:
        return [bytes(frame.data) for frame in self.frames if frame.opcode is Opcode.TEXT]

    @property
    def messages(self) -> list[Message]:
        return [json.loads(text) for text in self.texts]

    @property
    def uuids(self) -> list[str | None]:
        return [message.get("uuid") for message in self.messages]

    @property
    def pings(self) -> int:
        return sum(frame.opcode is Opcode.PING for frame in self.frames)

    @property
    def close_codes(self) -> list[int]:
        closes = [frame.data for frame in self.frames if frame.opcode is Opcode.CLOSE]
        return [int.from_bytes(bytes(data[:2]), "big") for data in closes]

    def tell(self, *messages: Message) -> None:
        """Sends the messages as lines of one text frame."""
        self.send("".join(json.dumps(message) + "\n" for message in messages).encode())

    def send(self, data: bytes, *, binary: bool = False) -> None:
        """Sends one frame as it is."""
        send = self._protocol.send_binary if binary else self._protocol.send_text
        send(data)
        self.flush()

    def close(self, code: int) -> None:
        """Sends a close frame."""
        self._protocol.send_close(code, "because")
        self.flush()

    def cut(self) -> None:
        """Hangs up without a word."""
        self._writer.transport.abort()

    def flush(self, *, quietly: bool = False) -> None:
        pieces = self._protocol.data_to_send()
        if not quietly:
            self._writer.write(b"".join(pieces))
        if b"" in pieces:
            self._writer.close()


Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


class SdkUrlServer:
    """`visits` and `posts` grow as peers come; `until` waits for what they do.

    `refusals` are HTTP statuses for the next dials, `statuses` for the next POSTs; CUT hangs up.
    `greeting` is a frame that follows the handshake in one piece with it.
    While `quiet` nothing is answered, not even a ping; while `holding` no POST is.
    """

    def __init__(self, path: str = "/v1/ws/abc") -> None:
        self.visits: list[Visit] = []
        self.posts: list[Post] = []
        self.dials = 0
        self.refusals: list[int] = []
        self.statuses: list[int] = []
        self.greeting = b""
        self.quiet = False
        self.holding = asyncio.Event()
        self.holding.set()
        self.url = ""
        self._path = path
        self._news = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def open(self, **tls: Any) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, **tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{port}{self._path}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    async def until(self, done: Callable[[], Any], wait: float = DEADLINE) -> None:
        """Waits until something is so."""
        async with asyncio.timeout(wait), self._news:
            await self._news.wait_for(done)

    async def visit(self, number: int) -> Visit:
        """Waits for the connection of this number, counted from 1."""
        await self.until(lambda: len(self.visits) >= number)
        return self.visits[number - 1]

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _accept(self, reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await (self._greet if head.startswith(b"GET ") else self._take)(head, reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            # Peers hang up when they like, and `__aexit__` cancels.
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _take(self, head: bytes, reader: Reader, writer: Writer) -> None:
        while True:
            first, *lines = head.decode().strip().split("\r\n")
            headers = {name.lower(): value for name, value in (row.split(": ", 1) for row in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.posts.append(Post(first.split()[1], headers, body))
            status = self.statuses.pop(0) if self.statuses else 200
            await self._tell()
            await self.holding.wait()
            if status == CUT:
                return writer.transport.abort()
            writer.write(f"HTTP/1.1 {status} So\r\ncontent-length: 2\r\n\r\n{{}}".encode())
            head = await reader.readuntil(b"\r\n\r\n")

    async def _greet(self, head: bytes, reader: Reader, writer: Writer) -> None:
        self.dials += 1
        if not self.refusals:
            return await self._serve(head, reader, writer)
        status = self.refusals.pop(0)
        await self._tell()
        if status == CUT:
            return writer.transport.abort()
        writer.write(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode())

    async def _serve(self, head: bytes, reader: Reader, writer: Writer) -> None:
        protocol = ServerProtocol(max_size=None)
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        assert isinstance(request, Request)
        protocol.send_response(protocol.accept(request))
        visit = Visit(request, protocol, writer)
        if self.greeting:
            protocol.send_text(self.greeting)
        visit.flush()
        self.visits.append(visit)
        await self._tell()
        while data := await self._read(reader):
            protocol.receive_data(data)
            visit.frames += [e for e in protocol.events_received() if isinstance(e, Frame)]
            visit.flush(quietly=self.quiet)
            await self._tell()
        visit.ended = True
        await self._tell()

    async def _read(self, reader: Reader) -> bytes:
        try:
            return await reader.read(1 << 16)
        except ConnectionError:
            return b""
