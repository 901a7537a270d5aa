"""One writer per session, across processes. The CLI has no lock of its own: two of them would
both write to the same transcript."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pilothouse.errors import SessionTaken

__all__ = ["Writer", "Writers"]


class Writer:
    """The right to run a session's CLI, held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let others have the session. The file stays: removing it would race with them."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Writers:
    """Hands out the right to write, one file for each session, in a folder all engines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def acquire(self, session_id: str) -> Writer:
        """Become the session's writer; `SessionTaken` names the process that is."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{session_id}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise SessionTaken(
                f"another process{f' (pid {holder})' if holder else ''} runs session {session_id}",
                advice="talk to it there, or end that process and try again",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return Writer(descriptor)
