"""What waits for a CLI's stdin: numbered lines and orders, each passed on once and in order."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OutOfOrder", "StdinQueue"]

AT_ONCE = ("terminate", "kill", "end")
"""Orders that do not wait behind lines which the CLI does not read."""


class OutOfOrder(Exception):
    """Something that should have come before is missing."""


class Item:
    """Lines, or an order, or the end of the input, waiting to be passed on."""

    __slots__ = ("data", "do", "first", "offset")

    def __init__(self, first: int, data: bytes = b"", do: str = "") -> None:
        self.first = first
        """Its number; 0 for what the relay itself writes."""
        self.data = data
        self.offset = 0
        self.do = do


class StdinQueue:
    """Writes to a CLI's stdin. Nothing is written twice, and nothing is written after a gap."""

    def __init__(self, fd: int, obey: Callable[[str], None], close: Callable[[], None]) -> None:
        self._fd = fd
        self._obey = obey
        self._close = close
        self._queue: deque[Item] = deque()
        self.taken = 0
        """The last number that was received."""
        self.written = 0
        """The last number that was written to the CLI, or carried out."""
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
        """Queue lines that begin with this number, except those that were queued before."""
        lines = data.count(b"\n")
        if not data.endswith(b"\n"):
            raise OutOfOrder("lines without an end")
        known = self._known(first)
        if known >= lines:
            return False
        for _ in range(known):
            data = data[data.index(b"\n") + 1 :]
        self.taken += lines - known
        self._put(Item(first + known, data))
        return True

    def take_order(self, number: int, do: str) -> bool:
        """Queue an order, unless it was queued before."""
        if self._known(number):
            return False
        self.taken = number
        item = Item(number, do=do)
        self._put(item)
        if item.do in AT_ONCE:
            self._do(item)
        return True

    def say(self, line: bytes) -> None:
        """Queue a line of the relay's own, which has no number."""
        self._put(Item(0, line))

    def end(self) -> None:
        """Close stdin after everything that is queued."""
        self._put(Item(0, do="close_input"))

    def _known(self, first: int) -> int:
        if first > self.taken + 1:
            raise OutOfOrder(f"{first} came after {self.taken}")
        return self.taken + 1 - first

    def _put(self, item: Item) -> None:
        self._queue.append(item)
        self.flush()

    # -- out

    def flush(self) -> None:
        """Write as much as the CLI takes now, and carry out the orders in between."""
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
        """Close stdin now; what is queued is not written any more."""
        if not self.broken:
            self.broken = True
            self._close()
