"""Elicitation: an MCP server of the CLI's asks a person, and gets what the handler answers."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pilothouse import Client, Decline, Dismiss, ElicitationRequest, Fill, WaitingOn
from pilothouse_sim.scenario import reply
from pilothouse_sim.scenario import tool as call
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.handlers import Handler, Holding, result_blocks, results
from tests.support.versions import Since, can
from tests.support.waiting import DEADLINE

# Asking through a resolver works in every era of the protocol: the newest CLI and the newest `mcp`
# agree on the one in which a server sends no requests of its own.
CLERK = """
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

class Signature(BaseModel):
    name: str = Field(description="as in the book")

async def ask() -> Elicit[Signature]:
    return Elicit("Your name?", Signature)

server = MCPServer("clerk")

@server.tool()
async def sign(answer: Annotated[ElicitationResult[Signature], Resolve(ask)]) -> str:
    return f"{answer.action}: {getattr(answer, 'data', None)}"

server.run()
"""


async def connected(it: Desk, **options: Any) -> Client:
    """A client whose CLI has the server up: newer ones start without waiting for it."""
    script = it.cwd / "clerk.py"
    script.write_text(CLERK)
    config = {"type": "stdio", "command": sys.executable, "args": [str(script)]}
    client = await it.client(mcp_servers={"clerk": config}, allowed_tools=["mcp__clerk"], **options)
    while [each.status for each in (await client.mcp_status()).servers] != ["connected"]:
        pass
    return client


async def signed(desk: OpenDesk, **options: Any) -> Desk:
    """One turn in which the model calls the tool that asks."""
    it = await desk(reply(call("mcp__clerk__sign")), reply("Signed."))
    async with asyncio.timeout(DEADLINE):
        client = await connected(it, **options)
        turn = await client.ask("sign it")
    assert (turn.outcome, turn.text) == ("finished", "Signed.")
    return it


def is_refused(it: Desk) -> bool:
    """Old CLIs do not offer elicitation: whatever is answered here, the server is refused."""
    if can(it.version, Since.ELICITS):
        return False
    assert result_blocks(it)[0]["is_error"]
    return True


async def test_an_accepted_form_reaches_the_server(desk: OpenDesk) -> None:
    # C16, H10
    handler = Handler(Fill({"name": "Ann"}))
    it = await signed(desk, on_elicitation=handler)
    if is_refused(it):
        assert handler.requests == []
        return
    [request] = handler.requests
    assert isinstance(request, ElicitationRequest)
    assert (request.server_name, request.message) == ("clerk", "Your name?")
    assert request.schema["properties"]["name"]["description"] == "as in the book"
    assert "accept: name='Ann'" in results(it)[0]


async def test_a_declined_form_is_told_to_the_server(desk: OpenDesk) -> None:
    # C16
    it = await signed(desk, on_elicitation=Handler(Decline()))
    assert is_refused(it) or "decline: None" in results(it)[0]


async def test_a_dismissed_form_is_told_to_the_server(desk: OpenDesk) -> None:
    # C16
    it = await signed(desk, on_elicitation=Handler(Dismiss()))
    assert is_refused(it) or "cancel: None" in results(it)[0]


async def test_without_a_handler_a_form_is_declined(desk: OpenDesk) -> None:
    # C16
    it = await signed(desk)
    assert is_refused(it) or "decline: None" in results(it)[0]


async def test_a_handler_that_raises_gives_the_server_no_values(desk: OpenDesk) -> None:
    # C16
    it = await signed(desk, on_elicitation=Handler(OSError("no screen")))
    assert is_refused(it) or "accept" not in results(it)[0]


async def test_an_interrupt_cancels_the_handler_of_a_form(desk: OpenDesk) -> None:
    # C16
    it = await desk(reply(call("mcp__clerk__sign")), reply("Here again."))
    held = Holding()
    async with asyncio.timeout(DEADLINE):
        client = await connected(it, on_elicitation=held)
        prompt = await client.say("sign it")
        if not can(it.version, Since.ELICITS):
            assert (await prompt).outcome == "finished"
            return
        await held.began.wait()
        assert client.waiting_on == WaitingOn("person", "clerk")
        await client.interrupt()
        assert (await prompt).outcome == "interrupted"
        await held.cancelled.wait()
        assert (await client.ask("hello?")).text == "Here again."
