"""A demonstration turn: the library is real, the CLI is the simulator, in its own folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pilothouse import (
    Allow,
    Client,
    PermissionRequest,
    ResultMessage,
    StreamEvent,
    Turn,
)
from pilothouse.testing.clis import Room, SimulatedCLI
from pilothouse.testing.scenario import Scenario, reply, text, tool

__all__ = ["demonstrate"]

PROMPT = "Leave me a note."
NOTE = "note.txt"
SCENARIO = Scenario(
    replies=[
        reply(tool("Bash", command=f"echo 'All is well.' > {NOTE}", description="Write a note")),
        reply(text(f"The note is in {NOTE}.", chunk=8)),
    ]
)


async def demonstrate(show: Callable[[str], None]) -> Turn:
    """One turn with streamed text and one permission request, told line by line."""

    async def decide(request: PermissionRequest) -> Allow:
        show(f"  asked      may {request.tool_name} run: {request.input['command']}")
        show("  answered   allow")
        return Allow()

    with tempfile.TemporaryDirectory(prefix="pilothouse-demo-") as folder:
        cli = SimulatedCLI(Room(Path(folder)), SCENARIO)
        options = cli.options(on_permission=decide, include_partial_messages=True)
        async with Client(options) as client:
            show(f"  session    {client.session_id}")
            show(f"  prompt     {PROMPT}")
            prompt = await client.say(PROMPT)
            async for event in client:
                if isinstance(event, StreamEvent) and event.text:
                    show(f"  delta      {event.text!r}")
                elif isinstance(event, ResultMessage):
                    break
            turn = await prompt
        show(f"  {NOTE}   {(cli.cwd / NOTE).read_text()!r}")
    show(f"  turn       {turn.outcome}, {turn.text!r}, ${turn.cost_usd:.4f} (not real money)")
    return turn
