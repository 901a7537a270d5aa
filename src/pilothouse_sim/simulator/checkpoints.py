"""Files as they were at each prompt, so that a client can put them back.

On with CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING. Only what the file tools change is tracked: what
a shell does to files stays. Copies lie in `<config>/file-history/<session>/<hash>@v<n>`; which copy
belongs to which prompt stands in the transcript, so a resumed session can rewind as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.outlet import new_id

if TYPE_CHECKING:
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["Checkpoints"]

Backup = dict[str, Any]
Backups = dict[str, Backup]
"""Copies by the path of their file, relative to the working directory if it is in there."""


class _Change(Struct, frozen=True):
    """A file that is not as it was: its path, what it holds, what it held. None: no file."""

    path: Path
    now: str | None
    then: str | None


class Checkpoints:
    """The session's checkpoints."""

    def __init__(self, state: SessionState, transcript: TranscriptFile) -> None:
        self._state = state
        self._transcript = transcript
        self._is_on = state.is_set("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING")
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget every checkpoint."""
        self._snapshots: dict[str, Backups] = {}
        self._first: Backups = {}
        """The oldest copy of every file that was ever touched."""
        self._newest: Backups = {}

    # Keeping

    def begin(self, message_id: str) -> None:
        """Note how the tracked files are as a prompt comes."""
        if not self._is_on:
            return
        kept = {path: self._renewed(path) for path in self._newest}
        self._snapshots[message_id] = dict(kept)
        self._write_snapshot(message_id, kept)

    def touched(self, path: Path) -> None:
        """Keep a file that is about to be changed, if this is the first time in its turn."""
        if not self._is_on or not self._snapshots:
            return
        message_id, current = next(reversed(self._snapshots.items()))
        tracked = self._tracking_path(path)
        if tracked in current:
            return
        current[tracked] = self._first[tracked] = self._newest[tracked] = self._keep(tracked, 1)
        delta = {
            "type": "file-history-delta",
            "messageId": new_id(),
            "snapshotMessageId": message_id,
            "trackingPath": tracked,
            "backup": current[tracked],
            "timestamp": timestamp(),
        }
        self._transcript.write(delta)

    def restore(self, lines: list[dict[str, Any]], session_id: str) -> None:
        """Take over what a transcript says of checkpoints."""
        for line in lines:
            match line["type"]:
                case "file-history-snapshot":
                    snapshot = line["snapshot"]
                    self._take(snapshot["messageId"], snapshot["trackedFileBackups"])
                case "file-history-delta":
                    self._take(line["snapshotMessageId"], {line["trackingPath"]: line["backup"]})
                case _:
                    pass
        if self._snapshots and session_id != self._state.session_id:
            self._inherit(session_id)

    def _take(self, message_id: str, backups: Backups) -> None:
        self._snapshots.setdefault(message_id, {}).update(backups)
        self._newest |= backups
        self._first = backups | self._first

    def _inherit(self, session_id: str) -> None:
        source, target = self._folder.with_name(session_id), self._folder
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            for copy in source.iterdir():
                (target / copy.name).write_bytes(copy.read_bytes())

    def _renewed(self, tracked: str) -> Backup:
        newest = self._newest[tracked]
        if self._text(newest) != _read(self._path(tracked)):
            newest = self._newest[tracked] = self._keep(tracked, newest["version"] + 1)
        return newest

    def _keep(self, tracked: str, version: int) -> Backup:
        path = self._path(tracked)
        name = f"{_hash(str(path))}@v{version}" if path.exists() else None
        if name is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_bytes(path.read_bytes())
        return {
            "backupFileName": name,
            "version": version,
            "backupTime": timestamp(),
            "realParentDir": str(path.parent.resolve()),
        }

    def _write_snapshot(self, message_id: str, kept: Backups) -> None:
        snapshot = {
            "messageId": message_id,
            "trackedFileBackups": kept,
            "timestamp": timestamp(),
        }
        line = {"type": "file-history-snapshot", "messageId": message_id, "snapshot": snapshot}
        self._transcript.write(line | {"isSnapshotUpdate": False})

    # Going back

    def rewind(self, message_id: str, *, dry_run: bool) -> dict[str, Any]:
        """Put files back, or only say what that would change. `error` says why it cannot."""
        if not self._is_on:
            return {"canRewind": False, "error": "File rewinding is not enabled."}
        if message_id not in self._snapshots:
            return {"canRewind": False, "error": "No file checkpoint found for this message."}
        changes = self._changes(self._snapshots[message_id])
        if dry_run:
            return {"canRewind": True, **_counted(changes)}
        for change in changes:
            _put_back(change)
        return {"canRewind": True, "skippedLinks": 0}

    def _changes(self, wanted: Backups) -> list[_Change]:
        found = [
            _Change(path, _read(path), self._text(wanted.get(tracked, self._first[tracked])))
            for tracked in self._newest
            for path in (self._path(tracked),)
        ]
        return [change for change in found if change.now != change.then]

    # Where things are

    @property
    def _folder(self) -> Path:
        return self._state.config_dir / "file-history" / self._state.session_id

    def _text(self, backup: Backup) -> str | None:
        name = backup["backupFileName"]
        return None if name is None else _read(self._folder / name)

    def _tracking_path(self, path: Path) -> str:
        root = self._state.original_cwd
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def _path(self, tracked: str) -> Path:
        return self._state.original_cwd / tracked


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def _put_back(change: _Change) -> None:
    if change.then is None:
        change.path.unlink(missing_ok=True)
    else:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        change.path.write_bytes(change.then.encode("utf-8", "surrogateescape"))


def _counted(changes: list[_Change]) -> dict[str, Any]:
    counts = [_lines_changed(change) for change in changes]
    return {
        "filesChanged": [str(change.path) for change in changes],
        "insertions": sum(added for added, _ in counts),
        "deletions": sum(removed for _, removed in counts),
    }


def _lines_changed(change: _Change) -> tuple[int, int]:
    # Only clients that rewind need it, and it takes longer to import than all the rest.
    from difflib import SequenceMatcher

    before, after = (change.now or "").splitlines(), (change.then or "").splitlines()
    matched = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in matched)
    return len(after) - same, len(before) - same


def _hash(path: str) -> str:
    # Needed only once a file is kept.
    from hashlib import sha256

    return sha256(path.encode()).hexdigest()[:16]
