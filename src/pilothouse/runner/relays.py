"""The relays of this machine: started, found again, watched, ended. They need no runner to go on.

DIR/relays/RUN/              a relay's own folder, with the file by which it is found
DIR/relays/RUN/arguments/    what is too long for the command line of its CLI
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pilothouse.relay import registry, starting
from pilothouse.relay.registry import Found
from pilothouse.transport.base import SpawnFailed

__all__ = ["Door", "Relays"]

COMING_UP: Final = 10.0
"""Seconds for a relay that was started to say that it runs."""
LOOK: Final = 0.02
YOUNG: Final = 60.0
POLL: Final = 1.0
"""Between two looks at a relay where the kernel does not tell of its end."""
SAID: Final = re.compile(r"\S+ pilothouse relay: ")
"""How a relay's own lines begin in its log."""
LOG_TAIL: Final = 4096
ARGUMENTS: Final = "arguments"


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
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Found] = {}
        self._watches: dict[str, Callable[[], None]] = {}

    def running(self) -> list[Found]:
        return list(self._running.values())

    def adopt(self) -> None:
        """Look after the relays that are there, and clear away what others have left."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in sorted(self._folder.iterdir()):
            if (found := registry.alive(folder)) is not None:
                self._keep(found)
            elif not _is_young(folder):
                _clear(folder)

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
    ) -> Found:
        """Start a relay and wait until it runs. Blocks; raises `SpawnFailed`.

        `files` are written here, and `argv` gets their new paths in the place of the old.
        """
        folder = self._folder / run
        try:
            pid = starting.start(
                _with_files(argv, files, folder / ARGUMENTS),
                env,
                cwd,
                connect=self._door.connect,
                ca=self._door.ca,
                session_id=session_id,
                run=run,
                token=token,
                spool=folder,
                last_will=last_will,
            )
            return _up(folder, pid)
        except (SpawnFailed, OSError):
            _clear(folder)
            raise

    def keep(self, found: Found) -> None:
        """Look after a relay that was started."""
        if found.run not in self._running:
            self._keep(found)

    def has(self, run: str) -> bool:
        return run in self._running

    def end(self, run: str) -> None:
        """Have a relay end its CLI in order, and then itself."""
        found = self._running.get(run)
        if found is not None and registry.started_at(found.relay_pid) == found.started:
            with suppress(ProcessLookupError):
                os.kill(found.relay_pid, signal.SIGTERM)

    def close(self) -> None:
        """Look after none any more; they go on."""
        for end_watch in self._watches.values():
            end_watch()
        self._watches.clear()

    def _keep(self, found: Found) -> None:
        self._running[found.run] = found
        self._watches[found.run] = _watch(self._loop, found, lambda: self._ended(found.run))

    def _ended(self, run: str) -> None:
        del self._running[run], self._watches[run]
        folder = self._folder / run
        reason = _last_words(folder)
        _clear(folder)
        self._gone(run, reason)


def _up(folder: Path, pid: int) -> Found:
    """Wait for the file by which the relay is found; nothing but looking tells that it is there."""
    deadline = time.monotonic() + COMING_UP
    while time.monotonic() < deadline:
        is_there = registry.started_at(pid) is not None
        if (found := registry.alive(folder)) is not None:
            return found
        if not is_there:
            raise SpawnFailed("the relay", _last_words(folder))
        time.sleep(LOOK)
    # Before it is left to itself: nobody would know of it.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    raise SpawnFailed("the relay", f"it has not come up in {COMING_UP:g} s")


def _with_files(argv: Sequence[str], files: Mapping[str, str], folder: Path) -> list[str]:
    """The words, each that names a file of the server's with the same file here."""
    here: dict[str, str] = {}
    if files:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number, (path, text) in enumerate(files.items()):
        own = folder / f"{number}{Path(path).suffix}"
        own.write_text(text, "utf-8")
        here[path] = str(own)
    return [_with_file(word, here) for word in argv]


def _with_file(word: str, here: Mapping[str, str]) -> str:
    flag, _, path = word.partition("=")
    return f"{flag}={here[path]}" if path in here else word


def _clear(folder: Path) -> None:
    """Remove what a relay that has ended left."""
    shutil.rmtree(folder / ARGUMENTS, ignore_errors=True)
    registry.clear(folder)


def _is_young(folder: Path) -> bool:
    """Whether a relay may be coming up there that a runner before us has started."""
    try:
        return (
            time.time() - folder.stat().st_mtime < YOUNG and not (folder / registry.NAME).exists()
        )
    except OSError:
        return False


def _last_words(folder: Path) -> str:
    """Why a relay is gone. One that ended in order has taken its folder away."""
    try:
        lines = (folder / registry.LOG_NAME).read_bytes()[-LOG_TAIL:].decode(errors="replace")
    except OSError:
        return "it has ended"
    last = next((line.strip() for line in reversed(lines.splitlines()) if line.strip()), "")
    if not last or SAID.match(last):
        return "its relay was killed"
    return f"its relay failed: {last.removeprefix('pilothouse relay: ')}"


def _watch(
    loop: asyncio.AbstractEventLoop, found: Found, gone: Callable[[], None]
) -> Callable[[], None]:
    """Call `gone` once when the relay has ended, never at once; the result ends the watch."""
    if sys.platform != "linux":
        return _watch_by_polling(loop, found, gone)
    try:
        fd = os.pidfd_open(found.relay_pid)
    except ProcessLookupError:
        return loop.call_soon(gone).cancel
    except OSError:
        return _watch_by_polling(loop, found, gone)
    # Asked when the descriptor is there: from now on the number cannot become another's.
    if registry.started_at(found.relay_pid) == found.started:
        return _watch_pidfd(loop, fd, gone)
    os.close(fd)
    return loop.call_soon(gone).cancel


def _watch_by_polling(
    loop: asyncio.AbstractEventLoop, found: Found, gone: Callable[[], None]
) -> Callable[[], None]:
    return _Polling(loop, found, gone).cancel


def _watch_pidfd(
    loop: asyncio.AbstractEventLoop, fd: int, gone: Callable[[], None]
) -> Callable[[], None]:
    def end() -> None:
        loop.remove_reader(fd)
        os.close(fd)

    def ended() -> None:
        end()
        gone()

    loop.add_reader(fd, ended)
    return end


class _Polling:
    """Looks again and again whether a relay is there."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, found: Found, gone: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._found = found
        self._gone = gone
        self._timer = loop.call_later(POLL, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if registry.started_at(self._found.relay_pid) == self._found.started:
            self._timer = self._loop.call_later(POLL, self._look)
        else:
            self._gone()
