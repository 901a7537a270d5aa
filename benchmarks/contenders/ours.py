"""Pilothouse's side of the measurements."""

from __future__ import annotations

from contextlib import AsyncExitStack

import footprint

from pilothouse import Allow, Client, Options, PermissionRequest, ResultMessage, StreamEvent


async def stream(cli_path: str, count: int) -> dict[str, float]:
    """Read the text of every delta of one turn."""
    seen = 0
    options = Options(cli_path=cli_path, include_partial_messages=True)
    async with Client(options) as client:
        watch = footprint.Stopwatch()
        await client.say("go")
        async for event in client:
            if isinstance(event, StreamEvent):
                if event.text:
                    seen += 1
            elif isinstance(event, ResultMessage):
                break
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def permissions(cli_path: str, count: int) -> dict[str, float]:
    """Approve every request of one turn."""
    seen = 0

    async def approve(_request: PermissionRequest) -> Allow:
        nonlocal seen
        seen += 1
        return Allow()

    async with Client(Options(cli_path=cli_path, on_permission=approve)) as client:
        watch = footprint.Stopwatch()
        await client.say("go")
        async for event in client:
            if isinstance(event, ResultMessage):
                break
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def idle(cli_path: str, count: int) -> dict[str, float]:
    """Keep so many clients connected and measure what they cost."""
    steps = [footprint.Footprint.now()]
    async with AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(Client(Options(cli_path=cli_path)))
            if number in (0, count - 1):
                steps.append(footprint.Footprint.now())
    return footprint.growth(steps, count)


if __name__ == "__main__":
    footprint.main({"stream": stream, "permissions": permissions, "idle": idle})
