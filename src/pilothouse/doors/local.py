"""The relays of this machine: starts them, finds them again, and tells when one is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pilothouse.relay import arguments, launcher, leftovers, registry
from pilothouse.relay.deaths import (
    STARTS_WITHIN,
    RelayTermination,
    RelayWatch,
    guard_of,
    last_words,
    lives,
)
from pilothouse.relay.registry import RunningRelay

from . import left_transport
from .left_transport import Leftover
from .tokens import Keyring

__all__ = ["LocalRelays"]

LEFT_FOR: Final = 7 * 24 * 60 * 60.0
"""Seconds that something nobody asks for is kept."""

log = logging.getLogger("pilothouse.doors")


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
        self._started: dict[str, RunningRelay] = {}
        """What we know of relays before they have written it down themselves."""
        self._endings: dict[str, RelayTermination] = {}

    async def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        *,
        session_id: str,
        run: str,
        hold: Sequence[int] = (),
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a relay for this CLI; raises `SpawnFailed`.

        It keeps the descriptors of `hold` open, and what is locked by them locked, until it ends.
        """
        # Ours may be closed before the thread is done, should we be cancelled.
        held = [os.dup(fd) for fd in hold]

        def begin() -> None:
            try:
                pid = launcher.start(
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
                    files=files,
                )
            finally:
                for fd in held:
                    os.close(fd)
            if (started := registry.started_at(pid)) is not None:
                self._started[run] = RunningRelay(session_id, run, pid, started, None, None)

        await asyncio.to_thread(begin)

    def find(self, run: str) -> RunningRelay | None:
        """The relay of this run, if it lives; one just started may not know its CLI yet."""
        if (found := registry.alive(self._folder / run)) is not None:
            self._started.pop(run, None)
            return found
        found = self._started.get(run)
        if found is not None and not lives(found):
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
        told = (registry.NAME, leftovers.NAME)
        return age < STARTS_WITHIN and not any((folder / name).exists() for name in told)

    def left(self, run: str) -> Leftover | None:
        """What its relay could not deliver before it ended."""
        found = left_transport.find(self._folder / run)
        return found if found is not None and found.run == run else None

    def tidy(self, runs: Collection[str]) -> None:
        """Remove what is left of all runs but these, where no relay lives.

        Not at once: a journal that was set aside may be put back, and know them. Only what their
        CLIs were started with goes now; nobody needs it any more, and it may be secret.
        """
        with suppress(OSError):
            for folder in self._folder.iterdir():
                is_old = time.time() - folder.stat().st_mtime > LEFT_FOR
                if folder.name in runs or self.find(folder.name) is not None:
                    continue
                if is_old:
                    left_transport.clear(folder)
                elif not self.is_starting(folder.name):
                    arguments.remove(folder)

    def clear(self, run: str) -> None:
        """Remove what a killed relay left; of one that lives, nothing."""
        if self.find(run) is None:
            registry.clear(self._folder / run)

    # -- ending

    def end(self, run: str) -> bool:
        """Tell a relay to end, and kill it if it does not; False if none is known to live."""
        if (found := self.find(run)) is None:
            log.error(
                "no relay is found that could be ended; one that lives has the session's lock",
                extra={"run": run},
            )
            return False
        if run not in self._endings:
            self._endings[run] = RelayTermination(found, lambda: self._endings.pop(run, None))
        return True

    def close(self) -> None:
        """Kill at once what was told to end and has not."""
        for ending in list(self._endings.values()):
            ending.kill()

    # -- watching

    def watch(self, run: str, gone: Callable[[str], None]) -> Callable[[], None]:
        """Have `gone` told, once the relay has ended, why; the result ends the watch.

        A relay ends in order too, when its end was acknowledged: end the watch before.
        """
        starts = partial(self.find, run) if self.is_starting(run) else None
        folder = self._folder / run
        told, guard = lambda: gone(last_words(folder)), partial(guard_of, folder)
        return RelayWatch(self.find(run), told, starts, guard).end
