"""In-process tools: what the model is told of their results, and calls that are interrupted."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from pilothouse import (
    Allow,
    Image,
    ToolAnnotations,
    ToolContext,
    ToolResult,
    ToolServer,
    attach,
    tool,
)
from pilothouse.protocol import ControlCancelRequest, ControlRequest, McpMessage
from pilothouse_sim.scenario import reply
from pilothouse_sim.scenario import tool as call
from tests.support.real.desk import Desk, OpenDesk, conversation
from tests.support.real.handlers import Handler, Holding, result_blocks, results
from tests.support.real.turns import unread
from tests.support.versions import NEWEST
from tests.support.waiting import DEADLINE

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@tool(annotations=ToolAnnotations(read_only=True))
async def add(a: int, b: Annotated[int, "the second number"] = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
async def chart(place: str, context: ToolContext) -> dict[str, Any]:
    """Look a place up on the chart."""
    return {"place": place, "depth": 12.5, "asked_by": context.tool_use_id}


@tool
async def picture() -> list[Any]:
    """Take a picture."""
    return ["the harbour", Image(PIXEL)]


@tool
async def sink() -> None:
    """Fail."""
    raise RuntimeError("hull breached")


@tool
async def warn() -> ToolResult:
    """Report trouble in full."""
    return ToolResult(["fog ahead"], is_error=True)


@tool
async def greet() -> str:
    """Say something without arguments."""
    return "ahoy ⚓"


SHIP = ToolServer([add, chart, picture, sink, warn, greet], name="ship", instructions="Be brief.")


async def called(desk: OpenDesk, name: str, servers: Any = None, /, **arguments: Any) -> Desk:
    """One turn in which the model calls the tool, which no question holds up."""
    it = await desk(reply(call(f"mcp__ship__{name}", **arguments)), reply("Aye."))
    client = await it.client(mcp_servers=servers or {"ship": SHIP}, allowed_tools=["mcp__ship"])
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("do it")
    assert (turn.outcome, turn.text) == ("finished", "Aye.")
    return it


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_the_model_reads_what_a_tool_returns(desk: OpenDesk) -> None:
    # H8, H9
    it = await called(desk, "add", a=2, b=3)
    assert results(it) == ["5"]


async def test_a_text_reaches_the_model_as_it_is(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "greet")
    assert results(it) == ["ahoy ⚓"]


async def test_the_model_is_offered_the_tools_with_their_schemas(desk: OpenDesk) -> None:
    # H8: the newest CLI keeps schemas back until the model searches for them, unless told not to.
    it = await desk(reply("Aye."))
    client = await it.client(mcp_servers={"ship": SHIP}, env={"ENABLE_TOOL_SEARCH": "false"})
    async with asyncio.timeout(DEADLINE):
        await client.ask("what can you do?")
        status = await client.mcp_status()
    assert [(each.name, each.status) for each in status.servers] == [("ship", "connected")]
    offered = {each["name"]: each for each in conversation(it)[0].body["tools"]}
    schema = offered["mcp__ship__add"]["input_schema"]
    assert offered["mcp__ship__add"]["description"] == "Add two numbers."
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"]["description"] == "the second number"


async def test_the_newest_cli_keeps_tools_back_until_they_are_searched_for(desk: OpenDesk) -> None:
    # H14
    it = await desk(reply("Aye."))
    client = await it.client(mcp_servers={"ship": SHIP})
    async with asyncio.timeout(DEADLINE):
        await client.ask("what can you do?")
    offered = conversation(it)[0].tools
    assert ("mcp__ship__add" in offered) == (it.version != NEWEST)
    assert ("ToolSearch" in offered) == (it.version == NEWEST)


async def test_a_structured_result_reaches_the_model_as_json(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "chart", place="Ushant")
    told = results(it)[0]
    assert '"place":"Ushant"' in told.replace(" ", "")
    assert "toolu_scripted_0001" in told


async def test_a_picture_reaches_the_model_as_an_image(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "picture")
    [block] = result_blocks(it)
    words, image = block["content"][:2]
    assert words == {"type": "text", "text": "the harbour"}
    assert base64.b64decode(image["source"]["data"]) == PIXEL
    # The newest CLI also says where it keeps a copy.
    assert len(block["content"]) == (3 if it.version == NEWEST else 2)


async def test_a_tool_that_raises_is_an_error_the_model_can_read(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "sink")
    [block] = result_blocks(it)
    assert block["is_error"]
    assert "RuntimeError: hull breached" in results(it)[0]


async def test_a_tool_can_say_itself_that_it_failed(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "warn")
    [block] = result_blocks(it)
    assert block["is_error"]
    assert "fog ahead" in results(it)[0]


async def test_arguments_that_do_not_fit_are_an_error_the_model_can_read(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "add", a="two")
    [block] = result_blocks(it)
    assert block["is_error"]
    assert "`a`" in results(it)[0] or "a:" in results(it)[0]


async def test_in_process_tools_are_asked_about_like_any_other(desk: OpenDesk) -> None:
    # B1
    it = await desk(reply(call("mcp__ship__sink")), reply("Aye."))
    handler = Handler(Allow())
    client = await it.client(mcp_servers={"ship": SHIP}, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("do it")
    assert [request.tool_name for request in handler.requests] == ["mcp__ship__sink"]


async def test_a_remembered_tool_of_ours_is_not_asked_about_again(desk: OpenDesk) -> None:
    # B8
    it = await desk(
        reply(call("mcp__ship__chart", place="Ushant")),
        reply(call("mcp__ship__chart", place="Brest")),
        reply("Aye."),
    )
    handler = Handler(Allow(always=True))
    client = await it.client(mcp_servers={"ship": SHIP}, on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("do it")
    assert len(handler.requests) == 1
    assert "Brest" in results(it)[1]


async def test_an_interrupt_ends_the_call_of_a_tool(desk: OpenDesk) -> None:
    # H8, H13
    it = await desk(reply(call("mcp__slow__wait")), reply("Here again."))
    held = Holding()

    @tool
    async def wait() -> str:
        """Wait."""
        return await held()

    slow = ToolServer([wait], name="slow")
    client = await it.client(mcp_servers={"slow": slow}, allowed_tools=["mcp__slow"])
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("do it")
        await held.began.wait()
        await client.interrupt()
        assert (await prompt).outcome == "interrupted"
        await held.cancelled.wait()
        told = await unread(client)
        asked = [event.request for event in told if isinstance(event, ControlRequest)]
        methods = [each.message["method"] for each in asked if isinstance(each, McpMessage)]
        assert methods[-2:] == ["tools/call", "notifications/cancelled"]
        assert not any(isinstance(event, ControlCancelRequest) for event in told)
        assert (await client.ask("hello?")).text == "Here again."


async def test_closing_ends_the_call_of_a_tool(desk: OpenDesk) -> None:
    it = await desk(reply(call("mcp__slow__wait")))
    held = Holding()

    @tool
    async def wait() -> str:
        """Wait."""
        return await held()

    slow = ToolServer([wait], name="slow")
    client = await it.client(mcp_servers={"slow": slow}, allowed_tools=["mcp__slow"])
    async with asyncio.timeout(DEADLINE):
        await client.say("do it")
        await held.began.wait()
        await client.aclose()
        await held.cancelled.wait()


async def test_a_tool_called_twice_at_once_runs_twice_at_once(desk: OpenDesk) -> None:
    # H8
    it = await desk(
        reply(call("mcp__meet__come", who="a"), call("mcp__meet__come", who="b")), reply("Aye.")
    )
    arrived = asyncio.Barrier(2)

    @tool(annotations=ToolAnnotations(read_only=True))
    async def come(who: str) -> str:
        """Come to the meeting."""
        await arrived.wait()
        return f"{who} is here"

    meet = ToolServer([come], name="meet")
    client = await it.client(mcp_servers={"meet": meet}, allowed_tools=["mcp__meet"])
    async with asyncio.timeout(DEADLINE):
        await client.ask("do it")
    assert sorted(results(it)) == ["a is here", "b is here"]


# Servers of the mcp package


def clerk() -> MCPServer:
    server = MCPServer("clerk")

    @server.tool()
    async def multiply(a: int, b: int) -> int:
        """Multiply two numbers."""
        return a * b

    @server.tool()
    async def fall() -> str:
        """Fail."""
        raise ToolError("slippery deck")

    return server


async def test_a_server_object_of_the_mcp_package_serves_its_tools(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "multiply", {"ship": clerk()}, a=6, b=7)
    assert "42" in results(it)[0]


async def test_a_tool_of_an_attached_server_that_raises_is_an_error_result(desk: OpenDesk) -> None:
    # H8
    it = await called(desk, "fall", {"ship": attach(clerk(), name="ship")})
    [block] = result_blocks(it)
    assert block["is_error"]
    assert "slippery deck" in results(it)[0]


async def test_an_interrupt_ends_a_call_into_an_attached_server(desk: OpenDesk) -> None:
    # H8
    it = await desk(reply(call("mcp__slow__wait")), reply("Here again."))
    held, server = Holding(), MCPServer("slow")

    @server.tool()
    async def wait() -> str:
        """Wait."""
        return await held()

    client = await it.client(mcp_servers={"slow": server}, allowed_tools=["mcp__slow"])
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("do it")
        await held.began.wait()
        await client.interrupt()
        assert (await prompt).outcome == "interrupted"
        await held.cancelled.wait()
        assert (await client.ask("hello?")).text == "Here again."
