"""What a running server leaves on disk: a lock, its address and its token, for its user alone.

The lock tells whether a server runs: the system frees it with the process, however that ends. The
file beside it tells where; alone it proves nothing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import DecodeError, Meta, Struct, json

from pilothouse.errors import ServerError
from pilothouse.folders import make_private
from pilothouse.settings import Settings

__all__ = [
    "TAKEN",
    "AlreadyServed",
    "Lock",
    "Running",
    "find",
    "forget",
    "is_alive",
    "keep_private",
    "own_folders",
    "publish",
    "token",
    "usable",
]

LOCK_NAME: Final = "server.lock"
START_LOCK_NAME: Final = "start.lock"
FILE_NAME: Final = "server.json"
TOKEN_NAME: Final = "token"
SHORTEST_TOKEN: Final = 20
# Whoever only looks holds the lock for a moment; see `is_held`.
LOOKERS_LEAVE_IN: Final = 2.0
LOOK_AGAIN_AFTER: Final = 0.01


TAKEN: Final = 75
"""The exit code of a server that found another one; by its usual name, a temporary failure."""


class AlreadyServed(ServerError):
    """Another server of this user runs on this machine."""


class Running(Struct, frozen=True, kw_only=True):
    """A server, as it describes itself to its user's other programs.

    What is read from a file is held to this: a signal to a pid below 1 would go to many processes.
    """

    address: Annotated[str, Meta(pattern=r"^https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}\Z")]
    """As a URL: http://127.0.0.1:8137."""
    token: Annotated[str, Meta(pattern=r"^[!-~]+\Z")]
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    version: str
    started_at: Annotated[int, Meta(ge=0, le=2**45)]


@contextmanager
def usable(path: Path) -> Generator[None]:
    """What the system says no with, as one line that says what to do."""
    try:
        yield
    except OSError as error:
        told = f"{path} cannot be used: {error.strerror or error}"
        advice = "see to its folder and its disk, or set state_dir and runtime_dir to others"
        raise ServerError(f"{told}; {advice}") from None


class Lock:
    """A lock between processes, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take it, if nobody has it; a process that only looks is waited for."""
        with usable(self._path):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + LOOKERS_LEAVE_IN
        while not _lock(descriptor, fcntl.LOCK_EX):
            if self.is_held() or time.monotonic() > until:
                os.close(descriptor)
                return False
            time.sleep(LOOK_AGAIN_AFTER)
        self._descriptor = descriptor
        return True

    def is_held(self) -> bool:
        """Whether a process has it. There is no way to ask but to share it for a moment, which
        those who only ask can do together."""
        with usable(self._path):
            try:
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        try:
            return not _lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Let others have it. The file stays: removing it would race with them."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keep_private(folder: Path, name: str) -> Path:
    """The folder, made if it is not there, and refused if others could use it."""
    try:
        found = make_private(folder).stat()
    except OSError as error:
        told = f"{folder} cannot be used as {name}: {error.strerror}"
        raise ServerError(f"{told}; set {name} to a folder of your own") from None
    if found.st_uid != os.getuid():
        raise ServerError(f"{folder} belongs to another user; set {name} to a folder of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ServerError(f"{folder} is open to other users; close it: chmod 700 {folder}")
    return folder


def own_folders(settings: Settings) -> tuple[Path, Path]:
    """The folders for what is kept and for what runs; the second may be within the first."""
    return _own(settings.state_dir, "state_dir"), _own(settings.runtime_dir, "runtime_dir")


def _own(folder: Path, name: str) -> Path:
    keep_private(folder, name)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        told = f"{folder} cannot be written to; open it to yourself: chmod 700 {folder}"
        raise ServerError(f"{told}, or set {name} to another folder")
    return folder


def publish(folder: Path, running: Running) -> None:
    """Tell the user's other programs of this server, whole or not at all."""
    _write_private(folder / FILE_NAME, json.encode(running))


def forget(folder: Path) -> None:
    """Take the file away; the lock's holder calls it."""
    with usable(folder / FILE_NAME):
        (folder / FILE_NAME).unlink(missing_ok=True)


def find(folder: Path) -> Running | None:
    """The server that runs, if one does. A file without the lock held is a leftover."""
    with usable(folder):
        if not folder.is_dir():
            return None
    keep_private(folder, "runtime_dir")
    if not Lock(folder / LOCK_NAME).is_held():
        return None
    running = _read(folder / FILE_NAME)
    return running if running is not None and is_alive(running.pid) else None


def _read(path: Path) -> Running | None:
    try:
        text = _read_private(path)
    except FileNotFoundError:
        return None
    try:
        running = json.decode(text, type=Running)
        # Raises for one that there is not.
        return running if urlsplit(running.address).port else None
    except (DecodeError, ValueError, RecursionError):
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def token(folder: Path) -> str:
    """The user's bearer token, made at the first call and kept."""
    path = folder / TOKEN_NAME
    try:
        kept = _read_private(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        kept = secrets.token_urlsafe(32)
        _write_private(path, f"{kept}\n".encode())
    if len(kept) < SHORTEST_TOKEN or not all("!" <= each <= "~" for each in kept):
        raise ServerError(f"{path} holds no token; delete it, and the next start makes one")
    return kept


def _read_private(path: Path) -> bytes:
    """What is in a file of the user's that nobody else may read."""
    try:
        # Without O_NONBLOCK a named pipe would be waited for until somebody writes to it.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        told = "it is a link" if path.is_symlink() else error.strerror
        raise ServerError(f"{path} cannot be read: {told}; delete it") from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ServerError(f"{path} is no file; delete it")
    with os.fdopen(descriptor, "rb") as file:
        if found.st_uid != os.getuid():
            raise ServerError(f"{path} belongs to another user; delete it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ServerError(
                f"{path} is open to other users; delete it, and the next start makes a new one"
            )
        return file.read()


def _write_private(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with usable(path):
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        partial.replace(path)
