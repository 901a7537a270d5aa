"""A client that goes on with a CLI which another client has greeted, and one that leaves it so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from pilothouse import Allow, Client, Options, PermissionRequest, SessionEnded, ToolServer
from pilothouse.client.ports import Past
from pilothouse.client.turns import TurnTracker
from pilothouse.errors import InvalidOption, UsageError
from pilothouse.protocol import ControlRequest, Initialize, InitializeResult, decode
from pilothouse.transport import Exit
from pilothouse_sim.scripted_cli import GREETING, ScriptedCLI
from tests.support.waiting import DEADLINE


@pytest.fixture(autouse=True)
async def deadline() -> Any:
    async with asyncio.timeout(DEADLINE):
        yield


def past(**more: Any) -> Past:
    greeting = InitializeResult(claude_code_version="2.1.325", capabilities=["x"])
    return Past(**{"tracker": TurnTracker(), "greeting": greeting, "session_id": "s", **more})


def asked(request_id: str) -> ControlRequest:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
    line = {"type": "control_request", "request_id": request_id, "request": request}
    message = decode(json.dumps(line).encode())
    assert isinstance(message, ControlRequest)
    return message


async def until(holds: Callable[[], bool]) -> None:
    # Everything is in this process, and happens in the loop's next turns.
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_cli_that_was_greeted_notices_nothing() -> None:
    cli = ScriptedCLI()
    client = Client(transport=cli.transport, greeting_id="first")
    await client.attach(past())
    assert (client.version, client.session_id, cli.requests) == ((2, 1, 325), "s", [])
    prompt = await client.say("more")
    uuid = (await cli.prompts.get()).uuid
    cli.write({"type": "result", "subtype": "success", "user_message_uuid": uuid, "result": "x"})
    assert (await prompt).text == "x"
    await client.interrupt()
    # The id of the greeting stands for the greeting alone.
    assert [each.request_id == "first" for each in cli.requests] == [False]
    await client.aclose()


async def test_what_it_had_asked_is_served_and_told_to_nobody_again() -> None:
    cli, heard = ScriptedCLI(), list[str]()
    answered = asyncio.Event()

    async def decide(request: PermissionRequest) -> Allow:
        heard.append(request.request_id)
        return Allow()

    def received(data: bytes) -> None:
        heard.append(json.loads(data)["response"]["request_id"])
        answered.set()

    cli.data_received = received  # type: ignore[method-assign]
    client = Client(Options(on_permission=decide), transport=cli.transport)
    await client.attach(past(asked=[asked("q1")]))
    await answered.wait()
    client.stop_reading()
    assert [event async for event in client.read()] == []
    assert heard == ["q1", "q1"]
    cli.exit()
    await client.aclose()


async def test_a_greeting_that_was_on_its_way_is_waited_for() -> None:
    cli = ScriptedCLI()
    client = Client(transport=cli.transport, greeting_id="first")
    await client.attach(past(greeting=None))
    client.keep_alive()
    await until(lambda: bool(cli.lines))
    response = {"subtype": "success", "request_id": "first", "response": GREETING}
    cli.write_bytes(json.dumps({"type": "control_response", "response": response}).encode() + b"\n")
    await until(lambda: client.initialization is not None)
    assert (client.version, cli.requests) == ((2, 1, 325), [])
    await client.aclose()


async def test_nobody_waits_for_the_greeting_of_a_cli_that_ends_at_once() -> None:
    cli = ScriptedCLI()
    client = Client(transport=cli.transport, greeting_id="first")
    await client.attach(past(greeting=None))
    channel = client._live()
    channel.exited(Exit(0, None, ""))
    with pytest.raises(SessionEnded):
        await channel.expect(Initialize(), "first")
    await client.aclose()


async def test_a_cli_that_was_never_greeted_is_greeted() -> None:
    cli = ScriptedCLI()
    client = Client(Options(title="A title"), transport=cli.transport, greeting_id="first")
    await client.attach(past(greeting=None, is_greeting_sent=False))
    await until(lambda: client.initialization is not None)
    [greeting] = cli.requests
    assert greeting.request_id == "first"
    assert isinstance(greeting.client_request, Initialize)
    assert greeting.client_request.title == "A title"
    await client.aclose()


async def test_a_client_that_leaves_tells_the_cli_nothing() -> None:
    cli = ScriptedCLI({"get_context_usage": None})
    client = Client(transport=cli.transport)
    await client.connect()
    pending = asyncio.ensure_future(client.context_usage())
    await until(lambda: len(cli.requests) == 2)
    await client.detach()
    with pytest.raises(SessionEnded, match="goes on"):
        await pending
    with pytest.raises(SessionEnded, match="goes on"):
        await client.say("more")
    assert not cli.input_ended.is_set()
    cli.exit()
    await client.aclose()


async def test_only_a_new_client_with_a_transport_and_without_tools_is_attached() -> None:
    with pytest.raises(UsageError, match="new client with a transport"):
        await Client().attach(past())
    cli = ScriptedCLI()
    options = Options(mcp_servers={"tools": ToolServer([], name="tools")})
    with pytest.raises(InvalidOption, match="cannot be taken over"):
        await Client(options, transport=cli.transport).attach(past())
    cli.exit()
