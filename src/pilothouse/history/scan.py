"""Walks over the folders of transcripts; reads only what is new or has changed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from .files import Fence, UnreadableFile, check_kind, reason, windows
from .header import WINDOW, Header, header_of
from .index import Folders, Seen

__all__ = ["Scanner", "is_session_id"]

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SUFFIX: Final = ".jsonl"


def is_session_id(words: str) -> bool:
    """Whether a session can have this id. Such an id has no character that a path could use."""
    return _UUID.fullmatch(words) is not None


class Scanner:
    """What lies under `projects`."""

    def __init__(self, root: str, fence: Fence) -> None:
        self.root = root
        self._fence = fence
        self.folders: Folders = {}
        self.unreadable: list[str] = []
        """What the last scan could not read; what is no transcript is in `folders`."""
        self.changes = 0
        """Files that were read, or found to be gone, since the beginning."""

    def scan(self) -> None:
        """Looks at every file."""
        unreadable: list[str] = []
        folders = {
            name: self._scan_folder(name, path, unreadable)
            for name, path in self._project_folders(unreadable)
        }
        for name, known in self.folders.items():
            self.changes += len(known.keys() - folders.get(name, {}).keys())
        self.folders, self.unreadable = folders, unreadable

    def find(self, session_id: str) -> Iterator[tuple[str, Seen]]:
        """The transcripts of one session, whether or not a scan has seen them."""
        name = session_id + _SUFFIX
        for folder, folder_path in self._project_folders([]):
            path = f"{folder_path}/{name}"
            known = self.folders.get(folder, {}).get(name)
            try:
                seen = self._seen(name, path, os.lstat(path), known)
            except OSError:
                continue
            if seen:
                yield path, seen

    def _project_folders(self, unreadable: list[str]) -> Iterator[tuple[str, str]]:
        try:
            with os.scandir(self.root) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            unreadable.append(_told(self.root, error))
            return
        for entry in entries:
            try:
                if self._is_folder(entry):
                    yield entry.name, entry.path
            except OSError as error:
                unreadable.append(_told(entry.path, error))

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        if not entry.is_dir():
            return False
        if entry.is_symlink():
            self._fence.target(entry.path)
        if _told(entry.name) != entry.name:
            raise UnreadableFile("its name is not UTF-8")
        return True

    def _scan_folder(self, folder: str, path: str, unreadable: list[str]) -> dict[str, Seen]:
        known, found = self.folders.get(folder, {}), dict[str, Seen]()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        self._scan_file(entry, known, found, unreadable)
        except OSError as error:
            unreadable.append(_told(path, error))
        return found

    def _scan_file(
        self,
        entry: os.DirEntry[str],
        known: dict[str, Seen],
        found: dict[str, Seen],
        unreadable: list[str],
    ) -> None:
        name = entry.name
        try:
            status = entry.stat(follow_symlinks=False)
            seen = known.get(name)
            if seen is None or not _is_same(seen, status):
                before, seen = seen, self._seen(name, entry.path, status, seen)
                self.changes += seen is not before
        except OSError as error:
            # A file that went away since the folder was opened is no trouble; a link to nowhere is.
            if entry.is_symlink() or not isinstance(error, FileNotFoundError):
                unreadable.append(_told(entry.path, error))
            return
        if seen:
            found[name] = seen

    def _seen(
        self, name: str, path: str, status: os.stat_result, known: Seen | None
    ) -> Seen | None:
        """What a file holds; None if it belongs to no session. Raises OSError."""
        if stat.S_ISLNK(status.st_mode):
            path = self._fence.target(path)
            status = os.lstat(path)
        check_kind(status)
        if not is_session_id(name[: -len(_SUFFIX)]):
            return None
        return known if known and _is_same(known, status) else _read(path)


def _read(path: str) -> Seen:
    status, head, tail = windows(path, WINDOW)
    return Seen(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        header=header_of(head, tail) if head else Header(),
    )


def _is_same(seen: Seen, status: os.stat_result) -> bool:
    return (
        seen.mtime_ns == status.st_mtime_ns
        and seen.size == status.st_size
        and seen.ctime_ns == status.st_ctime_ns
    )


def _told(path: str, error: OSError | None = None) -> str:
    shown = os.fsencode(path).decode(errors="replace")
    return f"{shown}: {reason(error)}" if error else shown
