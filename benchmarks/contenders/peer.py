"""The peer's side of the measurements: claude-agent-sdk, used as its documentation shows."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import footprint
from claude_agent_sdk import (  # pyright: ignore[reportMissingImports] - in its own environment
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
)


async def stream(cli_path: str, count: int) -> dict[str, float]:
    """Read the text of every delta of one turn."""
    seen, figures = 0, dict[str, float]()
    options = ClaudeAgentOptions(cli_path=cli_path, include_partial_messages=True)
    async with ClaudeSDKClient(options) as client:
        watch = footprint.Stopwatch()
        await client.query("go")
        async for message in client.receive_messages():
            if isinstance(message, StreamEvent):
                event = message.event
                if event["type"] == "content_block_delta" and event["delta"]["text"]:
                    seen += 1
            elif isinstance(message, ResultMessage):
                break
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def permissions(cli_path: str, count: int) -> dict[str, float]:
    """Approve every request of one turn."""
    seen, figures = 0, dict[str, float]()

    async def approve(
        _tool: str, _input: dict[str, Any], _context: ToolPermissionContext
    ) -> PermissionResultAllow:
        nonlocal seen
        seen += 1
        return PermissionResultAllow()

    options = ClaudeAgentOptions(cli_path=cli_path, can_use_tool=approve)
    async with ClaudeSDKClient(options) as client:
        watch = footprint.Stopwatch()
        await client.query("go")
        async for message in client.receive_messages():
            if isinstance(message, ResultMessage):
                break
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def idle(cli_path: str, count: int) -> dict[str, float]:
    """Keep so many clients connected and measure what they cost."""
    steps = [footprint.Footprint.now()]
    async with AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(ClaudeSDKClient(ClaudeAgentOptions(cli_path=cli_path)))
            if number in (0, count - 1):
                steps.append(footprint.Footprint.now())
    return footprint.growth(steps, count)


if __name__ == "__main__":
    footprint.main({"stream": stream, "permissions": permissions, "idle": idle})
