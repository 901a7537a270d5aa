"""The proof that a server knows the token, for callers who do not show it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pilothouse.api.proof import NONCE_LENGTH, Challenge, make_proof
from pilothouse.doors.http_server import make_server
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, TOKEN, calling, make_app, served
from tests.support.waiting import DEADLINE

NONCE = "Aa0_-" + "x" * (NONCE_LENGTH - 5)


async def asked(path: str, **more: Any) -> Any:
    async with calling(make_app(FakeEngine()), headers={}) as http:
        return await http.get(path, **more)


async def test_it_is_given_without_the_token_and_with_any() -> None:
    expected = {"proof": make_proof(TOKEN, NONCE, ("localhost", None), ("127.0.0.1", 1))}
    for headers in ({}, BEARER, {"Authorization": "Bearer guessed"}):
        answer = await asked(f"/proof?nonce={NONCE}", headers=headers)
        assert (answer.status_code, answer.json()) == (200, expected)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "nonce=",
        "nonce=short",
        f"nonce={NONCE}x",
        f"nonce={'n' * 50_000}",
        f"nonce={NONCE[:-1]}%0A",
        f"nonce={NONCE[:-1]}%00",
        f"nonce={NONCE[:-1]}%C3%A9",
        f"nonce={NONCE}&nonce={NONCE}",
        f"nonce={NONCE}&server=127.0.0.1",
    ],
)
async def test_a_nonce_has_one_form(query: str) -> None:
    answer = await asked(f"/proof?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"content-length": str(10**9)}, 413),
    ],
)
async def test_the_other_checks_stay(headers: dict[str, str], status: int) -> None:
    assert (await asked(f"/proof?nonce={NONCE}", headers=headers)).status_code == status


@pytest.mark.parametrize(
    "path", ["/proof/", "/x//proof", "/Proof", "/proof/x", "/healthz", "/console"]
)
async def test_nothing_else_is_open(path: str) -> None:
    assert (await asked(f"{path}?nonce={NONCE}")).status_code == 401


async def test_it_is_read_and_nothing_else() -> None:
    async with calling(make_app(FakeEngine()), headers={}) as http:
        answer = await http.post(f"/proof?nonce={NONCE}")
    assert answer.status_code == 405


async def test_a_websocket_needs_the_token_there_too() -> None:
    async with served(make_app(FakeEngine())) as address:
        url = f"{address.replace('http', 'ws')}/proof?nonce={NONCE}"
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, proxy=None)
    assert refused.value.response.status_code == 401


async def test_no_header_decides_whose_connection_it_is() -> None:
    """As the server is set up that `pilothouse serve` runs."""
    app = make_app(FakeEngine())
    started = asyncio.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = make_server(app, started.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(DEADLINE):
            await started.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ends = {
                "server": writer.get_extra_info("peername"),
                "client": writer.get_extra_info("sockname"),
            }
            challenge = Challenge(f"http://127.0.0.1:{port}", TOKEN, **ends)
            made_up = (
                b"X-Forwarded-For: 192.0.2.7:4711\r\nX-Forwarded-Host: a.example\r\n"
                b'X-Real-IP: 192.0.2.7\r\nForwarded: for="192.0.2.7:4711"\r\n\r\n'
            )
            writer.write(challenge.request[:-2] + made_up)
            while not challenge.receive(await reader.read(4096)):
                pass
            writer.close()
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, DEADLINE)
        listening.close()
