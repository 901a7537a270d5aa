"""What is on its way to one run's CLI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pilothouse.relay.framing import Kind

from .contract import Carried, Outgoing

__all__ = ["Outbox"]

BATCH: Final = 256 * 1024
"""Bytes of lines in one frame; a longer line has one of its own."""


class Outbox:
    """What is for the CLI, by its number, until the CLI has it."""

    def __init__(self, carried: Carried) -> None:
        self._items = {item.number: item for item in carried.outgoing}
        self.size = sum(len(item.body) for item in carried.outgoing)
        self.last = max(carried.sent, *self._items, 0)
        self.ready = self.last
        """The last number that is committed, and may be sent."""
        self.sent = self.last
        """The last number that any connection may have had: those of a server before us, too."""
        self.taken = min(self._items, default=self.last + 1) - 1
        """The last number that the CLI has."""

    def number(self, kind: Kind, bodies: Sequence[bytes]) -> list[Outgoing]:
        """Take these in, each with the next number."""
        items = [Outgoing(number, kind, body) for number, body in enumerate(bodies, self.last + 1)]
        self._items |= {item.number: item for item in items}
        self.size += sum(map(len, bodies))
        self.last += len(items)
        return items

    def skip(self, upto: int) -> None:
        """Give no number up to this one to anything."""
        self.last = self.ready = self.sent = upto

    def take(self, upto: int) -> bool:
        """Forget what the CLI has; False if that was known."""
        if upto <= self.taken:
            return False
        # In their order, and not by counting: a peer may say any number.
        while self._items and (first := next(iter(self._items))) <= upto:
            self.size -= len(self._items.pop(first).body)
        self.taken = upto
        return True

    def gather(self, number: int) -> tuple[int, Kind, bytes]:
        """What goes into one frame from this number on, with its last number and its kind."""
        item = self._items[number]
        if item.kind != Kind.LINES:
            return number, Kind(item.kind), item.body
        bodies, size = [item.body], len(item.body)
        while number < self.ready and (item := self._items[number + 1]).kind == Kind.LINES:
            size += len(item.body)
            if size > BATCH:
                break
            bodies.append(item.body)
            number += 1
        return number, Kind.LINES, b"".join(bodies)
