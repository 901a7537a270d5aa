"""Timers for a loop that waits for something else meanwhile; each has a name and one date."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Timers"]


class Timers:
    def __init__(self) -> None:
        self._dates: dict[str, tuple[float, Callable[[], None]]] = {}
        self._soonest = inf

    def __contains__(self, name: str) -> bool:
        return name in self._dates

    def set(self, name: str, delay: float, then: Callable[[], None]) -> None:
        """Call `then` once after the delay; an earlier date of that name is forgotten."""
        self._dates[name] = (time.monotonic() + delay, then)
        self._look_ahead()

    def cancel(self, name: str) -> None:
        if self._dates.pop(name, None) is not None:
            self._look_ahead()

    def patience(self) -> float | None:
        """Seconds until the next date, or None if there is none."""
        return max(0.0, self._soonest - time.monotonic()) if self._dates else None

    def run_due(self) -> None:
        now = time.monotonic()
        if now < self._soonest:
            return
        for name, date in list(self._dates.items()):
            # One of them may have cancelled or moved another.
            if date[0] <= now and self._dates.get(name) is date:
                self.cancel(name)
                date[1]()

    def _look_ahead(self) -> None:
        self._soonest = min((when for when, _ in self._dates.values()), default=inf)
