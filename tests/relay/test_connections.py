"""How a relay reaches its door, notices that it is gone, and stands what should not happen."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse.relay.door_frames import Frame, FrameKind
from pilothouse.relay.refusals import HEADER, PERMANENT, Refusal
from tests.support.certificates import certificate as self_signed
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import ECHO, RunningRelay, python, relay
from tests.support.waiting import DEADLINE

QUICK = {"ping": 0.1, "silence": 0.3, "handshake": 0.3}


async def said(running: RunningRelay, text: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while text not in running.said():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, signed by itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"), "127.0.0.1")


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


async def test_lines_pass_over_tls(tmp_path: Path, certificate: Path) -> None:
    source = "print('\\n'.join(str(number) * 50 for number in range(20_000)))"
    ca = str(certificate)
    async with (
        RelayDoor(tls=server_tls(certificate)).opened() as door,
        relay(door.url, tmp_path, python(source), "--ca", ca) as running,
    ):
        await door.ended()
        assert await running.result() == 0
    assert door.lines == [str(number).encode() * 50 for number in range(20_000)]


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, certificate: Path
) -> None:
    async with (
        RelayDoor(tls=server_tls(certificate)).opened() as door,
        relay(door.url, tmp_path, python(ECHO)) as running,
    ):
        await said(running, "CERTIFICATE_VERIFY_FAILED")
    assert door.hellos == []


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path, certificate: Path) -> None:
    ca = str(certificate)
    async with RelayDoor(tls=server_tls(certificate)).opened() as door:
        url = door.url.replace("127.0.0.1", "localhost")
        async with relay(url, tmp_path, python(ECHO), "--ca", ca) as running:
            await said(running, "Hostname mismatch")
    assert door.hellos == []


# Reaching the door


async def test_a_name_is_looked_up_and_each_of_its_addresses_tried(tmp_path: Path) -> None:
    async with RelayDoor().opened() as door:
        # On most machines ::1 as well, where nobody listens.
        url = door.url.replace("127.0.0.1", "localhost")
        async with relay(url, tmp_path, python(ECHO)):
            await door.greeted()


async def test_a_name_that_nobody_knows_is_said_and_tried_again(tmp_path: Path) -> None:
    async with relay("ws://no-such-host.invalid", tmp_path, python(ECHO)) as running:
        await said(running, "no-such-host.invalid is not known")


async def test_a_relay_may_be_there_before_its_door(tmp_path: Path) -> None:
    door = RelayDoor(tmp_path / "socket")
    async with relay(door.url, tmp_path, python(ECHO)) as running:
        await said(running, "cannot connect")
        async with door.opened():
            await door.greeted()
            await door.say(b"hello")
            await door.has(1)


@asynccontextmanager
async def answering(head: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A server that answers every dial with this; its URL, and when it was dialled twice."""
    dials: list[bytes] = []
    twice = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dials.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()
        if len(dials) > 1:
            twice.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", twice


@pytest.mark.parametrize(
    "head",
    [
        "401 Unauthorized",
        "403 Forbidden",
        f"401 Unauthorized\r\n{HEADER}: 4999",
        f"401 Unauthorized\r\n{HEADER}: 4001\r\n{HEADER}: 4003",
        f"503 Service Unavailable\r\n{HEADER}: {Refusal.OTHER_SERVER.value}",
    ],
)
async def test_an_answer_that_is_no_websocket_is_tried_again(tmp_path: Path, head: str) -> None:
    async with answering(head) as (url, twice), relay(url, tmp_path, python(ECHO)) as running:
        async with asyncio.timeout(DEADLINE):
            await twice.wait()
        assert running.process.returncode is None
    assert f"HTTP {head[:3]}" in running.said()


@pytest.mark.parametrize("code", sorted(PERMANENT))
async def test_an_answer_that_names_a_refusal_for_good_is_believed(
    tmp_path: Path, code: Refusal
) -> None:
    head = f"401 Unauthorized\r\n{HEADER}: {code.value}"
    async with answering(head) as (url, _), relay(url, tmp_path, python(ECHO)) as running:
        assert await running.result() == 1
    assert code.name in running.said()


# Noticing that it is gone


async def test_a_door_that_takes_the_connection_and_says_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        async with relay(url, tmp_path, python(ECHO), pace=QUICK) as running:
            await said(running, "the door does not answer")


async def test_a_door_that_falls_silent_is_left_for_a_new_connection(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        Mute(door.port) as link,
        relay(link.url, tmp_path, python(ECHO), pace=QUICK) as running,
    ):
        await said(running, "connected")
        link.muted = True
        await said(running, "the door is silent")
        link.muted = False
        await door.until(lambda: len(door.hellos) > 1)
        await door.say(b"hello")
        await door.has(1)


async def test_a_silent_door_that_answers_pings_is_kept(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        Mute(door.port) as link,
        relay(link.url, tmp_path, python(ECHO), pace=QUICK) as running,
    ):
        await said(running, "connected")
        await link.passes(20)
        assert "silent" not in running.said()
    assert len(door.hellos) == 1


class Mute:
    """A link that can keep everything to itself without closing."""

    def __init__(self, port: int) -> None:
        self.muted = False
        self.url = ""
        self._passed = asyncio.Semaphore(0)
        self._port = port
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Mute:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, up_writer]
        for source, target in ((reader, up_writer), (up_reader, writer)):
            self._tasks.append(asyncio.ensure_future(self._forward(source, target)))

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            if not self.muted:
                target.write(data)
                self._passed.release()

    async def passes(self, times: int) -> None:
        """Wait until so many more pieces have passed, in both directions together."""
        async with asyncio.timeout(DEADLINE):
            for _ in range(times):
                await self._passed.acquire()


# What should not happen


async def refused(door: RelayDoor, running: RunningRelay, frame: Frame) -> None:
    await door.greeted()
    await door.send(frame)
    await door.greeted(2)
    assert "refused what the door sent" in running.said()
    assert door.closed_with == [Refusal.FRAME_REFUSED]


@pytest.mark.parametrize(
    "frame",
    [
        Frame(FrameKind.LINES, 2, 0, b"the second without the first\n"),
        Frame(FrameKind.ORDER, 5, 0, b'{"do": "kill"}'),
        Frame(FrameKind.ORDER, 1, 0, b"no order"),
        Frame(FrameKind.LINES, 1, 0, b"no newline"),
        Frame(FrameKind.ACK, 0, 1),
        Frame(FrameKind.HELLO, 0, 0, b"{}"),
        Frame(FrameKind.WELCOME, 0, 0, b'{"committed": 0}'),
    ],
)
async def test_a_frame_out_of_order_is_refused_and_the_connection_made_anew(
    tmp_path: Path, frame: Frame
) -> None:
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(ECHO)) as running:
        await refused(door, running, frame)
        await door.say(b"hello")
        await door.has(1)
    assert door.lines == [b"heard hello"]


async def test_the_newest_connection_wins_and_the_relay_comes_back(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(ECHO)) as running:
        await door.greeted()
        async with relay(door.url, other, ["sleep", "1000"], env={"PATH": "/usr/bin:/bin"}):
            await said(running, "4009")
        await door.say(b"hello")
        await door.has(1)
    assert door.lines == [b"heard hello"]
