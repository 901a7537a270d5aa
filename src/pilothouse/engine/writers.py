"""One writer per session, across processes. The CLI has no lock of its own: two of them would
both write to the same transcript.

    acquire     open the file, take it alone, and look whether it is still the one at its path
    release     remove the file while it is held alone, then let go; of one that a relay holds
                with us let go first, and remove it only if nobody has it by then
    tidy        remove what killed processes left, each held together with whoever looks

A file is removed only under its lock, and what was locked counts only while it is at its path, so
nobody holds a file that others no longer see.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pilothouse.api.values import is_id
from pilothouse.errors import NotNow, SessionTaken
from pilothouse.folders import make_private

__all__ = ["WriterLock", "Writers"]

SUFFIX: Final = ".lock"
TIDYING: Final = ".tidying"
# Whoever tidies up holds a file for a moment.
TRIES: Final = 200
TRY_AGAIN_AFTER: Final = 0.001


class WriterLock:
    """The right to run a session's CLI, held until `release` or the end of the process.

    Without a descriptor it is held by another process for us.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self._may_be_held = descriptor is None
        """Whether another process may have the lock with us, or instead of us."""

    def fileno(self) -> int | None:
        """The locked file, for a process that is to hold the lock with us."""
        self._may_be_held = True
        return self._descriptor

    def release(self) -> None:
        """Let others have the session, as far as that is up to us."""
        if self._descriptor is not None and not self._may_be_held:
            _remove(self._path, self._descriptor)
        self.leave()
        if self._may_be_held:
            self._may_be_held = False
            _remove_unheld(self._path, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Let go of our copy; the lock stays with whoever has another."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Writers:
    """Hands out the right to write, one file for each session, in a folder all engines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tidied = False

    def acquire(self, session_id: str) -> WriterLock:
        """Become the session's writer; `SessionTaken` names the process that is."""
        try:
            make_private(self._folder)
            self._tidy_once()
            return self._acquire(session_id)
        except OSError as error:
            raise NotNow(
                f"no session can be locked in {self._folder}: {error.strerror}",
                advice="see to that folder and its disk, then try again",
            ) from None

    def acquire_all(self, names: Iterable[str]) -> dict[str, WriterLock]:
        """Become the writer under each of these names, or under none."""
        writers: dict[str, WriterLock] = {}
        try:
            for name in names:
                writers[name] = self.acquire(name)
        except BaseException:
            for writer in writers.values():
                writer.release()
            raise
        return writers

    def none(self, session_id: str) -> WriterLock:
        """Return no right at all: another process has it, and holds on to it."""
        return WriterLock(self._path(session_id), None)

    def take_up(self, session_id: str) -> WriterLock:
        """Be the writer of a session whose CLI runs: its relay has the lock, or nobody has."""
        try:
            return self.acquire(session_id)
        except SessionTaken:
            return self.none(session_id)

    def _acquire(self, session_id: str) -> WriterLock:
        path = self._path(session_id)
        for _ in range(TRIES):
            descriptor = _open(path)
            if _lock(descriptor, fcntl.LOCK_EX):
                if _is_at(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                    return WriterLock(path, descriptor)
            elif not _lock(descriptor, fcntl.LOCK_SH):
                raise _taken(session_id, descriptor)
            else:
                # Somebody only looks, for a moment; a lock notifies nobody when it is free.
                time.sleep(TRY_AGAIN_AFTER)
            os.close(descriptor)
        raise SessionTaken(f"session {session_id} is being locked", advice="try again")

    def _path(self, session_id: str) -> Path:
        """The session's file, in the folder whatever the id is."""
        if is_id(session_id):
            return self._folder / f"{session_id}{SUFFIX}"
        # No id begins so: such a name is nobody else's.
        text = session_id.encode("utf-8", "surrogatepass")
        return self._folder / f"_{hashlib.sha256(text).hexdigest()}{SUFFIX}"

    def _tidy_once(self) -> None:
        """Remove what killed processes left. One process at a time does: under a shared lock,
        two could remove a file and the one that came in its place."""
        if self._tidied:
            return
        self._tidied = True
        alone = _open(self._folder / TIDYING)
        try:
            if _lock(alone, fcntl.LOCK_EX):
                for path in self._folder.glob(f"*{SUFFIX}"):
                    _remove_unheld(path, fcntl.LOCK_SH)
        finally:
            os.close(alone)


def _taken(session_id: str, descriptor: int) -> SessionTaken:
    holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    os.close(descriptor)
    return SessionTaken(
        f"another process{f' (pid {holder})' if holder else ''} runs session {session_id}",
        advice="talk to it there, or end that process and try again",
    )


def _remove_unheld(path: Path, how: int) -> None:
    """Remove the file if nobody holds it. Under a shared lock, only one may do so at a time."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if _lock(descriptor, how):
            _remove(path, descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path, descriptor: int) -> None:
    """Remove the locked file, if it is the one at the path; one that stays is no harm."""
    with suppress(OSError):
        if _is_at(path, descriptor):
            path.unlink()


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
