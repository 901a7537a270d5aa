"""The time the end goes by: every delay and every deadline of it asks a `Clock`."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Clock", "WallClock", "within"]

T = TypeVar("T")


class Clock(Protocol):
    """Time and chance, so that a test can bring its own."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this long."""
        ...

    def chance(self) -> float:
        """A number from 0 up to 1."""
        ...


class WallClock:
    """The time as it passes."""

    def now(self) -> float:
        """The event loop's time."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Sleep for real."""
        await asyncio.sleep(seconds)

    def chance(self) -> float:
        """A random number."""
        return random.random()


async def within(clock: Clock, seconds: float, work: Coroutine[object, object, T]) -> T | None:
    """The result of some work, or None if it took longer and was cancelled."""
    working = asyncio.create_task(work)
    timer = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({working, timer}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        timer.cancel()
        await asyncio.gather(working, timer, return_exceptions=True)
