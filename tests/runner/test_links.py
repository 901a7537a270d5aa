"""A runner's connection: to whom it goes, whom it believes, and when it gives up on a peer."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pilothouse.doors.listening import listen
from pilothouse.relay.refusals import HEADER, Refusal
from pilothouse.runner.control import FINAL
from tests.support.doors.runner_peer import Peer, hello
from tests.support.runner.server import House, Machine, house, runner
from tests.support.waiting import DEADLINE


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path / "there")
    yield made
    await made.clear()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, signed by itself, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=door", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(folder / "key"), "-out", str(folder / "cert")),
        ],
        check=True,
        capture_output=True,
    )
    pem = folder / "door.pem"
    pem.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return pem


class Link:
    """A way to a port on which everything can be made to stop, without anybody being told."""

    def __init__(self, port: int) -> None:
        self.url = ""
        self._port = port
        self._frozen: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    def freeze(self) -> None:
        """Carry nothing more on the connections there are."""
        self._frozen |= self._tasks

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(
                self._forward(reader, up_writer, own), self._forward(up_reader, writer, own)
            )
        finally:
            writer.transport.abort()
            up_writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: asyncio.Task[None]
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if own not in self._frozen:
                    writer.write(data)
                    await writer.drain()


async def test_a_runner_and_its_relays_come_over_tls(
    tmp_path: Path, machine: Machine, certificate: Path
) -> None:
    ca = str(certificate.with_name("cert"))
    async with house(tmp_path, certificate=certificate) as server:
        token = server.runners.add("box")
        async with runner(server.url, machine, token, "--ca", ca):
            await server.told.becomes("box", "connected")
            carrier = await server.start("box", machine.work)
            await carrier.until(lambda: carrier.lines != [])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_that_cannot_prove_itself_is_not_shown_the_token(
    tmp_path: Path, machine: Machine, certificate: Path, host: str
) -> None:
    """Nobody vouches for it, or its certificate is that of another host."""
    trust = ["--ca", str(certificate.with_name("cert"))] if host == "localhost" else []
    async with house(tmp_path, certificate=certificate) as server:
        token = server.runners.add("box")
        async with runner(f"wss://{host}:{server.port}", machine, token, *trust) as running:
            await _says(running.log, "certificate verify failed")
            await running.end()
        assert server.told.changes == [("box", "away")]


async def test_a_runner_comes_through_a_unix_socket_however_long_its_path(
    tmp_path: Path, machine: Machine
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    server = House(tmp_path)
    async with listen(server.doors, folder / "doors.sock"):
        token = server.runners.add("box")
        async with runner(f"unix:{folder}/doors.sock", machine, token):
            await server.told.becomes("box", "connected")
            carrier = await server.start("box", machine.work)
            await carrier.until(lambda: carrier.lines != [])
        await server.runners.aclose()


async def test_a_redirection_is_not_followed(machine: Machine) -> None:
    seen: list[bytes] = []
    elsewhere: list[bytes] = []
    twice = asyncio.Event()

    async def lead_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        answer = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "
        writer.write(f"{answer}ws://127.0.0.1:{port_of(trap)}/runner\r\n\r\n".encode())
        writer.close()
        if len(seen) == 2:
            twice.set()

    async def catch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(await reader.read(1))
        writer.close()

    trap = await asyncio.start_server(catch, "127.0.0.1", 0)
    lure = await asyncio.start_server(lead_on, "127.0.0.1", 0)
    async with runner(f"ws://127.0.0.1:{port_of(lure)}/prefix/", machine, "a-token") as running:
        async with asyncio.timeout(DEADLINE):
            await twice.wait()
        await running.end()
    for server in (trap, lure):
        server.close()
        await server.wait_closed()
    assert elsewhere == []
    assert seen[0].startswith(b"GET /prefix/runner HTTP/1.1\r\n")
    assert "HTTP 302" in running.said()


@pytest.mark.parametrize("code", [Refusal.TOKEN_REFUSED, Refusal.SESSION_UNKNOWN])
async def test_an_answer_that_names_a_refusal_for_good_ends_a_runner(
    machine: Machine, code: Refusal
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        named = f"{HEADER}: {code.value}\r\nContent-Length: 0"
        writer.write(f"HTTP/1.1 401 Unauthorized\r\n{named}\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server, runner(f"ws://127.0.0.1:{port_of(server)}", machine, "a-token") as running:
        assert await running.result() == 3
    assert FINAL[code] in running.said()


async def test_a_server_that_falls_silent_is_left_and_found_again(
    tmp_path: Path, machine: Machine
) -> None:
    async with house(tmp_path) as server, Link(server.port).opened() as link:
        token = server.runners.add("box")
        async with runner(link.url, machine, token, pace={"ping": 0.1, "silence": 0.4}):
            await server.told.becomes("box", "connected")
            carrier = await server.start("box", machine.work)
            await carrier.until(lambda: carrier.lines != [])
            link.freeze()
            connected = [("box", "connected")] * 2
            await server.told.until(lambda: server.told.changes[1:] == connected)
            assert server.runners.has("box", carrier.run) is True
    assert server.told.gone == []


async def test_a_connection_taken_by_somebody_else_once_is_taken_back(
    tmp_path: Path, machine: Machine
) -> None:
    async with house(tmp_path) as server:
        token = server.runners.add("box")
        async with runner(server.url, machine, token, pace={"replaced_delay": 0.05}):
            await server.told.becomes("box", "connected")
            async with Peer(server.runners, token) as other:
                other.say(hello(host="elsewhere"))
                assert await other.ended() == (4009, "another runner came with this token")
            assert server.runners.listed()[0].host != "elsewhere"


def port_of(server: asyncio.Server) -> int:
    return server.sockets[0].getsockname()[1]


async def _says(log: Path, text: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while text not in log.read_text():  # noqa: ASYNC110, ASYNC240 - another process writes it
            await asyncio.sleep(0.02)
