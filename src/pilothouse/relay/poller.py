"""The loop of a relay: waits for descriptors and for dates, and calls their handlers."""

from __future__ import annotations

import select
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .timers import Timers

    Handler: TypeAlias = Callable[[int], None]

__all__ = ["READ", "WRITE", "Poller"]

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
_FAILED: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Poller:
    """A handful of descriptors: `poll` costs less for them than a selector and its keys.

    Each has one handler, which is called with what is ready.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, tuple[int, Handler]] = {}
        self._released = 0

    def run(
        self,
        timers: Timers,
        *,
        is_over: Callable[[], bool],
        before: Callable[[], None],
        after: Sequence[Callable[[], None]],
    ) -> None:
        """Handle what is ready and what is due until it is over.

        `before` is called before each wait, and those of `after` when everything was handled.
        """
        while not is_over():
            before()
            self.wait(timers.patience())
            # Only now: what came while we were stopped or asleep counts before its deadline does.
            timers.run_due()
            for each in after:
                each()

    def set(self, fd: int, events: int, handler: Handler) -> None:
        """Wait for these events of a descriptor; without any, release it."""
        before = self._watched.get(fd)
        if before is not None and before[0] == events:
            return
        if events:
            self._poll.register(fd, events)
            self._watched[fd] = (events, handler)
        else:
            self.forget(fd)

    def forget(self, fd: int) -> None:
        """Release a descriptor. To be called before it is closed or given another handler."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)
            self._released += 1

    def wait(self, timeout: float | None) -> None:
        """Wait until something is ready, and call its handler."""
        released = self._released
        for fd, events in self._poll.poll(None if timeout is None else ceil(timeout * 1000)):
            wanted, handler = self._watched[fd]
            # What has failed is ready for everything: the attempt will tell.
            handler(wanted if events & _FAILED else events)
            if self._released != released:
                # A descriptor that was released may be another's now. The rest will still be ready.
                return
