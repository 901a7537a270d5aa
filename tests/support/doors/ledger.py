"""What a server keeps of a run, and a ledger that keeps it: at once, or when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pilothouse.doors.contract import Carried, LostLines, Outgoing
from pilothouse.transport import Exit
from pilothouse.transport.base import NumberedLines
from tests.support.waiting import DEADLINE


class Disk:
    """What outlives a server."""

    def __init__(self) -> None:
        self.received = 0
        self.lines: list[bytes] = []
        self.exits: list[Exit] = []
        self.sent = 0
        self.outgoing: dict[int, Outgoing] = {}

    def carried(self) -> Carried:
        return Carried(self.received, self.sent, [*self.outgoing.values()])


def noted_in(lost: list[str]) -> LostLines:
    """Who is told of lost lines, and stores nothing."""
    return lambda because, lines=None: lost.append(because)


class RecordedLedger:
    """The ledger and the receiver of a run: what it is told is on the disk once it is committed."""

    def __init__(self, disk: Disk | None = None, *, by_hand: bool = False) -> None:
        self.disk = disk or Disk()
        self.by_hand = by_hand
        self.dead = False
        """Whether the server was killed: nothing is committed any more."""
        self.failure: Exception | None = None
        self.refusing: Exception | None = None
        """What taking lines ends in."""
        self.failing: Exception | None = None
        """What it ends in when they are stored."""
        self.calls: list[str] = []
        self.lost: list[str] = []
        self.told = bytearray()
        self.exits: list[Exit] = []
        self.taken_upto: list[int] = []
        self._waiting: list[tuple[Callable[[], None], asyncio.Future[None] | None]] = []
        self._changed = asyncio.Event()

    # -- Ledger

    def kept(self, upto: int | None = None) -> asyncio.Future[None]:
        if upto is not None:
            self._note(upto)
        return self._later(lambda: None)

    def _note(self, upto: int) -> None:
        self.calls.append(f"received {upto}")
        self._later(lambda: setattr(self.disk, "received", upto))

    def sending(self, outgoing: Sequence[Outgoing]) -> asyncio.Future[None]:
        def store() -> None:
            self.disk.outgoing |= {item.number: item for item in outgoing}
            self.disk.sent = outgoing[-1].number

        return self._later(store)

    def taken(self, upto: int) -> None:
        def remove() -> None:
            for number in [each for each in self.disk.outgoing if each <= upto]:
                del self.disk.outgoing[number]

        self.taken_upto.append(upto)
        self._later(remove)

    # -- LostLines

    def lines_lost(self, because: str, lines: NumberedLines | None = None) -> None:
        """Store it with its number, as an engine does."""
        self.lost.append(because)
        if lines is not None:
            self._note(lines.upto)
            lines.is_stored = True
        self.calls.append("lost")

    # -- Receiver

    def data_received(self, data: bytes) -> None:
        if self.refusing is not None:
            raise self.refusing
        assert isinstance(data, NumberedLines)
        self.told += data
        lines = bytes(data).split(b"\n")
        assert lines.pop() == b"", "a relay's lines are whole"
        self._note(data.upto)
        self.calls.append("data")
        self._later(lambda: self.disk.lines.extend(lines))
        data.is_stored = True
        if self.failing is not None:
            raise self.failing

    def eof_received(self) -> None:
        self.calls.append("eof")

    def exited(self, exit: Exit) -> None:
        self.calls.append("exited")
        self.exits.append(exit)
        self._later(lambda: self.disk.exits.append(exit))

    # -- committing

    def _later(self, change: Callable[[], None]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((change, done))
        if not self.by_hand and len(self._waiting) == 1:
            loop.call_soon(self.commit)
        self._changed.set()
        return done

    def commit(self, count: int | None = None) -> None:
        """Put on the disk what was told so far, or the first so many of it, in its order."""
        if self.dead:
            return
        count = len(self._waiting) if count is None else count
        waiting, self._waiting = self._waiting[:count], self._waiting[count:]
        for change, done in waiting:
            if self.failure is not None and done is not None:
                done.set_exception(self.failure)
                # Most of these have nobody who looks.
                done.exception()
            elif done is not None and not done.done():
                change()
                done.set_result(None)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self) -> Exit:
        """Wait for the end to be on the disk."""
        await self.until(lambda: bool(self.disk.exits))
        return self.disk.exits[0]
