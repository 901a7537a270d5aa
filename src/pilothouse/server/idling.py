"""When a server that was started for somebody has nobody left."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine

    from .attendance import Attendance

__all__ = ["wait_unneeded"]

LOOKS: Final = 10
"""How often it looks in the time it may be idle."""
LONGEST_PAUSE: Final = 10.0


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
