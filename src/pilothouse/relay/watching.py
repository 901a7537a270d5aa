"""Waits for descriptors; each has one handler, which is called with what is ready."""

from __future__ import annotations

import select
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler: TypeAlias = Callable[[int], None]

__all__ = ["READ", "WRITE", "Watch"]

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
_FAILED: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Watch:
    """A handful of descriptors: `poll` costs less for them than a selector and its keys."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, tuple[int, Handler]] = {}
        self._released = 0

    def set(self, fd: int, events: int, handler: Handler) -> None:
        """Wait for these events of a descriptor; for none, let go of it."""
        before = self._watched.get(fd)
        if before is not None and before[0] == events:
            return
        if events:
            self._poll.register(fd, events)
            self._watched[fd] = (events, handler)
        else:
            self.forget(fd)

    def forget(self, fd: int) -> None:
        """Let go of a descriptor; to be called before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)
            self._released += 1

    def wait(self, timeout: float | None) -> None:
        """Wait for something to happen, and have it handled."""
        released = self._released
        for fd, events in self._poll.poll(None if timeout is None else ceil(timeout * 1000)):
            wanted, handler = self._watched[fd]
            # What has failed is ready for everything: the attempt will tell.
            handler(wanted if events & _FAILED else events)
            if self._released != released:
                # A descriptor that was let go may be another's now. The rest will still be ready.
                return
