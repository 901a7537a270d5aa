"""The relays of this machine: starts them, finds them again, and tells when one is gone."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from pilothouse.relay import registry, starting
from pilothouse.relay.registry import Found

from .tokens import Keyring

__all__ = ["LocalRelays"]

LOOK_AGAIN: Final = 1.0
STARTS_WITHIN: Final = 20.0
"""As long as a relay may take to write down who it is."""
LOG_TAIL: Final = 4096
SAID: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+ pilothouse relay: ")
"""How a line begins that a relay has written while it ran."""


class LocalRelays:
    """Each run's relay has a folder of its own, by the run's name."""

    def __init__(
        self,
        folder: Path,
        *,
        connect: str,
        keyring: Keyring,
        last_will: float,
        spool_limit: int | None = None,
    ) -> None:
        self._folder = folder
        self._connect = connect
        self._keyring = keyring
        self._last_will = last_will
        self._spool_limit = spool_limit
        self._started: dict[str, Found] = {}
        """What we know of relays before they have written it down themselves."""

    async def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        *,
        session_id: str,
        run: str,
        hold: Sequence[int] = (),
    ) -> None:
        """Start a relay for this CLI; raises `SpawnFailed`.

        It keeps the descriptors of `hold` open, and what is locked by them locked, until it ends.
        """
        # Ours may be closed before the thread is done, should we be cancelled.
        held = [os.dup(fd) for fd in hold]

        def begin() -> None:
            try:
                pid = starting.start(
                    argv,
                    env,
                    cwd,
                    connect=self._connect,
                    session_id=session_id,
                    run=run,
                    token=self._keyring.issue(session_id, run),
                    spool=self._folder / run,
                    last_will=self._last_will,
                    spool_limit=self._spool_limit,
                    hold=held,
                )
            finally:
                for fd in held:
                    os.close(fd)
            if (started := registry.started_at(pid)) is not None:
                self._started[run] = Found(session_id, run, pid, started, None, None)

        await asyncio.to_thread(begin)

    def find(self, run: str) -> Found | None:
        """The relay of this run, if it lives; one just started may not know its CLI yet."""
        if (found := registry.alive(self._folder / run)) is not None:
            self._started.pop(run, None)
            return found
        found = self._started.get(run)
        if found is not None and not _lives(found):
            del self._started[run]
            return None
        return found

    def is_starting(self, run: str) -> bool:
        """Whether a relay was started a moment ago that has not written down yet who it is."""
        folder = self._folder / run
        try:
            age = time.time() - folder.stat().st_mtime
        except OSError:
            return False
        return age < STARTS_WITHIN and not (folder / registry.NAME).exists()

    def all(self) -> list[Found]:
        """Every relay that lives."""
        try:
            runs = {path.name for path in self._folder.iterdir()} | set(self._started)
        except OSError:
            runs = set(self._started)
        return [found for run in sorted(runs) if (found := self.find(run)) is not None]

    def clear(self, run: str) -> None:
        """Remove what a killed relay left; of one that lives, nothing."""
        if self.find(run) is None:
            registry.clear(self._folder / run)

    # -- watching

    def watch(self, run: str, gone: Callable[[str], None]) -> Callable[[], None]:
        """Have `gone` told, once the relay has ended, why; the result ends the watch.

        A relay ends in order too, when its end was acknowledged: end the watch before.
        """
        starts = partial(self.find, run) if self.is_starting(run) else None
        watch = _Watch(self.find(run), lambda: gone(self._reason(run)), starts)
        return watch.end

    def _reason(self, run: str) -> str:
        """What can be told about the end of a relay. One that ends in order leaves no log."""
        try:
            line = _last_line(self._folder / run / registry.LOG_NAME)
        except OSError:
            return "its relay has ended"
        if not line or SAID.match(line):
            return "its relay was killed"
        return f"its relay failed: {line.removeprefix('pilothouse relay: ')}"


class _Watch:
    """Waits for the end of one relay, by its descriptor where the system has such."""

    def __init__(
        self,
        found: Found | None,
        gone: Callable[[], None],
        starts: Callable[[], Found | None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._fd = -1
        self._timer: asyncio.Handle | None = None
        if found is not None:
            self._watch(found)
        elif starts is not None:
            self._await(starts, self._loop.time() + STARTS_WITHIN)
        else:
            self._timer = self._loop.call_soon(self._tell)

    def _await(self, starts: Callable[[], Found | None], until: float) -> None:
        if (found := starts()) is not None:
            self._watch(found)
        elif self._loop.time() < until:
            self._timer = self._loop.call_later(LOOK_AGAIN, self._await, starts, until)
        else:
            self._tell()

    def _watch(self, found: Found) -> None:
        if (fd := _pidfd(found.relay_pid)) is not None:
            self._fd = fd
            self._loop.add_reader(fd, self._tell)
            self._recheck(found)
        else:
            self._poll(found)

    def end(self) -> None:
        """Tell nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _tell(self) -> None:
        self.end()
        self._gone()

    def _recheck(self, found: Found) -> None:
        # Its number may have become another's before we had the descriptor.
        if not _lives(found):
            self._timer = self._loop.call_soon(self._tell)

    def _poll(self, found: Found) -> None:
        if _lives(found):
            self._timer = self._loop.call_later(LOOK_AGAIN, self._poll, found)
        else:
            self._timer = self._loop.call_soon(self._tell)


def _lives(found: Found) -> bool:
    return registry.started_at(found.relay_pid) == found.started


def _pidfd(pid: int) -> int | None:
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_TAIL))
        lines = file.read(LOG_TAIL).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
