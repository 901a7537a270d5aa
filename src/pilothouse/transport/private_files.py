"""Files for one program that nobody else can read: what must not be seen in its command line.

Each start has a folder of its own, locked for as long as it is needed. What a killed process has
left nobody holds: the next process that writes such a file removes it first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

__all__ = ["PrivateFiles"]

PREFIX: Final = "pilothouse-arguments-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFiles:
    """The files of one start, until `remove`."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._lock = -1
        self._numbers = count()

    def write(self, name: str, data: bytes) -> str:
        """Make a file with this in it; its path, which ends in the name."""
        folder = self.folder or self._make()
        # A name may be given more than once.
        path = folder / f"{next(self._numbers)}-{name}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return str(path)

    def _make(self) -> Path:
        _clear_once(tempfile.gettempdir())
        while self.folder is None:
            made = Path(tempfile.mkdtemp(prefix=PREFIX))
            # Before it was locked, another process may have taken it for one that is left.
            with suppress(FileNotFoundError):
                lock = os.open(made, _FOLDER)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if made.exists():
                    self.folder, self._lock = made, lock
                else:
                    os.close(lock)
        return self.folder

    def read(self) -> dict[str, str]:
        """What is in the files, by path."""
        written = sorted(self.folder.iterdir()) if self.folder is not None else []
        return {str(path): path.read_bytes().decode() for path in written}

    def remove(self) -> None:
        """Remove the files; they may be gone already."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self.folder = None


@cache
def _clear_once(base: str) -> None:
    """Remove what killed processes left there, once in the life of this one."""
    with suppress(OSError):
        for folder in Path(base).glob(f"{PREFIX}*"):
            _clear(folder)


def _clear(folder: Path) -> None:
    try:
        lock = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
