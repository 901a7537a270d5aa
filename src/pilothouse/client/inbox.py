"""What has arrived and nobody has read yet. Unbounded: the reader never waits for a consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final, Generic, TypeVar

from pilothouse.errors import UsageError

__all__ = ["Inbox"]

T = TypeVar("T")

SOON: Final = 0.02
"""Seconds within which the reader is woken for what need not be read at once."""


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
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_read(self) -> bool:
        """Whether somebody is reading, or has not yet let go of it."""
        return self._readers > 0

    def put(self, batch: Iterable[T]) -> None:
        """Add items; the batch is not to be changed afterwards."""
        self._batches.append(batch)
        if self._arrived is not None:
            self._wake()

    def put_soon(self, batch: Iterable[T]) -> None:
        """Add items that the reader gets with the next ones, or a moment later.

        To wake it costs about as much as all else that a request of the CLI's does, and many may
        come in that moment.
        """
        self._batches.append(batch)
        if self._timer is None and self._arrived is not None:
            self._timer = self._arrived.get_loop().call_later(SOON, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._batches:
            self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more will come. The reader ends, or gets `error`, after what is unread."""
        if not self._closed:
            self._closed, self._error = True, error
            self._wake()
            if self._timer is not None:
                self._timer.cancel()

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
                elif self._arrived is not None:
                    raise UsageError("another task is already reading these events")
                else:
                    self._arrived = asyncio.get_running_loop().create_future()
                    try:
                        await self._arrived
                    finally:
                        self._arrived = None
        finally:
            self._readers -= 1
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
