"""A runner's connection: to whom it goes, whom it believes, and when it gives up on a peer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from pilothouse import __version__
from pilothouse.doors.http_server import serve_at
from pilothouse.relay.refusals import HEADER, Refusal
from pilothouse.runner.control import FINAL
from tests.support.certificates import certificate as self_signed
from tests.support.doors.runner_peer import RunnerPeer, hello
from tests.support.links import Link
from tests.support.runner.server import RunnerHost, RunnerServer, runner, runner_server
from tests.support.waiting import DEADLINE


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[RunnerHost]:
    made = RunnerHost(tmp_path / "there")
    yield made
    await made.clear()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, signed by itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"), "127.0.0.1")


async def test_a_runner_and_its_relays_come_over_tls(
    tmp_path: Path, machine: RunnerHost, certificate: Path
) -> None:
    ca = str(certificate)
    async with runner_server(tmp_path, certificate=certificate) as server:
        token = server.runners.add("box")
        async with runner(server.url, machine, token, "--ca", ca):
            await server.told.becomes("box", "connected")
            carrier = await server.start("box", machine.work)
            await carrier.until(lambda: carrier.lines != [])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_that_cannot_prove_itself_is_not_shown_the_token(
    tmp_path: Path, machine: RunnerHost, certificate: Path, host: str
) -> None:
    """Nobody vouches for it, or its certificate is that of another host."""
    trust = ["--ca", str(certificate)] if host == "localhost" else []
    async with runner_server(tmp_path, certificate=certificate) as server:
        token = server.runners.add("box")
        async with runner(f"wss://{host}:{server.port}", machine, token, *trust) as running:
            await _says(running.log, "certificate verify failed")
            await running.end()
        assert server.told.changes == [("box", "away")]


async def test_a_runner_comes_through_a_unix_socket_however_long_its_path(
    tmp_path: Path, machine: RunnerHost
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    server = RunnerServer(tmp_path)
    async with serve_at(server.doors, folder / "doors.sock"):
        token = server.runners.add("box")
        async with runner(f"unix:{folder}/doors.sock", machine, token):
            await server.told.becomes("box", "connected")
            carrier = await server.start("box", machine.work)
            await carrier.until(lambda: carrier.lines != [])
        await server.runners.aclose()


async def test_a_redirection_is_not_followed(machine: RunnerHost) -> None:
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
    machine: RunnerHost, code: Refusal
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


async def test_tls_to_a_server_without_it_is_told_with_what_to_do(
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with runner_server(tmp_path) as server:
        token = server.runners.add("box")
        async with runner(f"wss://127.0.0.1:{server.port}", machine, token) as running:
            await _says(running.log, "if the server has no certificate, use ws://; trying again")
            await running.end()


async def test_where_nobody_listens_it_says_what_to_start_and_goes_on_trying(
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with runner_server(tmp_path) as server:
        token = server.runners.add("box")
        await server.close()
        async with runner(server.url, machine, token) as running:
            await _says(running.log, f"nobody listens at {server.url}: start `pilothouse serve`")
            await server.open()
            await server.told.becomes("box", "connected")
            await running.end()
    assert "trying again until there is one" in running.said()
    assert "no session is left here" in running.said()


async def test_a_token_that_is_refused_is_told_with_how_to_get_another(
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with (
        runner_server(tmp_path) as server,
        runner(server.url, machine, "no-token-of-theirs") as running,
    ):
        assert await running.result() == 3
    assert "`pilothouse runners add NAME` makes a new one" in running.said()
    assert "trying again" not in running.said()


async def test_a_server_that_says_what_no_server_says_is_taken_for_another_version(
    machine: RunnerHost,
) -> None:
    async with _greeting('{"type": "ahoy"}') as url, runner(url, machine, "a-token") as running:
        await _says(running.log, "it may be of another version than this runner")
        await running.end()


async def test_a_server_of_another_version_is_named(machine: RunnerHost) -> None:
    welcome = '{"type": "welcome", "name": "box", "program": "7.0"}'
    async with _greeting(welcome) as url, runner(url, machine, "a-token") as running:
        await _says(running.log, f"the server is Pilothouse 7.0, this runner {__version__}")
        await running.end()


@asynccontextmanager
async def _greeting(text: str) -> AsyncIterator[str]:
    """A server that says this first."""

    async def greet(connection: ServerConnection) -> None:
        await connection.send(text)
        await connection.wait_closed()

    async with serve(greet, "127.0.0.1", 0) as server:
        [listener] = server.sockets
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_server_that_falls_silent_is_left_and_found_again(
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with runner_server(tmp_path) as server, Link(server.port).opened() as link:
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
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with runner_server(tmp_path) as server:
        token = server.runners.add("box")
        async with runner(server.url, machine, token, pace={"replaced_delay": 0.05}):
            await server.told.becomes("box", "connected")
            async with RunnerPeer(server.runners, token) as other:
                other.say(hello(host="elsewhere"))
                assert await other.ended() == (4009, "another runner came with this token")
            assert server.runners.listed()[0].host != "elsewhere"


def port_of(server: asyncio.Server) -> int:
    return server.sockets[0].getsockname()[1]


async def _says(log: Path, text: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while text not in log.read_text():  # noqa: ASYNC110, ASYNC240 - another process writes it
            await asyncio.sleep(0.02)
