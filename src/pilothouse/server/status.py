"""What the running server has to do, and its end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from pilothouse import __version__
from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from . import runtime
from .probing import health
from .runtime import Running

__all__ = ["report", "stop"]

ENDS_WITHIN: Final = 60.0
LOOK_AGAIN_AFTER: Final = 0.05
NONE: Final = "no server is running; start one: pilothouse serve"


def report(settings: Settings) -> tuple[list[str], bool]:
    """Lines for a user, and whether a server answers."""
    running = runtime.find(settings.runtime_dir)
    if running is None:
        return [NONE], False
    told = health(running, settings.tls_cert)
    where = f"at {running.address} (pid {running.pid})"
    if told is None:
        return [f"the server {where} does not answer; end it: pilothouse stop"], False
    return _lines(running, told), True


def _lines(running: Running, told: dict[str, Any]) -> list[str]:
    since = datetime.fromtimestamp(running.started_at / 1000).astimezone()
    lines = [
        f"serving at {running.address} (pid {running.pid}, since {since:%Y-%m-%d %H:%M:%S})",
        f"sessions: {told.get('live', '?')} live of {told.get('sessions', '?')}; "
        f"open questions: {told.get('questions', '?')}",
    ]
    if told.get("simulated"):
        lines.append("sessions run on the simulator")
    if told.get("problem"):
        lines.append(f"PROBLEM {told['problem']}")
    if running.version != __version__:
        lines.append(f"it is version {running.version}, this is {__version__}: pilothouse stop")
    return lines


def stop(settings: Settings) -> str:
    """Ask the server to end, and wait until it has."""
    running = runtime.find(settings.runtime_dir)
    if running is None:
        return "no server is running"
    # It may have ended since.
    with suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    lock = runtime.Lock(settings.runtime_dir / runtime.LOCK_NAME)
    until = time.monotonic() + ENDS_WITHIN
    while lock.is_held():
        if time.monotonic() > until:
            told = f"the server (pid {running.pid}) has not ended within {ENDS_WITHIN:g} s"
            raise ServerError(f"{told}; wait, or end it now: kill -9 {running.pid}")
        time.sleep(LOOK_AGAIN_AFTER)
    return f"the server at {running.address} has ended"
