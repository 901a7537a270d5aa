"""What has arrived and nobody has read yet. Unbounded: the reader never waits for a consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Generic, TypeVar

from pilothouse.errors import UsageError

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue with one reader at a time. Nothing in it is lost when the reader stops."""

    def __init__(self) -> None:
        self._batches: deque[Iterable[T]] = deque()
        # Kept here and not in the reader: the next reader goes on where the last one stopped.
        self._batch: Iterator[T] = iter(())
        self._arrived: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._closed = False
        self._readers = 0

    @property
    def is_read(self) -> bool:
        """Whether somebody is reading, or has not yet let go of it."""
        return self._readers > 0

    def put(self, batch: Iterable[T]) -> None:
        """Add items; the batch is not to be changed afterwards."""
        self._batches.append(batch)
        self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more will come. The reader ends, or gets `error`, after what is unread."""
        if not self._closed:
            self._closed, self._error = True, error
            self._wake()

    async def read(self) -> AsyncGenerator[T]:
        """Every item in order, from the oldest unread one to the close."""
        self._readers += 1
        try:
            while True:
                for item in self._batch:
                    yield item
                if self._batches:
                    self._batch = iter(self._batches.popleft())
                elif self._closed:
                    break
                else:
                    await self._wait()
        finally:
            self._readers -= 1
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        if self._arrived is not None:
            raise UsageError("another task is already reading these events")
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
