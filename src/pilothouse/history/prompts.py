"""`history.jsonl`: the prompts that people typed, a line each, of all sessions together.

Only the terminal interface writes it, at its end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from .files import Fence, opened, reason
from .lines import shortened

__all__ = ["Prompts", "Typed"]

_CHUNK: Final = 1 << 20
_LONGEST: Final = 1 << 24
"""A line that is longer than this is passed over."""


class _Line(Struct, rename="camel", frozen=True, gc=False):
    display: str = ""
    timestamp: float = 0
    project: str | None = None
    session_id: str | None = None
    older_id: str | None = msgspec.field(default=None, name="session_id")


_LINE: Final = msgspec.json.Decoder(_Line, strict=False)


class Typed(Struct, gc=False):
    """What the file has about one session."""

    first: str
    since: int
    project: str | None


class Prompts:
    """Reads what was added since it was last asked."""

    def __init__(self, path: Path, fence: Fence) -> None:
        self._path = path
        self._fence = fence
        self._lock = threading.Lock()
        self._key: tuple[int, int, int] | None = None
        self._read = 0
        self.sessions: dict[str, Typed] = {}
        self.nameless: set[tuple[str, str]] = set()
        """Project and prompt of the lines of older CLIs, which name no session."""
        self.problem: str | None = None
        self.changes = 0
        """How often the file was different."""

    def refresh(self) -> None:
        """Reads on."""
        with self._lock:
            before = self.problem
            try:
                changed, self.problem = self._refresh(), None
            except FileNotFoundError:
                changed, self.problem = self._forget(), None
            except OSError as error:
                changed, self.problem = self._forget(), f"{self._path}: {reason(error)}"
            self.changes += changed or before != self.problem

    def _refresh(self) -> bool:
        path = str(self._path)
        with opened(self._fence.target(path) if self._path.is_symlink() else path) as (
            file,
            status,
        ):
            key = (status.st_ino, status.st_mtime_ns, status.st_size)
            if key == self._key:
                return False
            if self._key and (key[0] != self._key[0] or key[2] <= self._key[2]):
                self._forget()
            self._key = key
            for line in self._lines(file):
                self._take(line)
        return True

    def _forget(self) -> bool:
        known = self._key is not None
        self._key, self._read, self.sessions, self.nameless = None, 0, {}, set()
        return known

    def _lines(self, file: int) -> Iterator[bytes]:
        """The lines that are complete, from where it stopped last."""
        at, rest = self._read, b""
        while chunk := os.pread(file, _CHUNK, at):
            at += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest if len(rest) <= _LONGEST else b""
            self._read = at - len(rest)
            yield from lines

    def _take(self, data: bytes) -> None:
        try:
            line = _LINE.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        session = line.session_id or line.older_id
        if session is None:
            self.nameless.add((line.project or "", shortened(line.display)))
        elif session not in self.sessions:
            since = int(line.timestamp) if 0 < line.timestamp < 1 << 53 else 0
            self.sessions[session] = Typed(shortened(line.display), since, line.project)
