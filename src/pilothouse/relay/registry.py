"""The file by which a server finds a relay again, and can tell whether it still lives.

A relay writes it when its CLI runs. Before that the lock on its log tells that it is coming: who
starts it takes the lock, and every process on the way to the relay inherits it with its stderr.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from . import arguments, leftovers

__all__ = [
    "LOG_NAME",
    "NAME",
    "RunningRelay",
    "alive",
    "clear",
    "forget",
    "is_starting",
    "lock",
    "record",
    "started_at",
]

NAME = "relay.json"
LOG_NAME = "relay.log"


class RunningRelay(NamedTuple):
    """One relay and what it looks after."""

    session_id: str
    run: str
    relay_pid: int
    started: int
    """When the relay was started, in the kernel's ticks: a number used again has another time."""
    guard_pid: int | None
    cli_pid: int | None


def record(folder: Path, found: RunningRelay) -> Path:
    """Write the file; it appears complete or not at all."""
    path = folder / NAME
    part = folder / f"{NAME}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(found._asdict(), file)
    return part.replace(path)


def lock(log: int) -> None:
    """Lock the log of a relay that is about to be started, for as long as anybody has it open."""
    # It waits for nobody but somebody who looks.
    fcntl.flock(log, fcntl.LOCK_EX)


def is_starting(folder: Path) -> bool:
    """Whether a relay was started that has not written its file yet, or has just taken it away."""
    if (folder / NAME).exists():
        return False
    try:
        fd = os.open(folder / LOG_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def alive(path: Path) -> RunningRelay | None:
    """The relay of this file (or of the folder it is in), if it runs."""
    file = path / NAME if path.is_dir() else path
    try:
        given = json.loads(file.read_bytes())
        found = RunningRelay(**{name: given[name] for name in RunningRelay._fields})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # A signal to a number below 1 would go to many processes.
    is_pid = type(found.relay_pid) is int and 0 < found.relay_pid < 1 << 31
    return found if is_pid and started_at(found.relay_pid) == found.started else None


def started_at(pid: int) -> int | None:
    """When a running process was started; None if there is none, or it has ended."""
    if sys.platform != "linux":
        # Nothing tells the time here, so a number that was used again deceives us.
        return 0 if _answers(pid) else None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def forget(folder: Path) -> None:
    """Take the file away."""
    with suppress(OSError):
        (folder / NAME).unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Remove what a relay that has ended had in its folder, and the folder if that was all.

    What it could not deliver stays, unless it was killed before that was complete.
    """
    forget(folder)
    arguments.remove(folder)
    if not leftovers.is_complete(folder):
        leftovers.discard(folder)
    with suppress(OSError):
        (folder / f"{NAME}.part").unlink(missing_ok=True)
        (folder / LOG_NAME).unlink(missing_ok=True)
        folder.rmdir()
