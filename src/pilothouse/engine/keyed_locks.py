"""Locks by name, which exist only while somebody has or wants them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["KeyedLocks"]


class KeyedLocks:
    """Lets one at a time do something under a name."""

    def __init__(self) -> None:
        self._in_use: dict[str, _Lock] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[None]:
        """Wait until nobody else holds this name, and hold it."""
        lock = self._in_use.setdefault(name, _Lock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._in_use[name]


class _Lock:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
