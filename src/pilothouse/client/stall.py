"""Notices that a session has gone silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["StallWatch"]


class StallWatch:
    """Reports each silence once. Whether it means anything is for `report` to say."""

    def __init__(self, report: Callable[[float], None], after: float) -> None:
        self._report = report
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._reported = False
        self._timer = self._loop.call_later(after, self._look)

    def restart(self) -> None:
        """Something was heard, or said: count from here."""
        self._since = self._loop.time()
        self._reported = False

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        silent = self._loop.time() - self._since
        if silent >= self._after and not self._reported:
            self._reported = True
            self._report(silent)
        wait = self._after if self._reported else self._after - silent
        self._timer = self._loop.call_later(max(wait, 0.01), self._look)
