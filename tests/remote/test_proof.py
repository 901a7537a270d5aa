"""An engine over HTTP shows its token to the server alone, and not to who listens in its place."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.events import Batch
from pilothouse.api.requests import Start
from pilothouse.errors import ServerError
from pilothouse.faces.http import Application
from pilothouse.remote import RemoteEngine, event_stream, proven_connection
from tests.support.certificates import certificate
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import TOKEN, make_app, served
from tests.support.ports import free_port
from tests.support.strangers import Stranger, has_ipv6, listening, pump

DEADLINE = 30
PATIENCE = 0.5

needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="needs ::1")

Verb = Callable[[RemoteEngine], Awaitable[Any]]


async def watch(engine: RemoteEngine) -> Batch:
    async with aclosing(engine.watch(0)) as stream:
        return await anext(stream)


VERBS: dict[str, Verb] = {"ask": RemoteEngine.health, "watch": watch}
both = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(event_stream, "LONGEST_PAUSE", 0.05)


@asynccontextmanager
async def engine_at(address: str, token: str = TOKEN) -> AsyncGenerator[RemoteEngine]:
    remote = RemoteEngine(address, token, patience=PATIENCE)
    try:
        async with asyncio.timeout(DEADLINE):
            yield remote
    finally:
        await remote.aclose()


async def fake() -> FakeEngine:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    return engine


def told(status: str, body: str = "", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


ANSWERS: dict[str, bytes | None] = {
    "what it was asked": b"",
    "nothing": None,
    "an error": told("401 Unauthorized"),
    "all is well": told("200 OK", '{"ok": true}'),
    "a proof it made up": told("200 OK", '{"proof": "%s"}' % ("0" * 64)),
    "go elsewhere": told("307 Temporary Redirect", more="Location: http://127.0.0.1:1/\r\n"),
    "a WebSocket": told("101 Switching Protocols", more="Upgrade: websocket\r\n"),
    "noise": bytes(range(256)) * 64,
}


@both
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_who_listens_at_the_old_address_gets_no_token(
    answer: bytes | None, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(await fake())
    async with served(app) as address, engine_at(address) as remote:
        await verb(remote)
    monkeypatch.setattr(proven_connection, "PROVES_WITHIN", 0.1)
    stranger = Stranger(answer)
    port = int(address.rpartition(":")[2])
    async with listening(stranger, port=port), engine_at(address) as remote:
        with pytest.raises(ServerError, match="the token was not sent"):
            await verb(remote)
    assert stranger.all_seen.startswith(b"GET /proof?nonce=")
    assert TOKEN.encode() not in stranger.all_seen
    assert b"authorization" not in stranger.all_seen.lower()


async def test_a_watcher_shows_it_to_nobody_for_as_long_as_it_comes_back() -> None:
    stranger = Stranger(ANSWERS["an error"])
    async with AsyncExitStack() as stack:
        async with served(make_app(await fake())) as address:
            remote = await stack.enter_async_context(engine_at(address))
            stream = await stack.enter_async_context(aclosing(remote.watch(0)))
            await anext(stream)
        async with listening(stranger, port=int(address.rpartition(":")[2])):
            with pytest.raises(ServerError, match=r"gone .*the token was not sent"):
                await anext(stream)
    assert len(stranger.seen) > 3
    assert TOKEN.encode() not in stranger.all_seen


async def test_a_watcher_goes_on_once_the_server_is_there_again() -> None:
    engine = await fake()
    async with served(make_app(engine)) as address:
        remote = RemoteEngine(address, TOKEN)
        stream = remote.watch(0)
        async with asyncio.timeout(DEADLINE):
            seen = (await anext(stream)).cursor
    port = int(address.rpartition(":")[2])
    waiting = asyncio.create_task(anext(stream))
    stranger = Stranger(ANSWERS["an error"])
    async with asyncio.timeout(DEADLINE), listening(stranger, port=port):
        await stranger.visits(2)
    engine.append("session-1")
    async with asyncio.timeout(DEADLINE), served(make_app(engine), port=port):
        assert (await waiting).cursor == seen + 1
        await stream.aclose()
        await remote.aclose()
    assert TOKEN.encode() not in stranger.all_seen


# Between the client and the server


def two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """`localhost` as most machines have it."""
    real = socket.getaddrinfo

    def look(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host != "localhost" or more.get("flags"):
            return real(host, port, *args, **more)
        return [*real("::1", port, *args, **more), *real("127.0.0.1", port, *args, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look)


@needs_ipv6
@both
@pytest.mark.parametrize("is_forwarding", [False, True])
async def test_who_listens_at_another_address_of_the_name_gets_no_token(
    is_forwarding: bool, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_places(monkeypatch)
    async with served(make_app(await fake())) as address:
        port = int(address.rpartition(":")[2])
        stranger = Stranger(told("200 OK"), forward_to=port if is_forwarding else None)
        async with (
            listening(stranger, "::1", port),
            engine_at(f"http://localhost:{port}") as remote,
        ):
            # The server is found, whoever else listens.
            assert await verb(remote)
    assert len(stranger.seen) == 1
    assert TOKEN.encode() not in stranger.all_seen


@needs_ipv6
@both
async def test_where_only_a_stranger_is_at_the_name_the_user_is_told(
    verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_places(monkeypatch)
    stranger = Stranger(told("200 OK", "{}"))
    async with listening(stranger, "::1"), engine_at(f"http://localhost:{stranger.port}") as remote:
        with pytest.raises(ServerError, match=r"something else .* at \[::1\]:\d+.*not sent"):
            await verb(remote)
    assert TOKEN.encode() not in stranger.all_seen


@both
async def test_who_makes_way_for_the_server_and_asks_it_then_gets_no_token(verb: Verb) -> None:
    kept: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not kept.done():
            kept.set_result((reader, writer))

    listener = await asyncio.start_server(keep, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with engine_at(f"http://127.0.0.1:{port}") as remote:
        asking = asyncio.ensure_future(verb(remote))
        reader, writer = await kept
        listener.close()
        async with served(make_app(await fake()), port=port):
            onward, server = await asyncio.open_connection("127.0.0.1", port)
            back = asyncio.create_task(pump(onward, writer))
            seen = await pump(reader, server)
            with pytest.raises(ServerError, match="not the server of this token"):
                await asking
            for each in (writer, server):
                each.close()
            assert b'{"proof":' in await back
    assert seen.startswith(b"GET /proof?nonce=")
    assert TOKEN.encode() not in seen


@both
async def test_no_proxy_and_no_other_place_is_shown_it(
    verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = Stranger()
    async with served(make_app(await fake())) as address, listening(stranger):
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
            proxy = f"http://127.0.0.1:{stranger.port}"
            monkeypatch.setenv(name, proxy)
            monkeypatch.setenv(name.upper(), proxy)
        async with engine_at(address) as remote:
            assert await verb(remote)
    assert stranger.seen == []


@both
async def test_a_server_with_a_certificate_sends_nobody_elsewhere(
    verb: Verb, tmp_path: Path
) -> None:
    pem = certificate(tmp_path, "127.0.0.1")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem)
    trusting = ssl.create_default_context(cafile=str(pem))
    elsewhere = Stranger()
    async with listening(elsewhere, tls=serving):
        there = f"Location: https://127.0.0.1:{elsewhere.port}/\r\n"
        first = Stranger(told("307 Temporary Redirect", more=there.replace("https", "wss")))
        async with listening(first, tls=serving):
            remote = RemoteEngine(f"https://127.0.0.1:{first.port}", TOKEN, tls=trusting)
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(ServerError, match="307"):
                    await verb(remote)
            await remote.aclose()
    # Its certificate is the proof, so there is none to ask for.
    assert b"/proof" not in first.all_seen
    assert elsewhere.seen == []


# With the server


class Visits:
    """The paths that were asked for, by the connections they were asked on."""

    def __init__(self, app: Application) -> None:
        self.paths: dict[int, list[str]] = {}
        inside: Any = app
        self._app, inside._entrance = inside._entrance, self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.setdefault(scope["client"][1], []).append(scope["path"])
        await self._app(scope, receive, send)

    @property
    def told(self) -> list[list[str]]:
        return [*self.paths.values()]


async def test_one_proof_is_enough_for_all_requests_of_a_connection() -> None:
    app = make_app(await fake())
    visits = Visits(app)
    async with served(app) as address, engine_at(address) as remote:
        for _ in range(3):
            await remote.health()
        await watch(remote)
    assert visits.told == [["/proof", "/healthz", "/healthz", "/healthz"], ["/proof", "/api/ws"]]


async def test_each_connection_is_proved() -> None:
    engine = await fake()
    app = make_app(engine)
    visits = Visits(app)
    everybody = asyncio.Barrier(4)
    health = engine.health

    async def together() -> Any:
        await everybody.wait()
        return await health()

    engine.health = together
    async with served(app) as address, engine_at(address) as remote:
        await asyncio.gather(*(remote.health() for _ in range(4)))
    assert visits.told == [["/proof", "/healthz"]] * 4


async def test_a_server_that_came_back_proves_itself_again() -> None:
    engine, port = await fake(), free_port()
    async with engine_at(f"http://127.0.0.1:{port}") as remote:
        for _ in range(2):
            app = make_app(engine)
            visits = Visits(app)
            async with served(app, port=port):
                await remote.health()
            assert visits.told == [["/proof", "/healthz"]]


@both
async def test_a_wrong_token_is_told_from_a_server_that_is_away(verb: Verb) -> None:
    app = make_app(await fake())
    visits = Visits(app)
    async with served(app) as address, engine_at(address, "another-token") as remote:
        with pytest.raises(ServerError, match="the token is another server's"):
            await verb(remote)
    # It is not asked again and again either.
    assert visits.told == [["/proof"]]


@both
async def test_a_name_that_the_server_does_not_go_by_is_told(
    verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def look(host: Any, *args: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "ship.example" else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    async with served(make_app(await fake())) as address:
        port = address.rpartition(":")[2]
        async with engine_at(f"http://ship.example:{port}") as remote:
            with pytest.raises(ServerError, match="setting `hosts`"):
                await verb(remote)


async def test_requests_end_when_the_engine_is_closed() -> None:
    engine = await fake()
    is_asked = asyncio.Event()

    async def never() -> Any:
        is_asked.set()
        await asyncio.Event().wait()

    engine.health = never
    async with asyncio.timeout(DEADLINE), served(make_app(engine)) as address:
        remote = RemoteEngine(address, TOKEN)
        asking = asyncio.create_task(remote.health())
        await is_asked.wait()
        await remote.aclose()
        with pytest.raises(ServerError):
            await asking
