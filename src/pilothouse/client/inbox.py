"""What has arrived and nobody has read yet. Unbounded: the reader never waits for a consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Generic, TypeVar

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue with one reader at a time. Nothing in it is lost when the reader stops."""

    def __init__(self) -> None:
        self._unread: deque[T] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._unread)

    def put(self, items: Iterable[T]) -> None:
        self._unread.extend(items)
        self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more will come. The reader ends, or gets `error`, after what is unread."""
        if not self._closed:
            self._closed, self._error = True, error
            self._wake()

    async def read(self) -> AsyncGenerator[T]:
        """Every item in order, from the oldest unread one to the close."""
        unread = self._unread
        while True:
            while unread:
                yield unread.popleft()
            if self._closed:
                break
            await self._wait()
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        if self._arrived is not None:
            raise RuntimeError("another task is already reading these events")
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
