"""What came from one run's CLI, and how much of it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pilothouse.relay.framing import Frame, FrameError

from .contract import Ledger
from .frames import LIMIT

__all__ = ["Inbox", "succeeded"]

ROOM: Final = 16 * 1024 * 1024
"""Bytes that may wait to be kept. A relay stops long before that by itself, if it is one."""


class Inbox:
    """Numbers of lines: those that came, and those that are committed.

    `kept` is told whether a commit went well, each time.
    """

    def __init__(self, ledger: Ledger, received: int, kept: Callable[[bool], None]) -> None:
        self.received = received
        self.committed = received
        self._ledger = ledger
        self._tell = kept
        self._keeping = False
        self._size = 0
        self._relieved = asyncio.Event()

    def is_new(self, frame: Frame) -> bool:
        """Whether there is something in it that did not come before."""
        if not 0 < frame.number <= self.received + 1:
            raise FrameError(f"{frame.number} came after {self.received}")
        if frame.last >= LIMIT:
            raise FrameError(f"{frame.last} is no number of a line")
        return frame.last > self.received

    def take(self, frame: Frame, receive: Callable[[bytes], None]) -> None:
        """Hand over what is new in a frame. What fails before it is kept has not come."""
        before = self.received
        fresh = _without(frame.payload, before + 1 - frame.number)
        self.skip(frame.last)
        try:
            receive(fresh)
        except BaseException:
            if self._ledger.not_received():
                self.received = before
            raise
        self._size += len(fresh)

    def skip(self, upto: int) -> None:
        """Go on behind this number."""
        self.received = upto
        self._ledger.receiving(upto)

    def keep(self) -> None:
        """Have what came committed; what comes meanwhile is next."""
        if not self._keeping and self.committed < self.received:
            self._keeping = True
            upto, size = self.received, self._size
            self._ledger.kept().add_done_callback(lambda done: self._kept(done, upto, size))

    def _kept(self, done: asyncio.Future[None], upto: int, size: int) -> None:
        self._keeping = False
        self._size -= size
        self._relieved.set()
        if succeeded(done):
            self.committed = max(self.committed, upto)
            self.keep()
        self._tell(succeeded(done))

    async def settled(self) -> bool:
        """Wait until all that came so far is committed; False if it cannot be."""
        upto, kept = self.received, self._ledger.kept()
        # Unlike a plain await, this leaves the future alone when we are cancelled.
        await asyncio.wait([kept])
        if succeeded(kept):
            self.committed = max(self.committed, upto)
        return succeeded(kept)

    async def room(self) -> None:
        """Wait while too much is to be kept: others keep their lines in the same journal."""
        while self._keeping and self._size > ROOM:
            self._relieved.clear()
            await self._relieved.wait()


def succeeded(done: asyncio.Future[None]) -> bool:
    return not done.cancelled() and done.exception() is None


def _without(payload: bytes, lines: int) -> bytes:
    """The payload without its first lines."""
    end = 0
    for _ in range(lines):
        end = payload.index(b"\n", end) + 1
    return payload[end:]
