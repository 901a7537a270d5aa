"""A demonstration turn on scripted data: the library is real, the CLI is played in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pilothouse import (
    Allow,
    Client,
    Options,
    PermissionRequest,
    ResultMessage,
    StreamEvent,
    Turn,
)
from pilothouse.protocol.wire import JsonObject
from pilothouse.testing.scripted_cli import ScriptedCLI

__all__ = ["demonstrate"]

SESSION = "11111111-1111-4111-8111-111111111111"
COMMAND = "python -m pytest -q"
WORDS = ("All ", "three ", "tests ", "pass.")


async def demonstrate(show: Callable[[str], None]) -> Turn:
    """One turn with streamed text and one permission request, told line by line."""
    cli = ScriptedCLI()

    async def decide(request: PermissionRequest) -> Allow:
        show(f"  asked      may {request.tool_name} run: {request.input['command']}")
        show("  answered   allow")
        return Allow()

    options = Options(on_permission=decide, session_id=SESSION)
    async with asyncio.TaskGroup() as group, Client(options, transport=cli.transport) as client:
        show(f"  session    {client.session_id}")
        show("  prompt     Do the tests pass?")
        group.create_task(_play(cli))
        prompt = await client.say("Do the tests pass?")
        async for event in client:
            if isinstance(event, StreamEvent) and event.text:
                show(f"  delta      {event.text!r}")
            elif isinstance(event, ResultMessage):
                break
        turn = await prompt
    show(f"  turn       {turn.outcome}, {turn.text!r}, ${turn.cost_usd:.4f} (not real money)")
    return turn


async def _play(cli: ScriptedCLI) -> None:
    """What a CLI does with one prompt."""
    prompt = await cli.prompts.get()
    init = {"claude_code_version": "2.1.325", "model": "scripted", "tools": ["Bash"]}
    cli.write(_message("system", subtype="init", **init))
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": COMMAND}}
    cli.write(_message("assistant", message={"role": "assistant", "content": [call]}))
    _, answer = cli.ask(
        "can_use_tool", tool_name="Bash", input={"command": COMMAND}, tool_use_id="toolu_1"
    )
    await answer
    done = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3 passed"}
    cli.write(_message("user", message={"role": "user", "content": [done]}))
    for word in WORDS:
        delta = {"type": "text_delta", "text": word}
        cli.write(
            _message(
                "stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta}
            )
        )
    cli.write(
        _message(
            "result",
            subtype="success",
            is_error=False,
            terminal_reason="completed",
            result="".join(WORDS),
            total_cost_usd=0.0042,
            num_turns=2,
            user_message_uuid=prompt.uuid,
        )
    )


def _message(kind: str, **fields: object) -> JsonObject:
    return {"type": kind, "session_id": SESSION, **fields}
