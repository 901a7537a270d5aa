"""What passes between one run's relay and its door, across as many connections as it takes.

    put ── Ledger.sending ── committed ──> LINES, ORDER ──> relay ── acknowledged ── Ledger.taken
    relay ──> LINES, EXIT ──> the receiver ── Ledger.kept ── committed ──> ACK

Nothing is sent before it is committed, and nothing is acknowledged before it is: whichever side
dies, the other still has what the dead one had not kept. A connection has no state worth keeping:
it begins with both sides saying where they stand. Lines go to the receiver with the number of the
last of them, and whoever stores the lines stores the number in the same transaction.

A line that was too long for the relay comes as DROPPED: in its place `lines_lost` is called.

The newest connection counts. An older one is closed, and what still comes on it is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import Frame, FrameError, FrameKind, RelayHello, RelayWelcome
from pilothouse.relay.refusals import Refusal
from pilothouse.transport.base import NumberedLines

from .contract import Carried, Ledger, Outgoing, too_long
from .frame_checks import LIMIT, exit_in, hello_in, parts, size_in

if TYPE_CHECKING:
    from pilothouse.transport.base import Exit, Receiver

    from .sockets import Socket

__all__ = ["FAILED", "NORMAL", "LinkOwner", "OutgoingQueue", "RelayLink"]

HELLO_DEADLINE: Final = 10.0
SEND_DEADLINE: Final = 60.0
"""A relay always reads: one that takes nothing for so long is not there."""
CLOSE_DEADLINE: Final = 2.0
ROOM: Final = 16 * 1024 * 1024
"""Bytes that may wait to be kept. A relay stops long before that by itself, if it is one."""
BATCH: Final = 256 * 1024
"""Bytes of lines in one frame; a longer line has one of its own."""

NORMAL: Final = 1000
FAILED: Final = 1011

log = logging.getLogger("pilothouse.doors")


class LinkOwner(Protocol):
    """The transport of the run."""

    def refusal(self) -> tuple[int, str] | None:
        """Return why a relay that connects now is refused, if it is: a code and a reason."""
        ...

    def relay_heard(self) -> None:
        """Note that the relay has delivered something, or that something of it was committed."""
        ...

    def relay_left(self) -> None:
        """Note that its connection has ended."""
        ...

    def relay_took(self) -> None:
        """Note that the CLI has more of what was sent, or that nothing more can be sent."""
        ...

    def lines_lost(self, because: str, lines: NumberedLines | None = None) -> None:
        """Note that lines of the CLI are gone for good; `lines` has the number of the last."""
        ...

    def line_too_long(self) -> None:
        """Note that the relay insists on a line that is longer than any that is taken."""
        ...

    def cli_ended(self, exit_: Exit) -> None:
        """Note how the CLI ended."""
        ...


class OutgoingQueue:
    """What is for the CLI, by its number, until the CLI has it."""

    def __init__(self, carried: Carried) -> None:
        self._items = {item.number: item for item in carried.outgoing}
        self.size = sum(len(item.body) for item in carried.outgoing)
        self.last = max(carried.sent, *self._items, 0)
        self.ready = self.last
        """The last number that is committed, and may be sent."""
        self.sent = self.last
        """The last number that any connection may have had: those of a server before us, too."""
        self.taken = min(self._items, default=self.last + 1) - 1
        """The last number that the CLI has."""

    def add(self, kind: FrameKind, bodies: Sequence[bytes]) -> list[Outgoing]:
        """Add these, each with the next number."""
        items = [Outgoing(number, kind, body) for number, body in enumerate(bodies, self.last + 1)]
        self._items |= {item.number: item for item in items}
        self.size += sum(map(len, bodies))
        self.last += len(items)
        return items

    def skip(self, upto: int) -> None:
        """Give no number up to this one to anything."""
        self.last = self.ready = self.sent = upto

    def take(self, upto: int) -> bool:
        """Remove what the CLI has; return False if that was known."""
        if upto <= self.taken:
            return False
        # In their order, and not by counting: a peer may say any number.
        while self._items and (first := next(iter(self._items))) <= upto:
            self.size -= len(self._items.pop(first).body)
        self.taken = upto
        return True

    def gather(self, number: int) -> tuple[int, FrameKind, bytes]:
        """Return the last number, kind and payload of a frame that begins with this number."""
        item = self._items[number]
        if item.kind != FrameKind.LINES:
            return number, FrameKind(item.kind), item.body
        bodies, size = [item.body], len(item.body)
        while number < self.ready and (item := self._items[number + 1]).kind == FrameKind.LINES:
            size += len(item.body)
            if size > BATCH:
                break
            bodies.append(item.body)
            number += 1
        return number, FrameKind.LINES, b"".join(bodies)


class RelayConnection:
    """One connection of a relay, and how far both sides have come on it."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self._woken = asyncio.Event()
        self._code = NORMAL
        self._reason = ""
        self.over = asyncio.Event()
        self.is_greeted = False
        self.sent = 0
        self.acknowledged = 0

    def end(self, code: int, reason: str = "") -> None:
        """Have it closed by whoever serves it; the first call counts."""
        if not self.over.is_set():
            self._code, self._reason = code, reason
            self.over.set()

    def wake(self) -> None:
        """Let the sender look at what is due, once the relay was greeted."""
        if self.is_greeted:
            self._woken.set()

    async def awake(self) -> None:
        """Wait until there may be something to send."""
        await self._woken.wait()
        self._woken.clear()

    async def welcome(self, committed: int) -> None:
        """Send where we stand; from now on something may be sent."""
        self.acknowledged = committed
        payload = door_frames.pack(RelayWelcome(committed))
        await self.send(Frame(FrameKind.WELCOME, 0, committed, payload))
        self.is_greeted = True
        self.wake()

    async def receive(self) -> Frame | None:
        """Return the next frame; None once the peer is gone."""
        message = await self.socket.receive()
        if isinstance(message, str):
            raise FrameError("a message of text")
        return None if message is None else door_frames.decode(message)

    async def send(self, frame: Frame) -> None:
        """Send a frame. That the peer is gone is noticed by `receive`."""
        try:
            async with asyncio.timeout(SEND_DEADLINE):
                await self.socket.send(door_frames.encode(frame))
        except TimeoutError:
            self.end(FAILED, "nothing is taken")
        except RuntimeError:
            # What an ASGI server raises for a WebSocket that it has closed itself.
            self.end(FAILED)

    async def close(self) -> None:
        """Send the peer away, if it is still there."""
        try:
            async with asyncio.timeout(CLOSE_DEADLINE):
                await self.socket.close(self._code, self._reason)
        except (TimeoutError, RuntimeError):
            return


class RelayLink:
    """The numbers of one run in both directions, and the connection that its relay has now."""

    def __init__(
        self, about: dict[str, str], ledger: Ledger, carried: Carried, owner: LinkOwner
    ) -> None:
        """`about`: the session's id, the run and its machine, as a log line has them."""
        self.receiver: Receiver | None = None
        """Gets the CLI's lines."""
        self.hello: RelayHello | None = None
        """The last greeting."""
        self.is_halted = False
        """Whether something for the CLI could not be kept: nothing may follow it."""
        self.exit_number = 0
        """The number of the CLI's end, once it came."""
        self._about = about
        self._ledger = ledger
        self._owner = owner
        self._connection: RelayConnection | None = None
        self._outgoing = OutgoingQueue(carried)
        self._received = carried.received
        """The last number that came."""
        self._stored = carried.received
        """The last number that was given to the journal."""
        self._committed = carried.received
        self._keeping = False
        self._waiting = 0
        """Bytes that came and are not committed."""
        self._relieved = asyncio.Event()

    @property
    def has_connection(self) -> bool:
        """Whether there is a connection, greeted or not."""
        return self._connection is not None

    @property
    def is_greeted(self) -> bool:
        """Whether the relay is there, and something can pass."""
        return self._connection is not None and self._connection.is_greeted

    @property
    def queued(self) -> int:
        """Bytes that the CLI does not have yet."""
        return self._outgoing.size

    # -- what is for the CLI

    def put(self, kind: FrameKind, bodies: Sequence[bytes]) -> None:
        """Keep lines or an order for the CLI, and send them once they are committed."""
        if bodies:
            items = self._outgoing.add(kind, bodies)
            upto = items[-1].number
            self._ledger.sending(items).add_done_callback(lambda done: self._may_send(done, upto))

    def _may_send(self, done: asyncio.Future[None], upto: int) -> None:
        if not _succeeded(done):
            self.is_halted = True
            self._owner.relay_took()
            log.error("nothing more can be sent to a CLI", extra=self._about)
        if self.is_halted:
            self.end(FAILED, "what is for the CLI cannot be kept")
        else:
            self._outgoing.ready = max(self._outgoing.ready, upto)
            self._wake()

    async def _speak(self, connection: RelayConnection) -> None:
        while True:
            await connection.awake()
            while (frame := self._next(connection)) is not None:
                await connection.send(frame)
            if self.exit_number and connection.acknowledged >= self.exit_number:
                connection.end(NORMAL)

    def _next(self, connection: RelayConnection) -> Frame | None:
        """Return what is due on this connection; an acknowledgement travels with whatever is."""
        number = max(connection.sent, self._outgoing.taken) + 1
        if number <= self._outgoing.ready:
            connection.sent, kind, payload = self._outgoing.gather(number)
            self._outgoing.sent = max(self._outgoing.sent, connection.sent)
        elif connection.acknowledged < self._committed:
            number, kind, payload = 0, FrameKind.ACK, b""
        else:
            return None
        connection.acknowledged = self._committed
        return Frame(kind, number, self._committed, payload)

    # -- connections

    async def visited(self, socket: Socket) -> None:
        """Serve this connection until it ends, or a newer one comes."""
        connection = RelayConnection(socket)
        try:
            async with asyncio.TaskGroup() as tasks:
                work = (self._listen(connection), self._speak(connection))
                talk = [tasks.create_task(each) for each in work]
                await connection.over.wait()
                for each in talk:
                    each.cancel()
        finally:
            self._forget(connection)
        await connection.close()

    def _forget(self, connection: RelayConnection) -> None:
        if self._connection is connection:
            self._connection = None
            log.info("a relay has left", extra=self._about)
            self._owner.relay_left()

    def end(self, code: int, reason: str = "") -> None:
        """Close the connection with this code, if there is one."""
        if self._connection is not None:
            self._connection.end(code, reason)
            self._connection = None

    def _wake(self) -> None:
        if self._connection is not None:
            self._connection.wake()

    # -- what comes from the relay

    async def _listen(self, connection: RelayConnection) -> None:
        try:
            async with asyncio.timeout(HELLO_DEADLINE):
                first = await connection.receive()
            if first is not None and await self._greet(connection, first):
                await self._take_all(connection)
            if connection.socket.was_too_long and self._connection is connection:
                # It would come back and send the same again.
                self._owner.line_too_long()
        except FrameError as error:
            log.warning("a relay sent what it should not", extra={**self._about, "why": str(error)})
            connection.end(Refusal.FRAME_REFUSED, str(error))
        except TimeoutError:
            connection.end(Refusal.FRAME_REFUSED, "no HELLO came")
        except Exception:
            # The relay has it all, and sends it again.
            log.exception("what a relay sent cannot be taken", extra=self._about)
            connection.end(FAILED, "what came cannot be taken")
        finally:
            connection.end(NORMAL)

    async def _greet(self, connection: RelayConnection, frame: Frame) -> bool:
        hello = hello_in(frame)
        if refusal := self._refusal(hello):
            connection.end(*refusal)
            return False
        self.end(Refusal.REPLACED, "a newer connection came")
        self._connection = connection
        self.hello = hello
        self._catch_up(hello)
        if not await self._settled():
            connection.end(FAILED, "what came cannot be kept")
        if connection.over.is_set():
            return False
        await connection.welcome(self._committed)
        log.info("a relay is connected", extra={**self._about, "host": hello.host})
        return True

    def _refusal(self, hello: RelayHello) -> tuple[int, str] | None:
        if (hello.session_id, hello.run) != (self._about["session_id"], self._about["run"]):
            return Refusal.SESSION_UNKNOWN, "the token is another run's"
        if hello.version not in door_frames.SPOKEN:
            return Refusal.FRAME_REFUSED, f"this door speaks version {door_frames.VERSION}"
        if refusal := self._owner.refusal():
            return refusal
        return (FAILED, "what is for the CLI cannot be kept") if self.is_halted else None

    def _catch_up(self, hello: RelayHello) -> None:
        outgoing = self._outgoing
        if hello.written > outgoing.last:
            # Only with an older copy of what was kept. Numbers the relay knows would go nowhere.
            log.error("a relay has been sent more than is known", extra=self._about)
            outgoing.skip(hello.written)
        elif hello.written < outgoing.taken:
            log.warning("a relay has less than it said it had", extra=self._about)
        self._acknowledge(hello.written)
        gone = hello.first - 1 - self._received
        if gone > 0:
            log.error("lines of a CLI are gone for good", extra={**self._about, "lines": gone})
            self._skip(
                hello.first - 1,
                f"{gone} lines of the CLI were lost: neither its relay nor the journal has them",
            )

    async def _take_all(self, connection: RelayConnection) -> None:
        while (frame := await connection.receive()) is not None and self._connection is connection:
            # In parts, with the loop's other work between them, while the connection is ours.
            for part in parts(frame):
                if self._connection is connection:
                    self._take(part)
                await asyncio.sleep(0)
            await self._room()

    def _take(self, frame: Frame) -> None:
        self._acknowledge(frame.acknowledged)
        match frame.kind:
            case FrameKind.LINES:
                self._take_lines(frame)
            case FrameKind.DROPPED:
                self._take_dropped(frame)
            case FrameKind.EXIT:
                self._take_exit(frame)
            case FrameKind.ACK:
                return
            case _:
                raise FrameError(f"{frame.kind.name} from a relay that was greeted")
        self._keep()

    def _acknowledge(self, number: int) -> None:
        if number > self._outgoing.sent:
            raise FrameError(f"{number} was acknowledged, and {self._outgoing.sent} is the last")
        if self._outgoing.take(number):
            self._ledger.taken(number)
            self._owner.relay_took()

    def _take_lines(self, frame: Frame) -> None:
        if not frame.payload.endswith(b"\n"):
            raise FrameError("lines without an end")
        if not self._is_next(frame):
            return
        assert self.receiver is not None
        fresh = _without(frame.payload, self._received + 1 - frame.number)
        lines = NumberedLines.of(fresh, self._about["run"], frame.last)
        try:
            self.receiver.data_received(lines)
        except BaseException:
            # What fails before it is in the journal has not come.
            if lines.is_stored:
                self._came(lines)
            raise
        self._came(lines)
        self._waiting += len(fresh)
        self._owner.relay_heard()

    def _take_dropped(self, frame: Frame) -> None:
        size = size_in(frame)
        if self._is_next(frame):
            log.error("a line of a CLI is too long", extra={**self._about, "size": size})
            self._skip(frame.number, too_long(size))
            self._owner.relay_heard()

    def _take_exit(self, frame: Frame) -> None:
        if self._is_new(frame):
            exit_ = exit_in(frame)
            self._received = self.exit_number = frame.number
            self._owner.cli_ended(exit_)

    def _is_next(self, frame: Frame) -> bool:
        """Whether there is something new in a frame of the CLI's lines."""
        if not self._is_new(frame):
            return False
        if self.exit_number:
            raise FrameError("lines after the CLI's end")
        return True

    def _is_new(self, frame: Frame) -> bool:
        if not 0 < frame.number <= self._received + 1:
            raise FrameError(f"{frame.number} came after {self._received}")
        if frame.last >= LIMIT:
            raise FrameError(f"{frame.last} is no number of a line")
        return frame.last > self._received

    def _skip(self, upto: int, because: str) -> None:
        """Go on after this number: the lines up to it are gone."""
        lines = NumberedLines.of(b"", self._about["run"], upto)
        self._owner.lines_lost(because, lines)
        self._came(lines)

    def _came(self, lines: NumberedLines) -> None:
        self._received = lines.upto
        if lines.is_stored:
            self._stored = lines.upto

    # -- what is committed of it

    def _keep(self) -> None:
        """Have what came committed; what comes meanwhile is next."""
        if not self._keeping and self._committed < self._received:
            self._keeping = True
            upto, size = self._received, self._waiting
            self._kept().add_done_callback(lambda done: self._on_kept(done, upto, size))

    def _kept(self) -> asyncio.Future[None]:
        """Done when all that came is committed; its number too, where no line has brought it."""
        is_stored, self._stored = self._stored == self._received, self._received
        return self._ledger.kept(None if is_stored else self._received)

    def _on_kept(self, done: asyncio.Future[None], upto: int, size: int) -> None:
        self._keeping = False
        self._waiting -= size
        self._relieved.set()
        if not _succeeded(done):
            self.end(FAILED, "what came cannot be kept")
            return
        self._committed = max(self._committed, upto)
        self._keep()
        self._wake()
        # A relay that waits for us to keep something is not silent.
        self._owner.relay_heard()

    async def _settled(self) -> bool:
        """Wait until all that came so far is committed; False if it cannot be."""
        upto, kept = self._received, self._kept()
        # Unlike a plain await, this leaves the future alone when we are cancelled.
        await asyncio.wait([kept])
        if _succeeded(kept):
            self._committed = max(self._committed, upto)
        return _succeeded(kept)

    async def _room(self) -> None:
        """Wait while too much is to be kept: others keep their lines in the same journal."""
        while self._keeping and self._waiting > ROOM:
            self._relieved.clear()
            await self._relieved.wait()


def _succeeded(done: asyncio.Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None


def _without(payload: bytes, lines: int) -> bytes:
    """The payload without its first lines."""
    end = 0
    for _ in range(lines):
        end = payload.index(b"\n", end) + 1
    return payload[end:]
