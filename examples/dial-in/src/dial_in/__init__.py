"""Waits for a Claude Code CLI that dials in with `--sdk-url`, and has one conversation with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from pilothouse import (
    Allow,
    AssistantMessage,
    Client,
    InitMessage,
    Options,
    PermissionRequest,
    ResultMessage,
    TextBlock,
    listen,
)

FIRST = "Hello! What can you do?"


async def serve(
    show: Callable[[str], None],
    *,
    cli: Path | None = None,
    cwd: Path | None = None,
    port: int = 8765,
) -> None:
    """Print a command to paste, wait for the CLI that it starts, and say hello to it."""

    async def approve(request: PermissionRequest) -> Allow:
        show(f"[PERMISSION] {request.tool_name}: {request.input}")
        return Allow()

    options = Options(cli_path=cli, cwd=cwd, on_permission=approve)
    async with listen(options, port=port) as door:
        show(door.command())
        client = await door.accept()
        show("[CONNECTED]")
        await converse(client, show)
    show("[DISCONNECTED]")


async def converse(client: Client, show: Callable[[str], None]) -> None:
    """Say one thing and show what comes of it. The CLI is silent until it is spoken to."""
    prompt = await client.say(FIRST)
    async for event in client:
        match event:
            case InitMessage():
                show(f"[INIT] session={event.session_id} model={event.model}")
            case AssistantMessage():
                said = "".join(each.text for each in event.content if isinstance(each, TextBlock))
                if said:
                    show(f"[ASSISTANT] {said[:200]}")
            case ResultMessage():
                cost = f"cost=${event.total_cost_usd} turns={event.num_turns}"
                show(f"[RESULT] {event.subtype} {cost}")
            case _:
                pass
        if prompt.ends_with(event):
            break


def show_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    asyncio.run(serve(show_line))
