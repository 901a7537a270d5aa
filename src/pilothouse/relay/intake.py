"""What the CLI is to be told: numbered lines and orders, each once and in its place."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Gap", "Intake"]

AT_ONCE = ("terminate", "kill", "end")
"""Orders that do not wait behind lines which the CLI does not read."""


class Gap(Exception):
    """Something that should have come before is missing."""


class Item:
    """Lines, or an order, or the end of the input, waiting to be passed on."""

    __slots__ = ("data", "do", "first", "offset")

    def __init__(self, first: int, data: bytes = b"", do: str = "") -> None:
        self.first = first
        """Of what the relay says itself, 0: it has no number."""
        self.data = data
        self.offset = 0
        self.do = do


class Intake:
    """The way to a CLI's stdin. Nothing is written twice, and nothing is written after a gap."""

    def __init__(self, fd: int, obey: Callable[[str], None], close: Callable[[], None]) -> None:
        self._fd = fd
        self._obey = obey
        self._close = close
        self._queue: deque[Item] = deque()
        self.taken = 0
        """The last number that came."""
        self.written = 0
        """The last that is written to the CLI, or done; what is not written never counts."""
        self.broken = fd < 0
        """Whether the input is closed, by us or by the CLI."""
        self._lost = False
        """Whether a line could not be written: no number counts after it."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to write and somebody who may read it."""
        return bool(self._queue) and not self.broken

    # -- in

    def take_lines(self, first: int, data: bytes) -> bool:
        """Take lines that begin with this number, but none for the second time."""
        lines = data.count(b"\n")
        if not data.endswith(b"\n"):
            raise Gap("lines without an end")
        known = self._known(first)
        if known >= lines:
            return False
        for _ in range(known):
            data = data[data.index(b"\n") + 1 :]
        self.taken += lines - known
        self._put(Item(first + known, data))
        return True

    def take_order(self, number: int, do: str) -> bool:
        """Take an order, unless it came before."""
        if self._known(number):
            return False
        self.taken = number
        item = Item(number, do=do)
        self._put(item)
        if item.do in AT_ONCE:
            self._do(item)
        return True

    def say(self, line: bytes) -> None:
        """Write a line of the relay's own, between two of the door's."""
        self._put(Item(0, line))

    def end(self) -> None:
        """Close the input behind all that is waiting."""
        self._put(Item(0, do="close_input"))

    def _known(self, first: int) -> int:
        if first > self.taken + 1:
            raise Gap(f"{first} came after {self.taken}")
        return self.taken + 1 - first

    def _put(self, item: Item) -> None:
        self._queue.append(item)
        self.flush()

    # -- out

    def flush(self) -> None:
        """Pass on what the CLI takes now."""
        while self._queue:
            item = self._queue[0]
            if item.data and not self._write(item):
                return
            # Before it is done: an order may put a line of our own into the queue.
            self._queue.popleft()
            if not item.data:
                self._done(item.first)
                self._do(item)

    def _do(self, item: Item) -> None:
        do, item.do = item.do, ""
        if do == "close_input":
            self.close()
        elif do:
            self._obey(do)

    def _write(self, item: Item) -> bool:
        """Write as much as the pipe takes; False if the rest has to wait."""
        while not self.broken and item.offset < len(item.data):
            try:
                size = os.write(self._fd, memoryview(item.data)[item.offset :])
            except BlockingIOError:
                return False
            except OSError:
                self.close()
            else:
                self._count(item, size)
        self._lost |= item.offset < len(item.data)
        return True

    def _count(self, item: Item, size: int) -> None:
        end = item.offset + size
        lines = item.data.count(b"\n", item.offset, end)
        item.offset = end
        if item.first:
            item.first += lines
            self._done(item.first - 1)

    def _done(self, number: int) -> None:
        if number and not self._lost:
            self.written = number

    def close(self) -> None:
        """End the CLI's input now; what waits is not written any more."""
        if not self.broken:
            self.broken = True
            self._close()
