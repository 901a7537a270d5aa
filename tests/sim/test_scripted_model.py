from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pilothouse_sim.scenario import ApiError, Broken, Reply, Scenario, gate, reply, text, tool
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.waiting import DEADLINE


class Http:
    """A bare HTTP/1.1 client on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, path: str, body: bytes = b"", *headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    def ask(self, *, stream: bool = True, prompt: str = "Hello.", **more: Any) -> None:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": "m", "max_tokens": 9, "stream": stream, "messages": messages, **more}
        self.send("POST", "/v1/messages?beta=true", json.dumps(body).encode())

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split()[1]), headers

    async def json(self) -> tuple[int, dict[str, str], Any]:
        status, headers = await self.head()
        body = await self.reader.readexactly(int(headers["content-length"]))
        return status, headers, json.loads(body)

    async def event(self) -> Any:
        """The data of the next event; None at the end of the stream."""
        size = int(await self.reader.readline(), 16)
        chunk = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        if not chunk:
            return None
        name, data = chunk.decode().removesuffix("\n\n").split("\n")
        assert name.startswith("event: ")
        return json.loads(data.removeprefix("data: "))

    async def events(self) -> list[Any]:
        found: list[Any] = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found


@asynccontextmanager
async def serving(*replies: Any) -> AsyncIterator[tuple[ScriptedModel, Http]]:
    async with (
        asyncio.timeout(DEADLINE),
        ScriptedModel(Scenario(replies=[*replies])) as model,
        connected(model) as http,
    ):
        yield model, http


@asynccontextmanager
async def connected(model: ScriptedModel) -> AsyncIterator[Http]:
    host, port = model.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Http(reader, writer)
    finally:
        writer.close()


async def test_a_stream_carries_the_reply() -> None:
    async with serving(reply(text("Hello.", chunk=2))) as (_, http):
        http.ask()
        status, headers = await http.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        deltas = [event.get("delta", {}).get("text", "") for event in await http.events()]
        assert "".join(deltas) == "Hello."


async def test_a_call_that_does_not_stream_gets_one_message() -> None:
    async with serving(reply("Hi", tool("Bash", command="ls"))) as (_, http):
        http.ask(stream=False)
        status, _, message = await http.json()
        assert (status, message["stop_reason"]) == (200, "tool_use")
        assert [block["type"] for block in message["content"]] == ["text", "tool_use"]


async def test_one_connection_serves_many_calls() -> None:
    async with serving(reply("one"), reply("two")) as (model, http):
        for _ in range(2):
            http.ask()
            await http.head()
            await http.events()
        assert len(model.requests) == 2


async def test_a_body_in_chunks_is_understood() -> None:
    async with serving(reply("Hi")) as (model, http):
        body = json.dumps({"messages": [{"role": "user", "content": "in pieces"}]}).encode()
        http.writer.write(b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (body[:7], body[7:], b""):
            http.writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await http.json()
        assert model.requests[0].prompt == "in pieces"


async def test_a_gate_holds_the_stream_until_it_is_released() -> None:
    async with serving(reply("Hel", gate("mid"), "lo")) as (model, http):
        http.ask()
        await model.reached("mid")
        await http.head()
        held = [await http.event() for _ in range(3)]
        assert held[-1]["delta"]["text"] == "Hel"
        model.release("mid")
        rest = await http.events()
        assert rest[0]["delta"]["text"] == "lo"


async def test_a_gate_holds_a_whole_message_too() -> None:
    async with serving(reply(gate("before"), "Hi")) as (model, http):
        http.ask(stream=False)
        await model.reached("before")
        model.release("before")
        assert (await http.json())[0] == 200


async def test_requests_are_kept_and_can_be_waited_for() -> None:
    async with serving(reply("one")) as (model, http):
        waiting = asyncio.create_task(model.asked(1))
        http.ask(prompt="What is kept?", tools=[{"name": "Read"}])
        request = await waiting
        assert (request.prompt, request.tools) == ("What is kept?", ("Read",))
        assert request.body["max_tokens"] == 9


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 529])
async def test_an_error_is_answered_as_the_api_does(status: int) -> None:
    error = ApiError(status=status, message="no", headers={"retry-after": "0"})
    async with serving(error) as (_, http):
        http.ask()
        got, headers, body = await http.json()
        assert (got, headers["retry-after"]) == (status, "0")
        assert body["error"] == {"type": error.error_type, "message": "no"}


async def test_a_cut_stream_ends_without_its_last_events() -> None:
    async with serving(Broken(reply=reply("never"), after=2)) as (_, http):
        http.ask()
        await http.head()
        assert [(await http.event())["type"] for _ in range(2)] == [
            "message_start",
            "content_block_start",
        ]
        assert await http.reader.read() == b""


async def test_a_malformed_event_stands_among_good_ones() -> None:
    async with serving(Broken(reply=reply("Hi"), after=1, how="malformed")) as (_, http):
        http.ask()
        await http.head()
        assert (await http.event())["type"] == "message_start"
        with pytest.raises(json.JSONDecodeError):
            await http.event()
        assert (await http.events())[-1]["type"] == "message_stop"


async def test_a_stalled_stream_waits_for_its_gate() -> None:
    broken = Broken(reply=reply("Hi"), after=1, how="stall", gate="later")
    async with serving(broken) as (model, http):
        http.ask()
        await model.reached("later")
        model.release("later")
        await http.head()
        assert (await http.events())[-1]["type"] == "message_stop"


async def test_everything_else_gets_a_harmless_answer() -> None:
    async with serving() as (model, http):
        http.send("HEAD", "/")
        assert (await http.head())[0] == 200
        http.send("GET", "/api/anything")
        assert (await http.json())[2] == {}
        http.send("POST", "/api/event_logging/batch", b"{}")
        assert (await http.json())[2] == {}
        http.send("POST", "/v1/messages/count_tokens?beta=true", b'{"messages": []}')
        assert (await http.json())[2]["input_tokens"] > 0
        assert not model.requests


async def test_a_client_that_goes_away_harms_nobody() -> None:
    async with serving(reply("Hel", gate("mid"), "lo"), reply("two")) as (model, http):
        http.ask()
        await model.reached("mid")
        http.writer.transport.abort()
        model.release("mid")
        async with connected(model) as other:
            other.ask()
            await other.head()
            assert (await other.events())[-1]["type"] == "message_stop"


async def test_closing_cuts_what_is_still_held() -> None:
    async with asyncio.timeout(DEADLINE):
        held: Reply = reply("Hel", gate("never"), "lo")
        async with ScriptedModel(Scenario(replies=[held])) as model, connected(model) as http:
            http.ask()
            await model.reached("never")
            await model.aclose()
            await model.aclose()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await http.reader.readuntil(b"message_stop")
