"""The relays of this machine: started, found again, watched, ended. They need no runner to go on.

DIR/relays/RUN/              a relay's own folder, with the file by which it is found
DIR/relays/RUN/arguments/    what its CLI is told by file: settings, servers, prompts
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pilothouse.folders import make_private
from pilothouse.relay import launcher, registry
from pilothouse.relay.deaths import RelayTermination, RelayWatch, guard_of, last_words
from pilothouse.relay.registry import RunningRelay
from pilothouse.transport.base import SpawnFailed

__all__ = ["Door", "Relays"]

COMING_UP: Final = 10.0
"""Seconds for a relay that was started to say that it runs."""
LOOK: Final = 0.02
YOUNG: Final = 60.0


class Door(NamedTuple):
    """Where relays are to go."""

    connect: str
    ca: str | None = None


class Relays:
    """Those that run; `gone(run, reason)` is told once for each that ends."""

    def __init__(self, folder: Path, door: Door, gone: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._door = door
        self._gone = gone
        self._running: dict[str, RunningRelay] = {}
        self._watches: dict[str, Callable[[], None]] = {}
        self._endings: dict[str, RelayTermination] = {}

    def running(self) -> list[RunningRelay]:
        return list(self._running.values())

    def adopt(self) -> None:
        """Look after the relays that are there, and clear away what others have left."""
        make_private(self._folder)
        for folder in sorted(self._folder.iterdir()):
            if (found := registry.alive(folder)) is not None:
                self._keep(found)
            elif not _is_young(folder):
                registry.clear(folder)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        session_id: str,
        run: str,
        token: str,
        last_will: float,
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> RunningRelay:
        """Start a relay and wait until it runs. Blocks; raises `SpawnFailed`.

        `files` are written here, and `argv` gets their new paths in the place of the old.
        """
        folder = self._folder / run
        try:
            pid = launcher.start(
                argv,
                env,
                cwd,
                connect=self._door.connect,
                ca=self._door.ca,
                session_id=session_id,
                run=run,
                token=token,
                spool=folder,
                last_will=last_will,
                files=files,
            )
            return _up(folder, pid)
        except (SpawnFailed, OSError):
            registry.clear(folder)
            raise

    def keep(self, found: RunningRelay) -> None:
        """Look after a relay that was started."""
        if found.run not in self._running:
            self._keep(found)

    def has(self, run: str) -> bool:
        return run in self._running

    def end(self, run: str) -> None:
        """Have a relay end its CLI in order, and then itself."""
        found = self._running.get(run)
        if found is not None and run not in self._endings:
            self._endings[run] = RelayTermination(found, lambda: self._endings.pop(run, None))

    def close(self) -> None:
        """Look after none any more; they go on."""
        for ending in list(self._endings.values()):
            ending.kill()
        for end_watch in self._watches.values():
            end_watch()
        self._watches.clear()

    def _keep(self, found: RunningRelay) -> None:
        self._running[found.run] = found
        guard = partial(guard_of, self._folder / found.run)
        watch = RelayWatch(found, lambda: self._ended(found.run), guard=guard)
        self._watches[found.run] = watch.end

    def _ended(self, run: str) -> None:
        del self._running[run], self._watches[run]
        folder = self._folder / run
        reason = last_words(folder)
        registry.clear(folder)
        self._gone(run, reason)


def _up(folder: Path, pid: int) -> RunningRelay:
    """Wait for the file by which the relay is found; nothing but looking tells that it is there."""
    deadline = time.monotonic() + COMING_UP
    while time.monotonic() < deadline:
        is_there = registry.started_at(pid) is not None
        if (found := registry.alive(folder)) is not None:
            return found
        if not is_there:
            raise SpawnFailed("the relay", last_words(folder))
        # In a thread of its own: a file of another process, of which nothing tells.
        time.sleep(LOOK)
    # Before it is left to itself: nobody would know of it.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    raise SpawnFailed("the relay", f"it has not come up in {COMING_UP:g} s")


def _is_young(folder: Path) -> bool:
    """Whether a relay may be coming up there that a runner before us has started."""
    try:
        return (
            time.time() - folder.stat().st_mtime < YOUNG and not (folder / registry.NAME).exists()
        )
    except OSError:
        return False
