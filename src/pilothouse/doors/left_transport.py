"""What a relay has left that ended while there was no server: told as if the relay still came.

    left.lines ──> Ledger.receiving, then the receiver ── Ledger.kept ──> the next of them
    left.json  ──> the CLI's end, likewise ── kept ──> the files are removed

Whatever cuts this off, the next server goes on behind what was committed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pilothouse.relay import leftovers, registry
from pilothouse.transport.base import Exit, NumberedLines, TransportClosed, TransportError

from .contract import Carried, Ledger, LostLines, too_long

if TYPE_CHECKING:
    from pilothouse.transport.base import Receiver

__all__ = ["LeftTransport", "Leftover", "clear", "find"]

BATCH: Final = 256 * 1024
SHORTEST_GRACE: Final = 1.0
LARGEST: Final = 2**53
"""No number of a line is as large."""

log = logging.getLogger("pilothouse.doors")


@dataclass(frozen=True, slots=True)
class Leftover:
    """What one run's relay has left."""

    session_id: str
    run: str
    first: int
    """The number of the first line."""
    next: int
    """The number behind the last line: that of the CLI's end."""
    exit: Exit
    path: Path
    """The file with the lines."""
    dropped: Mapping[int, int]
    """The sizes of lines that were too long, by their numbers; empty ones have their places."""

    @property
    def count(self) -> int:
        """How many lines the relay had to leave."""
        return self.next - self.first


def find(folder: Path) -> Leftover | None:
    """What a relay has left in its folder, if it did and was not cut off."""
    try:
        given = json.loads((folder / leftovers.NAME).read_bytes())
        return _leftover(folder, given)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = {"folder": str(folder), "why": str(error)}
        log.warning("what a relay has left cannot be read", extra=why)
        return None


def _leftover(folder: Path, given: Any) -> Leftover:
    first, following = given["first"], given["next"]
    if (
        type(first) is not int
        or type(following) is not int
        or not 1 <= first <= following < LARGEST
    ):
        raise ValueError("no numbers of lines")
    return Leftover(
        session_id=str(given["session_id"]),
        run=str(given["run"]),
        first=first,
        next=following,
        exit=_exit(given["exit"]),
        path=folder / leftovers.LINES,
        dropped=_dropped(given.get("dropped", [])),
    )


def _dropped(given: Any) -> dict[int, int]:
    sizes = {number: size for number, size in given}
    if not all(type(each) is int and 0 < each < LARGEST for pair in sizes.items() for each in pair):
        raise ValueError("no sizes of lines")
    return sizes


def _exit(given: Any) -> Exit:
    code, signal = given["code"], given["signal"]
    if not all(each is None or type(each) is int for each in (code, signal)):
        raise ValueError("no exit code and no signal")
    return Exit(code, signal, str(given["stderr_tail"]), str(given["reason"]))


def clear(folder: Path) -> None:
    """Remove what was left there, and the folder if that was all."""
    leftovers.discard(folder)
    registry.clear(folder)


class LeftLines(NamedTuple):
    """Whole lines out of the file."""

    lines: Sequence[bytes]
    end: int
    """Where the next ones begin."""


def _read(path: Path, start: int, skipped: int) -> LeftLines:
    """Some lines from there on, without the first so many; none at the end."""
    with path.open("rb") as file:
        file.seek(start)
        for _ in range(skipped):
            if not file.readline():
                break
        lines = file.readlines(BATCH)
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return LeftLines(lines, file.tell())


class LeftTransport:
    """Carries what is left of a CLI that has ended. It takes nothing."""

    def __init__(
        self,
        leftover: Leftover,
        ledger: Ledger,
        *,
        machine: str = "",
        carried: Carried = Carried(),  # noqa: B008 - immutable
    ) -> None:
        self.session_id: Final = leftover.session_id
        self.run: Final = leftover.run
        self.machine: Final = machine
        self.pid: Final[int | None] = None
        self.stderr_tail: Final = leftover.exit.stderr_tail
        self.lost_lines: LostLines | None = None
        """Told in a sentence of lines that are gone for good."""
        self._leftover = leftover
        self._ledger = ledger
        self._received = carried.received
        self._stored = carried.received
        """The last number that was given to the journal."""
        self._offset = 0
        self._receiver: Receiver | None = None
        self._exit: Exit | None = None
        """Set once nothing more is told."""
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._done = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether there is something still to be told."""
        return self._exit is None

    async def start(self, receiver: Receiver) -> None:
        """Begin to tell, once the caller is through with its start."""
        if self._receiver is not None:
            raise TransportError("a transport starts only once")
        if self._closing or self._exit is not None:
            raise TransportClosed("closed before it was started")
        self._receiver = receiver
        asyncio.get_running_loop().call_soon(self._begin)

    # -- what a CLI that has ended does not take

    def write(self, data: bytes) -> None:
        """Refuse it."""
        raise TransportClosed("the CLI has ended")

    async def drain(self) -> None:
        """Refuse to wait."""
        raise TransportClosed("the CLI has ended")

    def close_stdin(self) -> None:
        """Do nothing: its input has ended."""

    # -- ending

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """Wait until all is told; give up if nothing was for as long as `grace`."""
        if not self._closing:
            self._closing = True
            if self._receiver is None and self._exit is None:
                self._conclude(Exit(None, None, ""))
            elif not self._done.is_set():
                self._look_again(max(grace, SHORTEST_GRACE), self._received)
        await self._done.wait()
        assert self._exit is not None
        return self._exit

    def _look_again(self, grace: float, before: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(grace, self._look, grace, before)

    def _look(self, grace: float, before: int) -> None:
        if self._received > before:
            self._look_again(grace, self._received)
        else:
            self._give_up("what its relay has left could not be kept in time")

    def detach(self) -> None:
        """Tell nothing more; the rest stays for the next server."""
        self._receiver = None
        self._conclude(Exit(None, None, "", "the server has left it"))

    def _conclude(self, exit_: Exit) -> None:
        if self._exit is None:
            self._exit = exit_
        if self._timer is not None:
            self._timer.cancel()
        self._done.set()

    @property
    def _about(self) -> dict[str, str]:
        return {"session_id": self.session_id, "run": self.run, "machine": self.machine}

    # -- telling

    def _begin(self) -> None:
        if self._exit is None:
            log.info("taking what a relay has left", extra=self._about)
            self._miss(self._leftover.first - 1)
            self._read()

    def _miss(self, upto: int) -> None:
        """Go on behind that line, whether or not those before it have come."""
        gone = upto - self._received
        if gone <= 0:
            return
        log.error("lines of a CLI are gone for good", extra={**self._about, "lines": gone})
        lines = "1 line of the CLI was" if gone == 1 else f"{gone} lines of the CLI were"
        self._skip(upto, f"{lines} lost: neither its relay nor the journal has more")

    def _read(self) -> None:
        # Only at the beginning there are some that are committed.
        known = 0 if self._offset else self._received + 1 - self._leftover.first
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(None, _read, self._leftover.path, self._offset, known)
        reading.add_done_callback(self._was_read)

    def _was_read(self, reading: asyncio.Future[LeftLines]) -> None:
        failure = None if reading.cancelled() else reading.exception()
        if self._exit is not None or reading.cancelled():
            return
        if failure is not None:
            self._give_up(f"what its relay has left cannot be read: {failure}")
        elif (batch := reading.result()).lines:
            self._tell(batch)
        else:
            self._tell_end()

    def _tell(self, batch: LeftLines) -> None:
        assert self._receiver is not None
        self._offset = batch.end
        try:
            self._tell_each(batch.lines)
        except Exception as error:
            log.exception("what a relay has left cannot be taken", extra=self._about)
            self._give_up(f"what its relay has left cannot be taken: {error}")
        else:
            self._kept().add_done_callback(self._was_kept)

    def _tell_each(self, lines: Sequence[bytes]) -> None:
        first, told = self._received + 1, 0
        for index in range(len(lines)):
            if (size := self._leftover.dropped.get(first + index)) is not None:
                self._tell_lines(lines[told:index])
                self._tell_dropped(size)
                told = index + 1
        self._tell_lines(lines[told:])

    def _tell_lines(self, lines: Sequence[bytes]) -> None:
        if lines:
            assert self._receiver is not None
            self._received += len(lines)
            numbered = NumberedLines.of(b"".join(lines), self.run, self._received)
            self._receiver.data_received(numbered)
            self._note(numbered)

    def _tell_dropped(self, size: int) -> None:
        self._skip(self._received + 1, too_long(size))

    def _skip(self, upto: int, because: str) -> None:
        """Go on after this number: the lines up to it are gone."""
        self._received = upto
        numbered = NumberedLines.of(b"", self.run, upto)
        if self.lost_lines is not None:
            self.lost_lines(because, numbered)
        self._note(numbered)

    def _note(self, lines: NumberedLines) -> None:
        if lines.is_stored:
            self._stored = lines.upto

    def _kept(self) -> asyncio.Future[None]:
        """Done when all that was told is committed; its number too, where no line brought it."""
        is_stored, self._stored = self._stored == self._received, self._received
        return self._ledger.kept(None if is_stored else self._received)

    def _was_kept(self, done: asyncio.Future[None]) -> None:
        failed = _failed(done)
        if self._exit is not None:
            return
        if failed:
            self._give_up("what its relay has left cannot be kept")
        else:
            self._read()

    def _tell_end(self) -> None:
        leftover = self._leftover
        self._miss(leftover.next - 1)
        self._received = max(self._received + 1, leftover.next)
        self._exited(leftover.exit)
        self._kept().add_done_callback(self._end_was_kept)

    def _exited(self, exit_: Exit) -> None:
        receiver, self._exit = self._receiver, exit_
        assert receiver is not None
        receiver.eof_received()
        receiver.exited(exit_)

    def _end_was_kept(self, done: asyncio.Future[None]) -> None:
        if _failed(done):
            self._conclude(self._leftover.exit)
            return
        folder = self._leftover.path.parent
        clearing = asyncio.get_running_loop().run_in_executor(None, clear, folder)
        clearing.add_done_callback(lambda _: self._conclude(self._leftover.exit))

    def _give_up(self, reason: str) -> None:
        """Tell of the end without the rest, which stays in its file."""
        log.error("what a relay has left is not told", extra={**self._about, "why": reason})
        told = self._leftover.exit
        if self._exit is None:
            if self.lost_lines is not None:
                self.lost_lines(f"the last lines of the CLI are missing: {reason}")
            self._exited(Exit(told.code, told.signal, told.stderr_tail, reason))
        self._conclude(told)


def _failed(done: asyncio.Future[None]) -> bool:
    return done.cancelled() or done.exception() is not None
