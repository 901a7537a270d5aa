"""The relays of this machine that go on without their server, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pilothouse.errors import ServerError
from pilothouse.relay import registry
from pilothouse.relay.registry import LOG_NAME, RunningRelay
from pilothouse.settings import Settings

from . import runtime
from .folders import RELAYS_NAME, SIMULATED_NAME

__all__ = ["count", "end", "going_on", "sessions"]

FOLDERS: Final = (RELAYS_NAME, f"{SIMULATED_NAME}/{RELAYS_NAME}")
"""Below the state folder; in each, one for every relay."""
ENDS_WITHIN: Final = 60.0
"""The steps by which a relay ends its CLI take less."""
LOOK_AGAIN_AFTER: Final = 0.05


def count(settings: Settings) -> int:
    """How many sessions have a relay that runs."""
    found = [_alive(path) for path in _files(settings)]
    return len({each.session_id for each in found if each})


def _files(settings: Settings) -> list[Path]:
    folders = [settings.state_dir / name for name in FOLDERS]
    files = sorted(path for folder in folders for path in folder.glob(f"*/{registry.NAME}"))
    if files:
        # What others could have written there names processes that are none of ours to end.
        runtime.keep_private(settings.state_dir, "state_dir")
    return files


def _alive(path: Path) -> RunningRelay | None:
    """The relay of this file, if it runs and is no other process that has its number now."""
    found = registry.alive(path)
    if found is None or sys.platform == "linux" or _is_named(found):
        return found
    return None


def _is_named(found: RunningRelay) -> bool:
    """Whether the process was started for this run; for where its start cannot be told."""
    command = ["ps", "-ww", "-o", "command=", "-p", str(found.relay_pid)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return found.run in told.stdout.split()


def sessions(number: int) -> str:
    """In words."""
    return f"{number} session{'' if number == 1 else 's'}"


def going_on(behind: int) -> str:
    """What can be done about sessions that have no server."""
    one = behind == 1
    go, them = ("goes on behind its relay", "it") if one else ("go on behind their relays", "them")
    do = f"start the server again to steer {them}, or end {them}: pilothouse stop --all"
    return f"{sessions(behind)} {go}: {do}"


def end(settings: Settings) -> set[str]:
    """Have every relay end its CLI in order, and wait for it; the sessions that were behind.

    One that a killed server was just starting is waited for, and ended as well.
    """
    asked: dict[Path, RunningRelay] = {}
    until = time.monotonic() + ENDS_WITHIN
    while True:
        # Before the files: what is not there yet is in one of them then, or still coming.
        coming = _starting(settings)
        for path in _files(settings):
            if path not in asked and (found := _ask_to_end(path)):
                asked[path] = found
        left = [found.relay_pid for found in asked.values() if _runs(found)]
        if not left and not coming:
            return {found.session_id for found in asked.values()}
        if time.monotonic() > until:
            raise ServerError(_not_ended(left) if left else _not_come(coming))
        # No children of ours: nothing tells of their end.
        time.sleep(LOOK_AGAIN_AFTER)


def _starting(settings: Settings) -> list[Path]:
    """The folders of relays that are about to be there."""
    logs = (path for name in FOLDERS for path in (settings.state_dir / name).glob(f"*/{LOG_NAME}"))
    return [path.parent for path in logs if registry.is_starting(path.parent)]


def _ask_to_end(path: Path) -> RunningRelay | None:
    """Tell the relay of this file to end, if it runs."""
    found = _alive(path)
    if found is None:
        return None
    with suppress(ProcessLookupError):
        _send(found, path)
    return found


def _send(found: RunningRelay, path: Path) -> None:
    if sys.platform != "linux":
        os.kill(found.relay_pid, signal.SIGTERM)
        return
    held = os.pidfd_open(found.relay_pid)
    try:
        # Looked at again: from here on the number cannot become another process's.
        if registry.alive(path):
            signal.pidfd_send_signal(held, signal.SIGTERM)
    finally:
        os.close(held)


def _runs(found: RunningRelay) -> bool:
    # By its process: the file goes some time before.
    return registry.started_at(found.relay_pid) == found.started


def _not_ended(pids: Iterable[int]) -> str:
    told = " ".join(map(str, pids))
    return f"relays have not ended within {ENDS_WITHIN:g} s; wait, or end them now: kill -9 {told}"


def _not_come(folders: Iterable[Path]) -> str:
    told = " ".join(map(str, folders))
    return f"relays were started and have not come up within {ENDS_WITHIN:g} s: look into {told}"
