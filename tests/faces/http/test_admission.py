"""Whoever shows the token is no stranger to the listener, and nobody else is a friend."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pilothouse.doors import admission
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, LIMIT, TOKEN, make_app, served

DEADLINE = 20
MUCH = 64 * 1024 * 1024
LITTLE = 8 * 1024 * 1024


@pytest.fixture
async def address() -> AsyncGenerator[str]:
    async with served(make_app(FakeEngine())) as address:
        yield address


async def visit(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = urlsplit(address)
    return await asyncio.open_connection(url.hostname, url.port)


def post(length: int, *headers: str) -> bytes:
    lines = ["POST /api/sessions HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


async def test_a_body_without_the_token_is_not_kept(address: str) -> None:
    async def body() -> AsyncGenerator[bytes]:
        piece = bytes(64 * 1024)
        for _ in range(MUCH // len(piece)):
            yield piece

    tracemalloc.start()
    try:
        async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
            response = await http.post("/api/sessions", content=body(), timeout=DEADLINE)
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()
    assert response.status_code == 401


async def test_a_body_with_the_token_has_its_time(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "BODY_S", 0.05)
    body = b'{"prompt": "hello", "cwd": "/"}'
    slow, slow_writer = await visit(address)
    slow_writer.write(post(len(body), f"Authorization: Bearer {TOKEN}") + body[:5])
    stranger, stranger_writer = await visit(address)
    stranger_writer.write(post(len(body)) + body[:5])
    async with asyncio.timeout(DEADLINE):
        assert b" 401 " in await stranger.read()
        slow_writer.write(body[5:])
        assert b" 201 " in await slow.readline()
    for each in (slow_writer, stranger_writer):
        each.transport.abort()


async def test_a_websocket_with_the_token_may_say_much(address: str) -> None:
    url = address.replace("http", "ws", 1) + "/api/ws"
    async with asyncio.timeout(DEADLINE), connect(url, additional_headers=BEARER) as socket:
        await socket.recv()
        await socket.send("x" * (LIMIT + admission.EARLY))
        assert "too-large" in str(await socket.recv())
        with pytest.raises(InvalidStatus):
            await connect(url)


async def test_those_who_only_sit_there_keep_nobody_with_the_token_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MOST", 20)
    monkeypatch.setattr(admission, "PATIENCE_S", 0.05)
    async with served(make_app(FakeEngine())) as address:
        sitting = [await visit(address) for _ in range(100)]
        for _, writer in sitting:
            writer.write(b"GET /api/sessions HTTP/1.1\r\n")
        async with httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False) as http:
            for _ in range(10):
                assert (await http.get("/healthz", timeout=DEADLINE)).status_code == 200
        for _, writer in sitting:
            writer.transport.abort()
