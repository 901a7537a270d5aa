"""The files of a journal: who may open them, and where a damaged one goes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from pilothouse import folders
from pilothouse.errors import JournalError, JournalInUse

__all__ = ["lock", "looks_whole", "make_private", "set_aside", "siblings"]

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
_MAGIC: Final = b"SQLite format 3\0"
_SMALLEST: Final = 512


def siblings(path: Path) -> list[Path]:
    """The database and what stands beside it."""
    beside = (path.with_name(path.name + suffix) for suffix in ("", *_COMPANIONS))
    return [each for each in beside if each.exists()]


def looks_whole(path: Path) -> bool:
    """Whether SQLite may have it: beside what is no database, it would delete the log.

    An empty file is a journal to be, unless there is a log: then it was one.
    """
    size = path.stat().st_size
    if size == 0:
        log = path.with_name(path.name + "-wal")
        return not (log.exists() and log.stat().st_size)
    with path.open("rb") as file:
        return size >= _SMALLEST and file.read(len(_MAGIC)) == _MAGIC


def make_private(path: Path) -> None:
    """Make the file and its folder for the user alone; the rights of what exists stay."""
    try:
        folders.make_private(path.parent)
        os.close(_opened(path))
    except OSError as error:
        raise _no_place(path, error) from error


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _no_place(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"the journal {path} cannot be opened: {error.strerror}; "
        "choose a place that you may write to"
    )


def lock(path: Path) -> int:
    """Hold the journal for this process; the descriptor is the lock.

    The lock file is never removed: a process that waits on a removed one would hold nothing.
    """
    try:
        held = _opened(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise _no_place(path, error) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(held, 32, 0).decode("ascii", "replace").strip()
        os.close(held)
        by = f"process {owner}" if owner else "another process"
        raise JournalInUse(
            f"the journal {path} is in use by {by}; use that server, or stop it first"
        ) from error
    os.ftruncate(held, 0)
    os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
    return held


def set_aside(path: Path) -> Path:
    """Rename a damaged journal with all that belongs to it; nothing is deleted."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for each in siblings(path):
        each.rename(aside.with_name(aside.name + each.name.removeprefix(path.name)))
    return aside
