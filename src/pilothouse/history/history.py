"""Every session on the machine, from `projects/*/*.jsonl` and `history.jsonl`.

Only the two ends of a transcript are read, and only again when the file has changed. What is read
goes into the list and into the index, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import index as cache
from .files import Fence
from .found import FoundSession, HistoryPage, found_at, in_order, started_in
from .index import Seen
from .prompts import Prompts
from .scan import Scanner, is_session_id

__all__ = ["History"]

MOST_UNREADABLE: Final = 100
"""So many files are named that could not be read; of the others only how many they are."""
_STALE: Final = 100
"""The index is written when one in so many of its entries is out of date."""


class History:
    """The sessions under one configuration folder of the CLI.

    With `index`, what was read is stored in that file for the next process.
    """

    def __init__(self, config_dir: Path, *, index: Path | None = None) -> None:
        projects = config_dir / "projects"
        fence = Fence(config_dir, projects)
        self._scanner = Scanner(os.path.realpath(projects), fence)
        self._prompts = Prompts(config_dir / "history.jsonl", fence)
        self._index = index
        self._is_loaded = False
        self._saved = 0
        self._listed = (-1, -1)
        self._made: dict[str, tuple[Seen, FoundSession | None]] = {}
        self._page = HistoryPage(found=[], total=0)
        self._damaged: tuple[str, ...] = ()
        self._turn = asyncio.Lock()
        self._begun = self._finished = 0
        # A caller that gives up leaves its thread behind: the next one waits for that here.
        self._looking = threading.Lock()

    async def refresh(self) -> None:
        """Looks at the disk. Those who ask while somebody looks share the look after that."""
        wanted = self._begun + 1
        async with self._turn:
            if self._finished < wanted:
                self._begun = number = self._begun + 1
                await asyncio.to_thread(self._look)
                self._finished = number

    async def find(self, session_id: str) -> FoundSession | None:
        """One session, also one in which nothing was said yet."""
        if not is_session_id(session_id):
            return None
        return await asyncio.to_thread(self._find, session_id)

    async def list(
        self, *, cwd: str | None = None, limit: int = 50, offset: int = 0
    ) -> HistoryPage:
        """The sessions as they are now; with `cwd` those that were started in that directory."""
        await self.refresh()
        page, first = self._page, max(0, offset)
        found = page.found
        if cwd is not None:
            found = await asyncio.to_thread(started_in, cwd, found)
        return HistoryPage(
            found=found[first : first + max(0, limit)],
            total=len(found),
            unreadable=page.unreadable,
        )

    # In a thread

    def _find(self, session_id: str) -> FoundSession | None:
        self._prompts.refresh()
        at = self._scanner.find(session_id)
        found = [each for path, seen in at if (each := found_at(path, seen, self._prompts))]
        return max(found, key=lambda each: each.updated_at, default=None)

    def _look(self) -> None:
        with self._looking:
            self._load()
            self._scanner.scan()
            self._prompts.refresh()
            found = self._page.found
            changes = (self._scanner.changes, self._prompts.changes)
            if self._listed != changes:
                # What people typed can change the line of any session.
                self._made = self._made if self._listed[1] == changes[1] else {}
                self._listed = changes
                found = in_order(self._talks())
                self._damaged = tuple(self._no_transcripts())
            problem = self._prompts.problem
            unreadable = [
                *self._scanner.unreadable,
                *self._damaged,
                *([problem] if problem else []),
            ]
            if (more := len(unreadable) - MOST_UNREADABLE) > 0:
                unreadable = [*unreadable[:MOST_UNREADABLE], f"and {more} more"]
            self._page = HistoryPage(found=found, total=len(found), unreadable=unreadable)
            self._save()

    def _files(self) -> Iterator[tuple[str, Seen]]:
        for folder, files in self._scanner.folders.items():
            for name, seen in files.items():
                yield f"{self._scanner.root}/{folder}/{name}", seen

    def _talks(self) -> Iterator[FoundSession]:
        """The sessions in which something was said."""
        made: dict[str, tuple[Seen, FoundSession | None]] = {}
        for path, seen in self._files():
            known = self._made.get(path)
            made[path] = known if known and known[0] is seen else (seen, self._talk(path, seen))
        self._made = made
        return (found for _, found in made.values() if found)

    def _talk(self, path: str, seen: Seen) -> FoundSession | None:
        found = found_at(path, seen, self._prompts)
        is_talk = found and (found.title or (seen.header and seen.header.is_talk))
        return found if is_talk else None

    def _no_transcripts(self) -> Iterator[str]:
        return (f"{path}: not a transcript" for path, seen in self._files() if seen.header is None)

    # The index

    def _load(self) -> None:
        if self._index is not None and not self._is_loaded:
            self._scanner.folders = cache.load(self._index, self._scanner.root)
        self._is_loaded = True

    def _save(self) -> None:
        stale = self._scanner.changes - self._saved
        files = sum(map(len, self._scanner.folders.values()))
        if self._index is not None and stale and stale * _STALE >= files:
            cache.save(self._index, self._scanner.root, self._scanner.folders)
            self._saved = self._scanner.changes
