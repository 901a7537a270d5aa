"""Plays a cassette as a CLI: `play` speaks on this process's own stdin, stdout and stderr."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pilothouse_sim.cassettes import Cassette, CassetteError, LineCutter, read, write_program

from .replay.actions import Action, EndReplay, WriteLine
from .replay.names import HostPlace
from .replay.player import Player

__all__ = ["main", "play", "write_player"]

CHUNK: Final = 64 * 1024
VERSION_FLAGS: Final = frozenset({"-v", "--version"})


async def play(path: Path | str, argv: Sequence[str], *, speed: float | None = None) -> int:
    """Play a cassette to the client on stdin; the exit code.

    `argv` are the CLI's own arguments. With `speed` 1 the recorded pauses are kept, with 2 they
    are half as long; without it there are none.
    """
    try:
        cassette = read(path)
    except (OSError, CassetteError) as error:
        sys.stderr.write(f"pilothouse-sim: {error}\n")
        return 1
    if not VERSION_FLAGS.isdisjoint(argv):
        sys.stdout.write(f"{cassette.cli_version or '0.0.0'} (Claude Code)\n")
        return 0
    return await _Stage(cassette, argv, speed).run()


class _Stage:
    """One player between our pipes. The reader never waits for the writer."""

    def __init__(self, cassette: Cassette, argv: Sequence[str], speed: float | None) -> None:
        self._player = Player(cassette, argv, _here(), os.getpid())
        self._signals = {entry.signal for entry in cassette.entries if entry.kind == "signal"}
        self._speed = speed
        self._actions: asyncio.Queue[Action] = asyncio.Queue()

    async def run(self) -> int:
        self._watch_signals()
        self._queue(self._player.start())
        try:
            end = await self._perform()
        except BrokenPipeError:
            return 1
        if end.signal is not None:
            _die_of(end.signal)
        return end.code

    async def _perform(self) -> EndReplay:
        loop = asyncio.get_running_loop()
        writing, reading = loop.create_task(self._write()), loop.create_task(self._read())
        try:
            await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                # What failed in the reader would leave the writer waiting for ever.
                reading.result()
            return await writing
        finally:
            writing.cancel()
            reading.cancel()
            await asyncio.gather(writing, reading, return_exceptions=True)

    def _queue(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._actions.put_nowait(action)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            if number is not None:
                loop.add_signal_handler(number, self._signal_received, number)

    def _signal_received(self, number: int) -> None:
        self._queue(self._player.receive_signal(number))

    async def _read(self) -> None:
        cutter = LineCutter()
        receive = await _open_stdin()
        while data := await receive():
            for line in cutter.feed(data):
                self._queue(self._player.receive_line(line))
        self._queue(self._player.receive_line(cutter.take_rest()))
        self._queue(self._player.receive_eof())

    async def _write(self) -> EndReplay:
        while True:
            action = await self._actions.get()
            if isinstance(action, EndReplay):
                return action
            if self._speed:
                await asyncio.sleep(action.after / self._speed)
            # In a thread: a client that does not read must not keep us from reading.
            await asyncio.to_thread(_write_all, action)


def _write_all(action: WriteLine) -> None:
    target = 1 if action.stream == "out" else 2
    view = memoryview(action.data)
    while view:
        view = view[os.write(target, view) :]


async def _open_stdin() -> Callable[[], asyncio.Future[bytes]]:
    mode = os.fstat(0).st_mode
    loop = asyncio.get_running_loop()
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
        # A file or /dev/null, which never lets anybody wait.
        return lambda: loop.run_in_executor(None, os.read, 0, CHUNK)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return lambda: loop.create_task(reader.read(CHUNK))


def _here() -> HostPlace:
    home = os.environ.get("HOME", "")
    return HostPlace(
        str(Path.cwd()), home, os.environ.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    )


def _die_of(number: int) -> None:
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def write_player(folder: Path | str, cassette: Path | str) -> Path:
    """Write a program that plays the cassette, for clients that take only a path."""
    player = [sys.executable, "-P", "-m", "pilothouse_sim.simulator.cassette"]
    return write_program(folder, [*player, str(Path(cassette).absolute())])


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m pilothouse_sim.simulator.cassette FILE [the CLI's arguments]`"""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        sys.stderr.write("pilothouse-sim: say which cassette to play\n")
        return 1
    return asyncio.run(play(given[0], given[1:]))


if __name__ == "__main__":
    sys.exit(main())
