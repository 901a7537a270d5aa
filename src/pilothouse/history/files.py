"""Opens what lies in the folder, and nothing else: no pipe, no device, no link that leaves it."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["Fence", "UnreadableFile", "opened", "reason", "windows"]

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnreadableFile(OSError):
    """A file is left alone; the text is the reason."""


def reason(error: OSError) -> str:
    """Why a file could not be read, in a few words."""
    return (error.strerror or str(error)).lower()


class Fence:
    """The folder that links may not leave, wherever it lies itself."""

    def __init__(self, *folders: Path) -> None:
        self._roots = tuple(os.path.realpath(each).rstrip("/") + "/" for each in folders)

    def target(self, path: str) -> str:
        """Where a link leads. Raises `UnreadableFile` if that is outside."""
        target = os.path.realpath(path)
        if not target.startswith(self._roots):
            raise UnreadableFile("a link that leaves the folder")
        return target


@contextmanager
def opened(path: str) -> Generator[tuple[int, os.stat_result]]:
    """A plain file, open for reading. Never waits, follows no link."""
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        check_kind(status)
        yield descriptor, status
    finally:
        os.close(descriptor)


def check_kind(status: os.stat_result) -> None:
    """Raises `UnreadableFile` for anything but a plain file."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no plain file")
        raise UnreadableFile(f"{kind}, not a transcript")


def windows(path: str, width: int) -> tuple[os.stat_result, bytes, bytes]:
    """The first and the last bytes of a file; a short one is all in the first."""
    with opened(path) as (descriptor, status):
        size = status.st_size
        if size <= 2 * width:
            return status, os.pread(descriptor, 2 * width, 0), b""
        head, tail = os.pread(descriptor, width, 0), os.pread(descriptor, width, size - width)
        return status, head, tail
