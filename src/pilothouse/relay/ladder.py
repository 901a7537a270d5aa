"""Ends a CLI in order: its turn, its input, itself; each step has its time, the last is sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from .child import Child
    from .pace import Pace
    from .timers import Timers

__all__ = ["Ladder"]

INTERRUPT: Final = (
    b'{"type":"control_request","request_id":"relay-interrupt","request":{"subtype":"interrupt"}}\n'
)
"""All a relay ever says itself. Closing the input does not stop a turn that is running."""
STEP: Final = "ladder"


class Ladder:
    """Goes down step by step until `stop`, and calls `given_up` if even the last was in vain."""

    def __init__(
        self,
        child: Child,
        say: Callable[[bytes], None],
        end_input: Callable[[], None],
        timers: Timers,
        pace: Pace,
        given_up: Callable[[], None],
    ) -> None:
        self._child = child
        self._say = say
        self._end_input = end_input
        self._timers = timers
        self._pace = pace
        self._given_up = given_up
        self._lowest = 0

    def interrupt(self) -> None:
        """Begin at the top."""
        if self._descend(1, self._pace.interrupt, self.close_input):
            self._say(INTERRUPT)

    def close_input(self) -> None:
        if self._descend(2, self._pace.close, self.terminate):
            self._end_input()

    def terminate(self) -> None:
        if self._descend(3, self._pace.terminate, self.kill):
            self._child.terminate()

    def kill(self) -> None:
        if self._descend(4, self._pace.kill, self._given_up):
            self._child.kill()

    def stop(self) -> None:
        """The CLI has ended."""
        self._lowest = 5
        self._timers.cancel(STEP)

    def _descend(self, step: int, patience: float, then: Callable[[], None]) -> bool:
        if step <= self._lowest:
            return False
        self._lowest = step
        self._timers.set(STEP, patience, then)
        return True
