"""What a stranger's connection may cost: bytes, seconds, and the place of those with a token."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from pilothouse.doors import admission
from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import make_server, serve
from pilothouse.doors.sockets import Socket
from pilothouse.doors.tokens import Keyring
from tests.support.certificates import certificate
from tests.support.waiting import DEADLINE

KEYRING = Keyring(b"k" * 32)
TOKEN = KEYRING.issue("s", "r")
MUCH = 64 * 1024 * 1024
LITTLE = 8 * 1024 * 1024
AT_ONCE = 0.05
NEVER = 1000.0


class Carrier:
    """One run: takes posts, and says over a WebSocket what it hears."""

    session_id = "s"
    run = "r"
    machine = ""

    def __init__(self, route: str = "ws") -> None:
        self.route = route
        self.bodies: list[bytes] = []

    def is_other(self, headers: Mapping[str, str]) -> bool:
        return False

    async def visited(self, socket: Socket) -> None:
        while (message := await socket.receive()) is not None:
            await socket.send(message)

    async def posted(self, body: bytes) -> int:
        self.bodies.append(body)
        return 202


class Peer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> str:
        """The head of the next answer."""
        async with asyncio.timeout(DEADLINE):
            return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def ended(self) -> bytes:
        """Wait until the server has ended the connection; what it had still sent."""
        async with asyncio.timeout(DEADLINE):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def send_until_ended(self, size: int) -> int:
        """Send zeroes until the server ends the connection, or `size` is reached."""
        sent, piece = 0, bytes(64 * 1024)
        async with asyncio.timeout(DEADLINE):
            try:
                while sent < size:
                    self.writer.write(piece)
                    await self.writer.drain()
                    sent += len(piece)
                await self.reader.read()
            except ConnectionError:
                pass
        return sent


class Place:
    """Where a server is."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._peers: list[Peer] = []

    async def visit(self, *data: bytes) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self._peers.append(peer)
        for each in data:
            peer.send(each)
        return peer

    def leave(self) -> None:
        for each in self._peers:
            each.writer.transport.abort()


@asynccontextmanager
async def served(*carriers: Carrier) -> AsyncIterator[Place]:
    doors = Doors(KEYRING)
    for each in carriers:
        doors.expect(each)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = Place(listener.getsockname()[1])
        async with serve(doors, listener):
            yield place
            place.leave()


@asynccontextmanager
async def served_by(app: Any, **more: Any) -> AsyncIterator[Place]:
    """Another application, with other ways of uvicorn's."""
    started = asyncio.Event()
    server = make_server(app, started.set, lifespan="off", timeout_graceful_shutdown=1, **more)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await started.wait()
        place = Place(listener.getsockname()[1])
        try:
            yield place
        finally:
            place.leave()
            server.should_exit = True
            await serving


def upgrade(path: str, token: str = "") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}"
        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def frame(size: int, payload: bytes = b"") -> bytes:
    """The beginning of a binary message of that many bytes; its mask is none."""
    return struct.pack("!BBQI", 0x82, 0xFF, size, 0) + payload


def post(length: int, token: str = "") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"POST /session/s/events HTTP/1.1\r\nHost: localhost\r\n{bearer}"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


@contextmanager
def little_is_kept() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()


def at_once(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these deadlines be short, and the others not come at all."""
    for name in ("HEAD_S", "BODY_S", "SILENCE_S", "CLOSING_S", "TAKING_S", "PATIENCE_S"):
        monkeypatch.setattr(admission, name, AT_ONCE if name in names else NEVER)


# -- bytes


@pytest.mark.parametrize("path", ["/relay/s", "/runner", "/ws/s", "/session/s/events"])
@pytest.mark.parametrize("token", ["", "nonsense"])
async def test_a_websocket_without_a_token_costs_nothing(path: str, token: str) -> None:
    async with served(Carrier("relay")) as place:
        peer = await place.visit(upgrade(path, token))
        assert (await peer.head())[9:12] in ("401", "403", "404")
        with little_is_kept():
            peer.send(frame(MUCH))
            assert await peer.send_until_ended(MUCH) < MUCH


async def test_a_refusal_is_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    async with served(Carrier("relay")) as place:
        for path in ("/relay/s", "/runner", "/ws/s"):
            peer = await place.visit(upgrade(path))
            await peer.head()
            await peer.ended()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_what_comes_before_a_websocket_is_accepted_is_not_kept() -> None:
    deciding = asyncio.Event()

    async def decide(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        deciding.set()
        await receive()

    async with served_by(decide) as place:
        peer = await place.visit(upgrade("/"))
        await deciding.wait()
        with little_is_kept():
            peer.send(frame(MUCH))
            assert await peer.send_until_ended(MUCH) < MUCH


async def test_what_comes_after_a_websocket_was_closed_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch)
    monkeypatch.setattr(admission, "CLOSING_S", 2.0)
    async with served() as place:
        peer = await place.visit(upgrade("/relay/s", TOKEN))
        assert "101" in await peer.head()
        with little_is_kept():
            peer.send(frame(2 * MUCH))
            await peer.send_until_ended(MUCH)


async def test_a_body_without_a_token_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)
    monkeypatch.setattr(admission, "HEAD_S", 1.0)
    async with served(Carrier()) as place:
        peer = await place.visit(post(MUCH))
        assert " 401 " in await peer.head()
        with little_is_kept():
            assert await peer.send_until_ended(MUCH) == MUCH


async def test_a_long_message_of_one_that_has_a_token_is_taken() -> None:
    size = LITTLE
    async with served(Carrier("relay")) as place:
        peer = await place.visit(upgrade("/relay/s", TOKEN))
        assert "101" in await peer.head()
        peer.send(frame(size, bytes(size)))
        async with asyncio.timeout(DEADLINE):
            assert await peer.reader.readexactly(size) != b""


# -- seconds

HEADS = [
    b"",
    b"GET /runner HT",
    b"GET /runner HTTP/1.1\r\nHost: localhost\r\nX-Half",
]


@pytest.mark.parametrize("sent", HEADS)
async def test_half_a_head_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    at_once(monkeypatch, "HEAD_S")
    async with served() as place:
        peer = await place.visit(sent)
        await peer.ended()


async def test_half_a_head_behind_a_whole_request_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "HEAD_S")
    async with served() as place:
        peer = await place.visit(post(0))
        assert " 401 " in await peer.head()
        peer.send(b"GET /more")
        await peer.ended()


async def test_what_dribbles_in_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "HEAD_S")
    async with served() as place:
        peer = await place.visit(b"GET /runner HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            await dribble(peer)


async def dribble(peer: Peer) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            peer.send(b"X: y\r\n")
            await peer.writer.drain()
            # As a slow peer does: never silent for as long as the deadline is.
            await asyncio.sleep(AT_ONCE / 10)


@pytest.mark.parametrize(
    "head",
    [post(100), post(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"5\r\n"],
)
async def test_half_a_body_of_a_stranger_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    at_once(monkeypatch, "BODY_S")
    async with served(Carrier()) as place:
        peer = await place.visit(head + b"half")
        assert " 401 " in await peer.head()
        assert await peer.ended() == b""


async def test_a_body_that_gets_on_has_its_time_where_a_token_was_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "BODY_S")
    carrier = Carrier()
    async with served(carrier) as place:
        slow = await place.visit(post(8, TOKEN) + b"half")
        stranger = await place.visit(post(8) + b"half")
        await stranger.ended()
        slow.send(b"more")
        assert " 202 " in await slow.head()
    assert carrier.bodies == [b"halfmore"]


async def test_a_body_that_does_not_get_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch, "SILENCE_S")
    carrier = Carrier()
    async with served(carrier) as place:
        peer = await place.visit(post(8, TOKEN) + b"half")
        assert await peer.ended() == b""
    assert carrier.bodies == []


async def test_a_stranger_that_is_quick_may_go_on_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)
    async with served(Carrier()) as place:
        peer = await place.visit()
        for _ in range(3):
            peer.send(post(4) + b"full")
            assert " 401 " in await peer.head()
        peer.send(post(4, TOKEN) + b"full")
        assert " 202 " in await peer.head()


async def test_a_stranger_that_does_not_take_its_answers_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "CLOSING_S")
    async with served(Carrier()) as place:
        peer = await place.visit()
        cast(asyncio.Transport, peer.writer.transport).pause_reading()
        with pytest.raises(ConnectionError):
            await ask_and_ask(peer)


async def test_a_stranger_that_takes_a_long_answer_for_ever_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "TAKING_S")
    gone = asyncio.Event()

    class Noting(admission.HttpConnection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            gone.set()

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * MUCH})

    monkeypatch.setattr(admission, "HttpConnection", Noting)
    async with served_by(page, timeout_keep_alive=0) as place:
        peer = await place.visit()
        cast(asyncio.Transport, peer.writer.transport).pause_reading()
        peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(DEADLINE):
            await gone.wait()


async def ask_and_ask(peer: Peer) -> None:
    """Ask until nothing more is taken, and then until the connection is ended."""
    async with asyncio.timeout(DEADLINE):
        while True:
            peer.send(post(4) + b"full")
            await peer.writer.drain()


async def test_one_that_speaks_no_tls_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_once(monkeypatch, "HEAD_S")
    pem = certificate(tmp_path)
    async with served_by(Doors(KEYRING), ssl_certfile=pem) as place:
        await (await place.visit()).ended()
        await (await place.visit(b"\x16\x03\x01")).ended()


async def test_a_peer_that_does_not_answer_a_close_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "CLOSING_S")
    async with served() as place:
        peer = await place.visit(upgrade("/relay/s", TOKEN))
        assert "101" in await peer.head()
        assert await peer.ended() != b""


# -- places


async def test_those_who_only_sit_there_make_room_and_those_with_a_token_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, "PATIENCE_S")
    monkeypatch.setattr(admission, "MOST", 3)
    async with served(Carrier("relay")) as place:
        friend = await place.visit(upgrade("/relay/s", TOKEN))
        assert "101" in await friend.head()
        strangers = [await place.visit(b"GET /half") for _ in range(10)]
        for each in strangers[:7]:
            await each.ended()
        assert not any(each.reader.at_eof() for each in strangers[7:])
        another = await place.visit(upgrade("/relay/s", TOKEN))
        assert "101" in await another.head()
        for each in (friend, another):
            each.send(frame(5, b"hello"))
            async with asyncio.timeout(DEADLINE):
                assert (await each.reader.readexactly(7))[2:] == b"hello"


async def test_many_who_come_at_the_same_time_all_get_in(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)
    monkeypatch.setattr(admission, "MOST", 3)
    async with served(Carrier()) as place:
        peers = [await place.visit() for _ in range(20)]
        for each in peers:
            each.send(post(0, TOKEN))
        for each in peers:
            assert " 202 " in await each.head()


async def test_a_handshake_that_is_not_over_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_once(monkeypatch, "PATIENCE_S")
    monkeypatch.setattr(admission, "MOST", 3)
    pem = certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(pem))
    trust.check_hostname = False
    async with served_by(Doors(KEYRING), ssl_certfile=pem) as place:
        first, *_ = [await place.visit() for _ in range(4)]
        await first.ended()
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port, ssl=trust)
        peer = Peer(reader, writer)
        peer.send(post(0))
        assert " 401 " in await peer.head()
        writer.transport.abort()


@pytest.mark.parametrize(
    ("limit", "most"),
    [(64, 16), (100_000, admission.MOST), (resource.RLIM_INFINITY, admission.MOST)],
)
def test_they_are_a_part_of_what_the_process_can_open(
    monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    strangers = admission.State().strangers
    monkeypatch.setattr(admission, "PATIENCE_S", 0)
    dropped: list[int] = []
    for number in range(most + 2):
        assert strangers.make_room()
        strangers.add(number, partial(dropped.append, number))
    assert dropped == [0, 1]


@contextmanager
def nothing_can_be_opened() -> Iterator[None]:
    """Let this process have no more files than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_a_descriptor_it_rests_and_then_takes_who_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at_once(monkeypatch)
    monkeypatch.setattr(admission, "REST_S", 0.2)
    tries = asyncio.Queue[None]()
    # Nothing else tells of a try that failed.
    fail = admission.ConnectionListener._fail  # pyright: ignore[reportPrivateUsage]  # see above

    def counted(listener: admission.ConnectionListener, error: OSError) -> None:
        tries.put_nowait(None)
        fail(listener, error)

    monkeypatch.setattr(admission.ConnectionListener, "_fail", counted)
    loop = asyncio.get_running_loop()
    async with served(Carrier()) as place:
        visitors = [socket.socket() for _ in range(5)]
        for each in visitors:
            each.setblocking(False)
        with nothing_can_be_opened():
            for each in visitors:
                await loop.sock_connect(each, ("127.0.0.1", place.port))
            async with asyncio.timeout(DEADLINE):
                await tries.get()
            for _ in range(100):
                await asyncio.sleep(0)
            assert tries.empty()
        for each in visitors:
            await loop.sock_sendall(each, post(0))
            async with asyncio.timeout(DEADLINE):
                assert b" 401 " in await loop.sock_recv(each, 1000)
            each.close()
    told = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert {each.getMessage() for each in told} == {
        "no connection can be taken: Too many open files"
    }
