"""Waits that end: every wait of a test has a bound, and polls only where nothing can notify."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

DEADLINE: Final = 60.0
"""Seconds any wait of a test may take: a bound for what hangs, not a measure."""


async def until(holds: Callable[[], bool], within: float = DEADLINE) -> None:
    """Wait for what other processes do, who tell nobody."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
