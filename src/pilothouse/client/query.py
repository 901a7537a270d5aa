"""One prompt, one CLI: `query` for async code, `run` for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from .client import Client, ClientEvent
from .options import Options
from .prompts import Content
from .turns import Turn

__all__ = ["query", "run"]


async def query(content: Content, options: Options | None = None) -> AsyncGenerator[ClientEvent]:
    """Everything one prompt brings about, to the end of the CLI's work."""
    async with Client(options) as client:
        await client.say(content)
        async with aclosing(client.read()) as events:
            async for event in events:
                yield event
                if client.idle:
                    # Not by the end of the input: the CLI would wait for its background shells.
                    client.stop_reading()


def run(content: Content, options: Options | None = None) -> Turn:
    """Ask, wait, and return the turn: for scripts without an event loop."""
    return asyncio.run(_run(content, options))


async def _run(content: Content, options: Options | None) -> Turn:
    async with Client(options) as client:
        return await client.ask(content)
