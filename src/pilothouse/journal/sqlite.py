"""The journal in one SQLite file, or in memory: how it is opened, and replaced if it is damaged."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from . import files
from .database import Database, prepared
from .schema import Damaged
from .stored import StoredJournal

__all__ = ["Database", "SqliteJournal"]


class SqliteJournal(StoredJournal):
    """Implements `Journal` in one file."""

    set_aside: Path | None = None
    """Where a damaged file went that was found in this one's place."""

    @classmethod
    async def open(cls, path: Path | None, *, check: bool = False) -> SqliteJournal:
        """Open or make the journal; None: in memory. `check` looks at every page of a large one."""
        database, aside = await asyncio.to_thread(_open, path, check=check)
        journal = cls(database, database.highest)
        journal.set_aside = aside
        return journal


def _open(path: Path | None, *, check: bool) -> tuple[Database, Path | None]:
    if path is None:
        return prepared(None, check=False), None
    files.make_private(path)
    held = files.lock(path)
    try:
        database, aside = _open_or_replace(path, check=check)
    except BaseException:
        os.close(held)
        raise
    database.hold(held)
    return database, aside


def _open_or_replace(path: Path, *, check: bool) -> tuple[Database, Path | None]:
    try:
        return prepared(path, check=check), None
    except Damaged:
        aside = files.set_aside(path)
    files.make_private(path)
    database = prepared(path, check=False)
    # Past every number the lost one can have used, so that old cursors stay behind the new ones.
    database.go_on_from(int(time.time() * 1000))
    return database, aside
