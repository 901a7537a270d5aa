"""What a relay that ends without a door leaves in its folder, for a server that comes later.

    left.lines   the CLI's lines that no door has acknowledged, as they are
    left.json    whose they are, the number of the first, which of them are empty because they were
                 too long, and how the CLI ended

The second appears last and complete: without it there is nothing.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .door_frames import CLIExit
    from .spool import Spool

__all__ = ["LINES", "NAME", "Left", "discard", "is_complete", "leave"]

NAME: Final = "left.json"
LINES: Final = "left.lines"
PART: Final = f"{NAME}.part"
BATCH: Final = 256 * 1024


class Left(NamedTuple):
    """What `left.json` says."""

    session_id: str
    run: str
    first: int
    """The number of the first line that was left."""
    next: int
    """The number behind the last: that of the CLI's end."""
    exit: dict[str, object]
    """As `framing.Exit` has it."""
    dropped: Sequence[tuple[int, int]]
    """The lines that were too long, by their numbers, with their sizes."""


def leave(folder: Path, spool: Spool, session_id: str, run: str, exit_: CLIExit) -> str:
    """Write down what the spool has, which is empty then, and the CLI's end; raises `OSError`.

    The result says why lines are missing, if so: the end is left all the same.
    """
    left = Left(session_id, run, spool.first, spool.next, exit_._asdict(), spool.dropped)
    # Before the lines, which may take all the room there is.
    fd = _create(folder / PART)
    try:
        _store(fd, json.dumps(left._asdict()).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    trouble = _leave_lines(folder, spool)
    (folder / PART).replace(folder / NAME)
    _sync_folder(folder)
    return trouble


def _leave_lines(folder: Path, spool: Spool) -> str:
    try:
        fd = _create(folder / LINES)
    except OSError as error:
        return str(error)
    try:
        _move(spool, fd)
        os.fsync(fd)
    except OSError as error:
        return str(error)
    finally:
        os.close(fd)
    return ""


def _move(spool: Spool, fd: int) -> None:
    """Lines leave the spool as they are written: both together need no more room than one."""
    spool.rewind()
    size = 0
    while (batch := spool.take(BATCH)) is not None:
        first, data, _ = batch
        try:
            _store(fd, data)
        except OSError:
            # Half a line is none.
            os.ftruncate(fd, size)
            raise
        size += len(data)
        spool.acknowledge(first + data.count(b"\n") - 1)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _store(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    # Not every file system can.
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def is_complete(folder: Path) -> bool:
    """Whether something was left there."""
    return (folder / NAME).exists()


def discard(folder: Path) -> None:
    """Remove it; cut off half-way, nothing counts as left."""
    for name in (NAME, PART, LINES):
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)
