"""Who is being served, and when a server that was started for somebody has nobody left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pilothouse.api import proof

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine

__all__ = ["FACE", "Attendance", "wait_unneeded"]

FACE: Final = "pilothouse"
"""By this User-Agent a server knows a face that means to come."""
# A monitor that looks in now and then is no reason to stay.
UNCOUNTED: Final = frozenset({"/healthz", "/metrics", proof.PATH})
LOOKS: Final = 10
"""How often a server looks in the time it may be idle."""
LONGEST_PAUSE: Final = 10.0


class Attendance:
    """Counts requests while they are served; a stream counts for as long as it is open."""

    def __init__(self) -> None:
        self._inside = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """For how long nobody was being served."""
        return 0.0 if self._inside else time.monotonic() - self._last

    @contextmanager
    def counted(self, scope: Mapping[str, Any]) -> Generator[None]:
        """Count the request of this scope for as long as the context lasts."""
        if not _counts(scope):
            yield
            return
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._last = time.monotonic()


def _counts(scope: Mapping[str, Any]) -> bool:
    if scope.get("path") not in UNCOUNTED:
        return True
    return (b"user-agent", FACE.encode()) in scope.get("headers", ())


async def wait_unneeded(idle_s: float, engine: Engine, attendance: Attendance) -> None:
    """Return after so long without a live session, an open question, a watcher or a request."""
    quiet_since = time.monotonic()
    while True:
        await asyncio.sleep(min(idle_s / LOOKS, LONGEST_PAUSE))
        health = await engine.health()
        if health.live or health.questions:
            quiet_since = time.monotonic()
        if min(attendance.idle_s, time.monotonic() - quiet_since) >= idle_s:
            return
