"""One client over a pair of pipes: what it may say, and how it may go away."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from pilothouse.faces.mcp import stdio
from pilothouse.faces.mcp.stdio import KEPT, LineSplitter, TooLong, serve
from tests.support.mcp.bare import INITIALIZE, INITIALIZED, LIST, OneToolServer
from tests.support.waiting import DEADLINE

LONGEST = 200_000
LONG = b"x" * LONGEST


class Client:
    """The other ends of the server's pipes."""

    def __init__(self, house: OneToolServer) -> None:
        self._reading, self._answers = os.pipe()
        requests, self._writing = os.pipe()
        self._server_ends = (requests, self._answers)
        self.house = house
        self._serving = asyncio.create_task(
            serve(house.server, *self._server_ends, longest=LONGEST)
        )
        self._begun = b""

    async def send(self, *messages: Any) -> None:
        for each in messages:
            line = each if isinstance(each, bytes) else json.dumps(each).encode()
            await asyncio.to_thread(self.write, line + b"\n")

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._writing, data) :]

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE):
            while b"\n" not in self._begun:
                chunk = await asyncio.to_thread(os.read, self._reading, 1 << 16)
                assert chunk, "the server said nothing more"
                self._begun += chunk
        line, _, self._begun = self._begun.partition(b"\n")
        return json.loads(line)

    async def ask(self, message: Any) -> dict[str, Any]:
        await self.send(message)
        return await self.receive()

    def stop_writing(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def stop_reading(self) -> None:
        if self._reading >= 0:
            os.close(self._reading)
        self._reading = -1

    async def ended(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self._serving

    def cancel(self) -> None:
        self._serving.cancel()

    async def aclose(self) -> None:
        self.stop_writing()
        with suppress(asyncio.CancelledError):
            await self.ended()
        self.stop_reading()
        for each in self._server_ends:
            os.close(each)


@asynccontextmanager
async def connected() -> AsyncGenerator[Client]:
    client = Client(OneToolServer())
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """One that has shaken hands."""
    async with connected() as client:
        assert (await client.ask(INITIALIZE))["id"] == 1
        await client.send(INITIALIZED)
        yield client


async def test_a_client_is_served_until_it_says_no_more(client: Client) -> None:
    answer = await client.ask(LIST)
    assert [each["name"] for each in answer["result"]["tools"]] == ["work"]
    client.stop_writing()
    await client.ended()


@pytest.mark.parametrize("turns", range(12))
async def test_it_can_be_ended_while_a_message_comes(turns: int, client: Client) -> None:
    client.write(json.dumps(LIST).encode() + b"\n")
    for _ in range(turns):
        await asyncio.sleep(0)
    client.cancel()
    with suppress(asyncio.CancelledError):
        await client.ended()


async def test_one_without_a_handshake_is_served_too() -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with connected() as client:
        answer = await client.ask({**LIST, "params": {"_meta": meta}})
        assert answer["result"]["tools"][0]["name"] == "work"


WRONG = {
    "no JSON": (b"hello?", None, types.PARSE_ERROR),
    "half of it": (b'{"jsonrpc": "2.0", "id": 3', None, types.PARSE_ERROR),
    "no UTF-8": (b'{"jsonrpc": "2.0", "id": 3, "method": "\xff"}', 3, types.PARSE_ERROR),
    "depth": (b"[" * 100_000, None, types.PARSE_ERROR),
    "no object": (b"17", None, types.INVALID_REQUEST),
    "a batch": ([LIST, LIST], None, types.INVALID_REQUEST),
    "another version": ({**LIST, "jsonrpc": "1.0"}, "list", types.INVALID_REQUEST),
    "a number as method": ({**LIST, "method": 5}, "list", types.INVALID_REQUEST),
    "a list of params": ({**LIST, "params": [1]}, "list", types.INVALID_REQUEST),
    "an object as id": ({**LIST, "id": {}}, None, types.INVALID_REQUEST),
    "no id": ({**LIST, "id": None}, None, types.INVALID_REQUEST),
    "an unknown method": ({**LIST, "method": "tools/burn"}, "list", types.METHOD_NOT_FOUND),
    "params of a wrong type": (
        {**LIST, "method": "tools/call", "params": {"name": 7}},
        "list",
        types.INVALID_PARAMS,
    ),
    "a long line": (b"x" * (LONGEST + 1), None, types.INVALID_REQUEST),
    "a long call": (
        b'{"jsonrpc":"2.0","method":"tools/call","id":"list","params":{"x":"' + LONG,
        "list",
        types.INVALID_REQUEST,
    ),
    "a long call whose own id comes too late": (
        b'{"method":"tools/call","params":{"arguments":{"id":"q-1","x":"' + LONG + b'"}},"id":1}',
        None,
        types.INVALID_REQUEST,
    ),
    "a long call whose id is cut": (
        b'{"method":"tools/call",' + b" " * (KEPT - 29) + b'"id":123,"params":"' + LONG,
        None,
        types.INVALID_REQUEST,
    ),
    "half a surrogate pair": (
        b'{"id":"list","method":"tools/call","params":{"name":"\\ud800"},"jsonrpc":"2.0"}',
        "list",
        types.PARSE_ERROR,
    ),
    "a call that is cut": (b'{"id": 3, "method": "x", "params', 3, types.PARSE_ERROR),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_said_and_the_client_is_served_on(name: str, client: Client) -> None:
    line, request_id, code = WRONG[name]
    answer = await client.ask(line)
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)
    assert "result" in await client.ask(LIST)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \r",
        {"jsonrpc": "2.0", "id": 99, "result": "nobody asked, and it is no object"},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}},
        {"jsonrpc": "2.0", "method": "notifications/unheard_of"},
        b'{"jsonrpc":"2.0","id":99,"result":{"content":"' + LONG,
        b'{"jsonrpc":"2.0","id":99,"result":{"content":"\\ud800"}}',
    ],
)
async def test_what_wants_no_answer_gets_none(line: Any, client: Client) -> None:
    await client.send(line)
    assert (await client.ask(LIST))["id"] == "list"


@pytest.mark.parametrize("text", [b"\\ud800", LONG])
async def test_an_answer_that_cannot_be_read_is_not_waited_for_any_longer(
    client: Client, text: bytes
) -> None:
    await client.ask(LIST)
    asking = asyncio.create_task(client.house.elicit())
    form = await client.receive()
    beginning = f'{{"jsonrpc":"2.0","id":{form["id"]},"result":{{"action":"accept","content":"'
    await client.send(beginning.encode() + text + b'"}}')
    with pytest.raises(MCPError):
        await asyncio.wait_for(asking, DEADLINE)


async def test_a_fault_before_the_handshake_is_answered() -> None:
    async with connected() as client:
        assert (await client.ask(b"GET / HTTP/1.1"))["error"]["code"] == types.PARSE_ERROR
        assert (await client.ask(INITIALIZE))["id"] == 1


async def test_an_answer_that_fills_the_pipe_many_times_arrives(client: Client) -> None:
    client.house.text = "ü" * 500_000
    answer = await client.ask(call({}))
    assert answer["result"]["content"][0]["text"] == client.house.text


async def test_an_answer_that_is_no_text_is_an_error_and_the_client_is_served_on(
    client: Client,
) -> None:
    client.house.text = "half a pair: \ud800"
    answer = await client.ask(call({}))
    assert answer["id"] == "call"
    assert "error" in answer
    assert "result" in await client.ask(LIST)


def call(arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": "work", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params}


async def test_one_that_goes_in_mid_call_ends_the_call(client: Client) -> None:
    await client.send(call({"wait": True}))
    await asyncio.wait_for(client.house.waiting.wait(), DEADLINE)
    client.stop_writing()
    await client.ended()
    assert client.house.cancelled.is_set()


async def test_one_that_goes_in_mid_line_is_gone(client: Client) -> None:
    client.write(b'{"jsonrpc": "2.0", "id": 7, "meth')
    client.stop_writing()
    await client.ended()


async def test_one_that_never_spoke_is_gone() -> None:
    async with connected() as client:
        client.stop_writing()
        await client.ended()


async def test_one_that_is_killed_in_mid_call_ends_it(client: Client) -> None:
    await client.send(call({"wait": True}))
    await asyncio.wait_for(client.house.waiting.wait(), DEADLINE)
    client.stop_reading()
    client.stop_writing()
    await client.ended()
    assert client.house.cancelled.is_set()


async def test_one_that_reads_no_more_is_gone(client: Client) -> None:
    client.stop_reading()
    await client.send(LIST)
    await client.ended()


async def test_one_that_reads_nothing_of_what_it_asked_for_keeps_nobody(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.1)
    client.house.text = "x" * 1_000_000
    await client.send(call({}), LIST)
    client.stop_writing()
    await client.ended()


async def test_a_file_can_be_read_and_written(tmp_path: Any) -> None:
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    requests.write_bytes(b"\n".join([json.dumps(INITIALIZE).encode(), b"what?", b""]))
    reading = os.open(requests, os.O_RDONLY)
    writing = os.open(answers, os.O_WRONLY | os.O_CREAT, 0o600)
    async with asyncio.timeout(DEADLINE):
        await serve(OneToolServer().server, reading, writing, longest=LONGEST)
    os.close(reading)
    os.close(writing)
    told = [json.loads(line) for line in answers.read_text().splitlines()]
    assert types.PARSE_ERROR in [each.get("error", {}).get("code") for each in told]


# Lines


@given(
    st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 100), max_size=8),
)
def test_lines_do_not_depend_on_where_the_bytes_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(each + b"\n" for each in lines)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    cutter = LineSplitter(8)
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    found = [line for piece in pieces for line in cutter.feed(piece)]
    assert found == [each if len(each) <= 8 else TooLong(each) for each in lines]
