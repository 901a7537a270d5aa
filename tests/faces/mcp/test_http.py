"""Clients over streamable HTTP, behind the guard of the API."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
import websockets
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

from pilothouse.faces.mcp import form_push
from pilothouse.faces.mcp.http import OverHttp, open_app
from pilothouse_sim.scenario import reply, tool
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, LIMIT, make_app, served
from tests.support.mcp.bare import INITIALIZE, INITIALIZED, LIST, OneToolServer
from tests.support.mcp.harness import McpHarness, OpenMcp, ToolCaller
from tests.support.waiting import DEADLINE

SESSION = "mcp-session-id"
ACCEPT = {"accept": "application/json, text/event-stream"}


class Place:
    """A server on loopback with an MCP server in it."""

    def __init__(self, app: OverHttp, address: str, house: OneToolServer) -> None:
        self.app = app
        self.house = house
        self.url = f"{address}/mcp"

    def raw(self, **headers: str) -> httpx.AsyncClient:
        given = {**BEARER, **ACCEPT, **headers}
        return httpx.AsyncClient(headers=given, timeout=DEADLINE, trust_env=False)

    @asynccontextmanager
    async def client(self, mode: str, **more: Any) -> AsyncGenerator[Client]:
        async with httpx2.AsyncClient(headers=BEARER, trust_env=False) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with asyncio.timeout(DEADLINE), Client(transport, mode=mode, **more) as client:
                yield client


@asynccontextmanager
async def placed(server: Server[Any] | None = None, **more: Any) -> AsyncGenerator[Place]:
    house = OneToolServer()
    served_one = server or house.server
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(served_one, body_limit=LIMIT, **more))
        api = make_app(FakeEngine(), mounts={"/mcp": app}, origins=["https://friend.example"])
        address = await stack.enter_async_context(served(api))
        stack.push_async_callback(app.aclose)
        yield Place(app, address, house)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    # A fixture begins and ends in different tasks, which the SDK's scopes do not allow.
    made: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
    leaving = asyncio.Event()

    async def hold() -> None:
        async with placed() as place:
            made.set_result(place)
            await leaving.wait()

    holding = asyncio.create_task(hold())
    yield await asyncio.wait_for(made, DEADLINE)
    leaving.set()
    await holding


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_clients_of_both_eras_are_served(place: Place, mode: str) -> None:
    async with place.client(mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["work"]
        result = await client.call_tool("work", {})
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "done"


async def test_two_clients_are_told_apart(place: Place) -> None:
    async with place.client("legacy") as one, place.client("legacy") as other:
        place.house.text = "both"
        results = await asyncio.gather(one.call_tool("work", {}), other.call_tool("work", {}))
    assert [result.is_error for result in results] == [False, False]


async def test_a_question_reaches_a_client_with_no_call_open(place: Place) -> None:
    asked = asyncio.Event()

    async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        assert isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action="accept", content={"text": params.message})

    async with place.client("legacy", elicitation_callback=answer) as client:
        await client.list_tools()
        # The client's own stream is opened beside the handshake; only then can it be asked.
        result = await place.house.elicit_until(asked)
    assert (result.action, result.content) == ("accept", {"text": "well?"})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_session_asks_a_person_in_a_form(desk: OpenMcp, mode: str) -> None:
    at = await desk(reply(tool("Bash", command="touch made", description="Make it")), "Made.")

    async def allow(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    async with placed(at.server) as place, place.client(mode, elicitation_callback=allow) as client:
        model = ToolCaller(client)
        status = await model.call(
            "claude_start", prompt="go", workingDirectory=str(at.house.cwd), waitSeconds=50
        )
        while status["status"] != "done":
            status = await model.waited(status["sessionId"], after=status["cursor"])
    assert (at.house.cwd / "made").exists()


class Listener:
    """A client with a handshake that opens no stream of its own: it hears what its calls bring."""

    def __init__(self, http: httpx.AsyncClient, place: Place) -> None:
        self.forms: list[str] = []
        self._http = http
        self._place = place
        self._ids = itertools.count(1)

    async def shake_hands(self) -> None:
        params = {**INITIALIZE["params"], "capabilities": {"elicitation": {}}}
        answer = await self._http.post(self._place.url, json={**INITIALIZE, "params": params})
        self._http.headers[SESSION] = answer.headers[SESSION]
        assert (await self._http.post(self._place.url, json=INITIALIZED)).status_code == 202

    async def call(self, name: str, does: str = "accept", **arguments: Any) -> Any:
        """The structured result. Every form that comes meanwhile is dealt with as is said."""
        params = {"name": name, "arguments": arguments}
        call = {**LIST, "id": next(self._ids), "method": "tools/call", "params": params}
        async with self._http.stream("POST", self._place.url, json=call) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data:") or not line[5:].strip():
                    continue
                told = json.loads(line[5:])
                if told.get("method") == "elicitation/create":
                    await self._fill_in(told, does)
                elif "result" in told:
                    return told["result"]["structuredContent"]
        raise AssertionError("the call has no answer")

    async def _fill_in(self, form: Any, does: str) -> None:
        self.forms.append(form["params"]["message"])
        result = {"action": does, "content": {"answer": "allow"}}
        answer = {"jsonrpc": "2.0", "id": form["id"], "result": result}
        if does != "leave":
            assert (await self._http.post(self._place.url, json=answer)).status_code == 202


MAKE = reply(tool("Bash", command="touch made", description="Make it"))


@asynccontextmanager
async def listening(at: McpHarness) -> AsyncGenerator[Listener]:
    async with asyncio.timeout(DEADLINE), placed(at.server) as place, place.raw() as http:
        listener = Listener(http, place)
        await listener.shake_hands()
        yield listener


async def test_a_form_comes_with_a_call_where_nothing_else_can_bring_it(desk: OpenMcp) -> None:
    at = await desk(MAKE, "Made.")
    async with listening(at) as client:
        status = await client.call(
            "claude_start", prompt="go", workingDirectory=str(at.house.cwd), waitSeconds=50
        )
    assert (status["status"], len(client.forms)) == ("done", 1)
    assert (at.house.cwd / "made").exists()


async def test_a_form_that_nothing_could_bring_comes_with_the_next_call(desk: OpenMcp) -> None:
    at = await desk(MAKE, "Made.")
    async with listening(at) as client:
        started = await client.call("claude_start", prompt="go", workingDirectory=str(at.house.cwd))
        session_id = started["sessionId"]
        cursor = (await at.house.until(session_id, "awaiting_input")).cursor
        status = await client.call(
            "claude_status", sessionId=session_id, after=cursor, waitSeconds=50
        )
    assert (status["status"], len(client.forms)) == ("done", 1)


async def test_a_form_that_a_call_has_brought_is_answered_after_it(desk: OpenMcp) -> None:
    at = await desk(MAKE, "Made.")
    async with listening(at) as client:
        started = await client.call("claude_start", prompt="go", workingDirectory=str(at.house.cwd))
        session_id = started["sessionId"]
        await at.house.until(session_id, "awaiting_input")
        for _ in range(2):
            # It is not shown twice: the person still has it.
            status = await client.call(
                "claude_status", "leave", sessionId=session_id, waitSeconds=1
            )
            assert (status["status"], len(client.forms)) == ("awaiting_input", 1)


async def test_a_form_comes_with_the_clients_own_stream_once_that_is_there(
    desk: OpenMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form_push, "LOOK_S", 0.01)
    at = await desk(MAKE, "Made.")
    async with asyncio.timeout(DEADLINE), placed(at.server) as place, place.raw() as http:
        client = Listener(http, place)
        await client.shake_hands()
        started = await client.call("claude_start", prompt="go", workingDirectory=str(at.house.cwd))
        await at.house.until(started["sessionId"], "awaiting_input")
        async with http.stream("GET", place.url) as stream:
            async for line in stream.aiter_lines():
                if "elicitation/create" in line:
                    await client._fill_in(json.loads(line[5:]), "accept")
                    break
        await at.house.until(started["sessionId"], "done")
    assert len(client.forms) == 1


STRANGERS = {
    "no token": ({"Authorization": ""}, 401),
    "a wrong token": ({"Authorization": "Bearer guessed"}, 401),
    "a foreign page": ({"origin": "https://evil.example"}, 403),
    "a foreign name": ({"host": "evil.example"}, 421),
}


async def test_strangers_are_refused(place: Place) -> None:
    for who, (headers, status) in STRANGERS.items():
        for method in ("POST", "GET", "DELETE"):
            async with place.raw(**headers) as http:
                answer = await http.request(method, place.url, json=INITIALIZE)
            assert (answer.status_code, "title" in answer.json()) == (status, True), (who, method)


async def test_a_page_that_may_ask_is_served(place: Place) -> None:
    async with place.raw(origin="https://friend.example") as http:
        assert (await http.post(place.url, json=INITIALIZE)).status_code == 200


async def test_too_large_a_request_is_refused_announced_or_not(place: Place) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * (LIMIT // 2)

    async with place.raw(**{"content-type": "application/json"}) as http:
        announced = await http.post(place.url, content=b" " * (LIMIT + 1))
        piecewise = await http.post(place.url, content=pieces())
    assert (announced.status_code, piecewise.status_code) == (413, 413)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01"])
async def test_malformed_requests_are_refused(place: Place, version: str) -> None:
    headers = {"content-type": "application/json", "mcp-protocol-version": version}
    async with place.raw(**headers) as http:
        for body in (b"what?", b"[]", b'{"jsonrpc": "1.0", "id": 1, "method": "x"}', b"[" * 9_999):
            answer = await http.post(place.url, content=body)
            assert (answer.status_code, "error" in answer.json()) == (400, True), body


async def shake_hands(http: httpx.AsyncClient, place: Place) -> None:
    answer = await http.post(place.url, json=INITIALIZE)
    http.headers[SESSION] = answer.headers[SESSION]
    assert (await http.post(place.url, json=INITIALIZED)).status_code == 202


async def test_a_session_that_its_client_ended_is_gone(place: Place) -> None:
    async with place.raw() as http:
        await shake_hands(http, place)
        assert (await http.post(place.url, json=LIST)).status_code == 200
        assert (await http.delete(place.url)).status_code == 200
        assert (await http.post(place.url, json=LIST)).status_code == 404


async def test_a_session_that_nobody_uses_ends() -> None:
    async with placed(idle_s=0.01) as place, place.raw() as http:
        await shake_hands(http, place)
        async with asyncio.timeout(DEADLINE):
            # Only another request tells that it has ended.
            while (await http.post(place.url, json=LIST)).status_code != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # longer than it may be idle


async def test_open_streams_and_calls_end_with_the_server(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    call = {**LIST, "method": "tools/call", "params": {"name": "work", "arguments": {"wait": 1}}}
    async with place.raw() as http:
        await shake_hands(http, place)
        async with (
            http.stream("GET", place.url) as standing,
            http.stream("POST", place.url, json=call) as calling,
        ):
            assert (standing.status_code, calling.status_code) == (200, 200)
            await asyncio.wait_for(place.house.waiting.wait(), DEADLINE)
            await asyncio.wait_for(place.app.aclose(), DEADLINE)
            # They end in order: one that was cut off would raise here.
            assert "error" not in await rest(standing)
            await rest(calling)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_a_waiting_call_of_the_other_era_ends_with_the_server(place: Place) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "work", "arguments": {"wait": 1}, "_meta": meta}
    call = {**LIST, "method": "tools/call", "params": params}
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "work",
    }
    async with place.raw(**headers) as http:
        asking = asyncio.create_task(http.post(place.url, json=call))
        await asyncio.wait_for(place.house.waiting.wait(), DEADLINE)
        await place.app.aclose()
        assert (await asking).status_code == 503
    assert place.house.cancelled.is_set()


async def rest(answer: httpx.Response) -> str:
    async with asyncio.timeout(DEADLINE):
        return "".join([each async for each in answer.aiter_text()])


async def test_a_client_that_vanishes_in_mid_call_of_the_other_era_ends_it(place: Place) -> None:
    async with place.client("2026-07-28") as client:
        calling = asyncio.create_task(client.call_tool("work", {"wait": True}))
        await asyncio.wait_for(place.house.waiting.wait(), DEADLINE)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await asyncio.wait_for(place.house.cancelled.wait(), DEADLINE)


async def test_its_requests_are_counted_with_the_others(place: Place) -> None:
    async with place.raw() as http:
        await http.post(place.url, json=INITIALIZE)
        told = (await http.get(place.url.replace("/mcp", "/metrics"))).text
    assert [line for line in told.splitlines() if 'route="/mcp"' in line]


async def test_it_is_also_found_with_a_slash_behind_it(place: Place) -> None:
    async with place.raw() as http:
        plain = await http.post(place.url, json=INITIALIZE)
        answer = await http.post(place.url + "/", json=INITIALIZE)
        assert (plain.status_code, answer.status_code) == (200, 200)
        assert (await http.post(place.url + "//", json=INITIALIZE)).status_code == 404


async def test_a_socket_is_refused(place: Place) -> None:
    url = place.url.replace("http", "ws", 1)
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url, additional_headers=BEARER, proxy=None)
    assert refused.value.response.status_code == 403
