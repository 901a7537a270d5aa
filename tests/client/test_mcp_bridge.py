from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import SessionMessage

from pilothouse.client.tools import McpBridge, attach, tool_hosts
from tests.support.waiting import DEADLINE


def call(name: str, arguments: Any = None, request_id: int = 7, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def request(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def high_level_server() -> MCPServer:
    server = MCPServer("bridge", instructions="Ask away.")

    @server.tool()
    async def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    @server.tool()
    async def talk(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half way")
        return "talked"

    return server


HELLO = request(
    "initialize",
    0,
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)


async def introduce(bridge: McpBridge) -> dict[str, Any]:
    reply = await bridge.handle(HELLO)
    assert await bridge.handle(notification("notifications/initialized")) is None
    assert reply is not None
    return reply


async def test_a_server_of_the_mcp_package_is_served() -> None:
    bridge = attach(high_level_server())
    assert bridge.name == "bridge"
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        introduction = await introduce(bridge)
        assert introduction["id"] == 0
        assert introduction["result"]["protocolVersion"] == "2025-11-25"
        assert introduction["result"]["instructions"] == "Ask away."
        listed = await bridge.handle(request("tools/list"))
        assert listed is not None
        assert [each["name"] for each in listed["result"]["tools"]] == ["double", "talk"]
        reply = await bridge.handle(call("double", {"n": 21}))
        assert reply is not None
        assert reply["result"]["content"] == [{"type": "text", "text": "42"}]
        json.dumps(reply)
        await bridge.aclose()


async def test_an_attached_server_reports_progress_before_its_result() -> None:
    seen: list[Any] = []

    async def remember(message: dict[str, Any]) -> None:
        seen.append(message)

    bridge = attach(high_level_server(), name="other")
    assert bridge.name == "other"
    async with asyncio.timeout(DEADLINE):
        await bridge.start(remember)
        await introduce(bridge)
        await bridge.handle(call("talk", progressToken=5))
        await bridge.aclose()
    assert [each["method"] for each in seen] == ["notifications/progress"]
    assert seen[0]["params"]["progressToken"] == 5
    assert seen[0]["params"]["message"] == "half way"


async def test_a_failing_receiver_of_notifications_does_not_lose_the_result() -> None:
    async def fail(message: dict[str, Any]) -> None:
        raise LookupError(message["method"])

    bridge = attach(high_level_server())
    async with asyncio.timeout(DEADLINE):
        await bridge.start(fail)
        await introduce(bridge)
        reply = await bridge.handle(call("talk", progressToken=5))
        await bridge.aclose()
    assert reply is not None
    assert reply["result"]["content"][0]["text"] == "talked"


class LowLevel:
    """A low-level server with a tool that waits until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

        async def list_tools(ctx: Any, params: Any) -> Any:
            return types.ListToolsResult(tools=[])

        async def call_tool(ctx: Any, params: Any) -> Any:
            await self.hang()

        self.server = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)

    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
def low() -> LowLevel:
    return LowLevel()


async def test_cancelling_the_caller_reaches_an_attached_server(low: LowLevel) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        await introduce(bridge)
        caller = asyncio.create_task(bridge.handle(call("hang")))
        await low.started.wait()
        caller.cancel()
        await low.cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await bridge.aclose()


async def test_a_cancelled_call_to_an_attached_server_is_answered(low: LowLevel) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        await introduce(bridge)
        caller = asyncio.create_task(bridge.handle(call("hang")))
        await low.started.wait()
        await bridge.handle(notification("notifications/cancelled", requestId=7))
        reply = await caller
        await low.cancelled.wait()
        await bridge.aclose()
    assert reply is not None
    assert reply["error"]["code"] == -32800


async def test_a_second_request_with_a_taken_id_is_refused(low: LowLevel) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        await introduce(bridge)
        caller = asyncio.create_task(bridge.handle(call("hang")))
        await low.started.wait()
        reply = await bridge.handle(call("hang"))
        await bridge.aclose()
        await caller
    assert reply is not None
    assert reply["error"]["code"] == -32600


async def test_closing_answers_the_calls_of_an_attached_server(low: LowLevel) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        await introduce(bridge)
        caller = asyncio.create_task(bridge.handle(call("hang")))
        await low.started.wait()
        await bridge.aclose()
        reply = await caller
    assert low.cancelled.is_set()
    assert reply is not None
    assert reply["error"] == {"code": -32603, "message": "the server was stopped"}


class Asking:
    """A server that asks the client something, then answers what it was asked."""

    name = "asking"

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def create_initialization_options(self) -> None: ...

    async def run(self, reading: Any, writing: Any, options: Any) -> None:
        asked = (await anext(reading)).message.id
        for method in ("ping", "roots/list"):
            question = types.JSONRPCRequest(jsonrpc="2.0", id=method, method=method)
            await writing.send(SessionMessage(question))
            self.answers.append((await anext(reading)).message)
        noise = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/message")
        await writing.send(SessionMessage(noise))
        for request_id in ("nobody's", asked):
            answer = types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result={})
            await writing.send(SessionMessage(answer))


async def test_what_an_attached_server_asks_of_the_client_is_declined() -> None:
    asking = Asking()
    bridge = attach(asking)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        assert await bridge.handle(HELLO) == {"jsonrpc": "2.0", "id": 0, "result": {}}
        await bridge.aclose()
    pong, refusal = asking.answers
    assert (pong.id, pong.result) == ("ping", {})
    assert (refusal.id, refusal.error.code) == ("roots/list", -32601)


async def test_a_message_the_mcp_package_refuses_gets_a_json_rpc_error(low: LowLevel) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        reply = await bridge.handle({"jsonrpc": "1.0", "id": 3, "method": "ping"})
        await bridge.aclose()
    assert reply is not None
    assert (reply["id"], reply["error"]["code"]) == (3, -32600)


async def test_a_second_introduction_gets_a_fresh_server() -> None:
    lives: list[str] = []

    class Recording:
        name = "recording"

        def create_initialization_options(self) -> Any: ...

        async def run(self, reading: Any, writing: Any, options: Any) -> None:
            lives.append("start")
            async for item in reading:
                answer = types.JSONRPCResponse(jsonrpc="2.0", id=item.message.id, result={})
                await writing.send(SessionMessage(answer))
            lives.append("end")

    bridge = attach(Recording())
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        assert await bridge.handle(HELLO) == {"jsonrpc": "2.0", "id": 0, "result": {}}
        assert await bridge.handle(HELLO) == {"jsonrpc": "2.0", "id": 0, "result": {}}
        await bridge.aclose()
    assert sorted(lives) == ["end", "end", "start", "start"]


async def test_an_attached_server_that_fails_says_why_and_raises_nothing() -> None:
    class Broken:
        name = "broken"

        def create_initialization_options(self) -> Any: ...

        async def run(self, reading: Any, writing: Any, options: Any) -> None:
            await anext(reading)
            raise LookupError("no cable")

    bridge = attach(Broken())
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        first = await bridge.handle(HELLO)
        second = await bridge.handle(request("tools/list"))
        await bridge.aclose()
    for reply in (first, second):
        assert reply is not None
        assert reply["error"]["message"] == "the server failed: LookupError: no cable"


async def test_an_attached_server_is_started_once_and_not_used_before(low: LowLevel) -> None:
    bridge = attach(low.server)
    reply = await bridge.handle(HELLO)
    assert reply is not None
    assert reply["error"]["message"] == "server low is not running"
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        with pytest.raises(RuntimeError, match="in use"):
            await bridge.start()
        await bridge.aclose()
        await bridge.aclose()


@pytest.mark.parametrize("message", [[], {}, {"id": 1, "method": 5}, {"id": 1, "result": {}}])
async def test_a_malformed_message_does_not_reach_an_attached_server(
    low: LowLevel, message: Any
) -> None:
    bridge = attach(low.server)
    async with asyncio.timeout(DEADLINE):
        await bridge.start()
        reply = await bridge.handle(message)
        await bridge.aclose()
    assert reply is None or reply["error"]["code"] == -32600


def test_what_is_no_server_cannot_be_attached() -> None:
    with pytest.raises(TypeError, match="not a server of the mcp package"):
        attach(object())


def test_the_mcp_package_is_not_imported_until_a_server_is_started() -> None:
    code = "import sys, pilothouse.client.tools; print({'anyio', 'mcp'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_a_server_in_a_clients_options_is_attached_under_its_name_there(low: LowLevel) -> None:
    hosts = tool_hosts({"mine": low.server})
    assert isinstance(hosts["mine"], McpBridge)
    assert hosts["mine"].name == "mine"
    again = tool_hosts({"other": hosts["mine"]})
    assert again["other"].name == "other"
