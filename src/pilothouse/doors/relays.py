"""One run's relay as a transport, across as many connections as it takes.

    write ── Ledger.sending ── committed ──> LINES, ORDER ──> relay ── acknowledged ── Ledger.taken
    relay ──> LINES, EXIT ── Ledger.receiving, then the receiver ── Ledger.kept ── committed ──> ACK

Nothing is sent before it is committed, and nothing is acknowledged before it is: whichever side
dies, the other still has what the dead one had not kept. A connection has no state worth keeping:
it begins with both sides saying where they stand.

A line that was too long for the relay comes as DROPPED: in its place `lost_lines` is told.

The newest connection is the run's link. An older one is told so, and what it says does not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from pilothouse.relay import framing
from pilothouse.relay.framing import Frame, FrameError, Hello, Kind, Order
from pilothouse.relay.refusals import Refusal
from pilothouse.transport.base import Exit, TransportClosed, TransportError

from .contract import Carried, Ledger, too_long
from .frames import exit_in, hello_in, parts, size_in
from .inbox import Inbox, succeeded
from .links import FAILED, NORMAL, Link
from .outbox import Outbox

if TYPE_CHECKING:
    from pilothouse.transport.base import Receiver

    from .sockets import Socket

__all__ = ["RelayTransport"]

HELLO_DEADLINE: Final = 10.0
LOST_GRACE: Final = 1.0
"""For what a killed relay has sent to arrive, if its connection has not ended."""
TERM_GRACE: Final = 2.0
KILL_GRACE: Final = 5.0
"""Without a new line: what the CLI had said may still be on its way."""
END_GRACE: Final = 20.0
"""For a relay that does not answer to be ended."""
DELIVERY_LIMIT: Final = 600.0
"""Seconds in which a closed CLI's lines have to come, however steadily they do."""
UNANSWERED: Final = "its relay does not answer"
TOO_LONG: Final = "its relay sent a line that is longer than any that is taken"
UNDELIVERED: Final = "what it had not delivered of the CLI's lines is lost"
HIGH_WATER: Final = 256 * 1024

GOING_AWAY: Final = 1001
TRY_LATER: Final = 1013
NOT_FOUND: Final = 404

log = logging.getLogger("pilothouse.doors")


class RelayTransport:
    """Carries bytes to and from one run's CLI, whether its relay is connected or not.

    Closing is a ladder of timers, so no cancelled caller can stop it half-way.
    """

    def __init__(
        self,
        session_id: str,
        run: str,
        ledger: Ledger,
        *,
        machine: str = "",
        carried: Carried = Carried(),  # noqa: B008 - immutable
        launch: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.session_id: Final = session_id
        self.run: Final = run
        self.machine: Final = machine
        self.route: Final = "relay"
        self.hello: Hello | None = None
        """The last greeting."""
        self.lost_lines: Callable[[str], None] | None = None
        """Told in a sentence that lines are gone for good."""
        self.end_relay: Callable[[], bool] | None = None
        """Has a relay ended that does not answer; whether that is worth waiting for."""
        self._ledger = ledger
        self._launch = launch
        self._receiver: Receiver | None = None
        self._link: Link | None = None
        self._outbox = Outbox(carried)
        self._inbox = Inbox(ledger, carried.received, self._kept)
        self._held = b""
        self._input_closed = False
        self._halted = False
        """Whether something for the CLI could not be kept: nothing may follow it."""
        self._detached = False
        self._closing = False
        self._given_up_at: float | None = None
        """When it is given up, however steadily lines come; None: the CLI may still end itself."""
        self._unanswered = False
        self._lost = ""
        self._timer: asyncio.TimerHandle | None = None
        self._lost_timer: asyncio.TimerHandle | None = None
        self._exit_number = 0
        self._exit: Exit | None = None
        self._done = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the relay is there now."""
        return self._link is not None and self._link.is_greeted

    @property
    def pid(self) -> int | None:
        """The CLI's process id, on whichever machine it runs."""
        return self.hello.pid if self.hello is not None else None

    @property
    def stderr_tail(self) -> str:
        """The last part of the CLI's stderr, which is told with its end."""
        return self._exit.stderr_tail if self._exit is not None else ""

    # -- starting

    async def start(self, receiver: Receiver) -> None:
        """Have the relay started, if it is not there yet; it may connect later."""
        if self._receiver is not None:
            raise TransportError("a transport starts only once")
        if self._closing or self._exit is not None:
            raise TransportClosed("closed before it was started")
        self._receiver = receiver
        if self._launch is None:
            return
        try:
            await self._launch()
        except BaseException:
            # Should a relay come all the same, it is sent away and ends its CLI.
            self._conclude(Exit(None, None, ""))
            raise
        if self._closing:
            raise TransportClosed("closed while it was starting")

    # -- writing

    def write(self, data: bytes) -> None:
        """Keep whole lines for the CLI, and send them once they are kept."""
        self._check_usable()
        if self._receiver is None:
            raise TransportClosed("it was not started")
        if self._input_closed:
            raise TransportClosed("the CLI's input is closed")
        *lines, self._held = (self._held + data).split(b"\n")
        self._put(Kind.LINES, [line + b"\n" for line in lines])

    async def drain(self) -> None:
        """Wait until the CLI has taken enough of what was written."""
        while self._outbox.size > HIGH_WATER and not (self._input_closed or self._is_over):
            self._room.clear()
            await self._room.wait()
        self._check_usable()

    def close_stdin(self) -> None:
        """End the CLI's input behind what was written."""
        if self._input_closed or self._is_over:
            return
        self._input_closed = True
        self._room.set()
        if self._held:
            # What has no newline is a line all the same; a relay carries nothing else.
            self._put(Kind.LINES, [self._held + b"\n"])
            self._held = b""
        self._order("close_input")

    @property
    def _is_over(self) -> bool:
        return self._exit is not None or self._halted

    def _check_usable(self) -> None:
        if self._exit is not None:
            raise TransportClosed("the CLI is gone, or left to itself")
        if self._halted:
            raise TransportClosed("what is for the CLI cannot be kept")

    def _order(self, do: str) -> None:
        if self._receiver is not None and not self._is_over:
            self._put(Kind.ORDER, [framing.pack(Order(do))])

    def _put(self, kind: Kind, bodies: Sequence[bytes]) -> None:
        if bodies:
            items = self._outbox.number(kind, bodies)
            upto = items[-1].number
            self._ledger.sending(items).add_done_callback(lambda done: self._may_send(done, upto))

    def _may_send(self, done: asyncio.Future[None], upto: int) -> None:
        if not succeeded(done):
            self._halted = True
            self._room.set()
            log.error("nothing more can be sent to a CLI", extra=self._about)
        if self._halted:
            self._end_link(FAILED, "what is for the CLI cannot be kept")
        else:
            self._outbox.ready = max(self._outbox.ready, upto)
            self._wake()

    # -- ending

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """End the CLI: no more input, terminate after `grace`, kill 2 s later, give up after 5."""
        if not self._closing:
            self._closing = True
            self._begin_close(grace)
        await self._done.wait()
        assert self._exit is not None
        return self._exit

    def _begin_close(self, grace: float) -> None:
        if self._exit is not None:
            return
        if self._receiver is None:
            self._conclude(Exit(None, None, ""))
        else:
            self.close_stdin()
            self._after(grace, self._terminate)

    def _terminate(self) -> None:
        self._after(TERM_GRACE, self._kill)
        self._order("terminate")

    def _kill(self) -> None:
        self._given_up_at = asyncio.get_running_loop().time() + DELIVERY_LIMIT
        self._await_delivery()
        self._order("kill")

    def _await_delivery(self) -> None:
        """Give up unless something comes soon. Whatever comes now was said before the kill."""
        if self._given_up_at is not None and not self._unanswered and self._exit is None:
            left = self._given_up_at - asyncio.get_running_loop().time()
            self._after(min(KILL_GRACE, max(left, 0)), self._give_up)

    def _give_up(self) -> None:
        """Have the relay ended: as long as it lives, so may the CLI."""
        self._unanswered = True
        log.error("a relay does not answer, and is given up", extra=self._about)
        if self.end_relay is not None and self.end_relay():
            self._after(END_GRACE, self._write_off)
        else:
            self._write_off()

    def _write_off(self, reason: str = UNANSWERED) -> None:
        if self._exit is None:
            self._tell_lines_lost(f"{reason}: {UNDELIVERED}")
        # Should it ever come back: it is refused for good, and ends its CLI itself.
        self._tell_end(Exit(None, None, "", reason))
        self._end_link(Refusal.SESSION_ENDED)

    def _after(self, delay: float, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, step)

    def detach(self) -> None:
        """Leave the CLI to its relay, which goes on: the receiver is told nothing more."""
        self._detached = True
        self._receiver = None
        self._conclude(Exit(None, None, "", "the server has left it"))
        self._end_link(GOING_AWAY, "the server leaves")

    def lost(self, reason: str) -> None:
        """Note that the relay is gone for good; what it has sent still counts, if it comes soon."""
        if self._exit is not None or self._lost:
            return
        self._lost = reason
        if self._link is None:
            self._tell_lost()
        else:
            loop = asyncio.get_running_loop()
            self._lost_timer = loop.call_later(LOST_GRACE, self._tell_lost)

    def give_up(self, reason: str) -> None:
        """Write off a relay that may be alive, but will not be heard of any more."""
        if self._exit is None:
            self._tell_lines_lost(f"{reason}: {UNDELIVERED}")
            self.lost(reason)

    def _tell_lines_lost(self, sentence: str) -> None:
        if self.lost_lines is not None:
            self.lost_lines(sentence)

    def _tell_lost(self) -> None:
        if self._unanswered:
            self._write_off()
            return
        self._tell_end(Exit(None, None, "", self._lost))
        self._end_link(NORMAL)

    def refuse(self, code: int) -> None:
        """Send the relay away with this code, if it is there."""
        self._end_link(code)

    def _tell_end(self, exit_: Exit) -> None:
        receiver = self._receiver
        if self._exit is None:
            self._conclude(exit_)
            if receiver is not None:
                receiver.eof_received()
                receiver.exited(exit_)

    def _conclude(self, exit_: Exit) -> None:
        if self._exit is None:
            self._exit = exit_
        for timer in (self._timer, self._lost_timer):
            if timer is not None:
                timer.cancel()
        self._room.set()
        self._done.set()

    # -- connections

    async def posted(self, body: bytes) -> int:
        """Relays post nothing."""
        return NOT_FOUND

    async def visited(self, socket: Socket) -> None:
        """Be this run's link until it ends, or a newer one comes."""
        link = Link(socket)
        try:
            async with asyncio.TaskGroup() as tasks:
                talk = [tasks.create_task(self._listen(link)), tasks.create_task(self._speak(link))]
                await link.over.wait()
                for each in talk:
                    each.cancel()
        finally:
            self._forget(link)
        await link.close()

    def _forget(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            log.info("a relay has left", extra=self._about)
            if self._lost:
                self._tell_lost()

    def _end_link(self, code: int, reason: str = "") -> None:
        if self._link is not None:
            self._link.end(code, reason)
            self._link = None

    def _wake(self) -> None:
        if self._link is not None:
            self._link.wake()

    @property
    def _about(self) -> dict[str, str]:
        return {"session_id": self.session_id, "run": self.run, "machine": self.machine}

    # -- listening

    async def _listen(self, link: Link) -> None:
        try:
            async with asyncio.timeout(HELLO_DEADLINE):
                first = await link.receive()
            if first is not None and await self._greet(link, first):
                while (frame := await link.receive()) is not None and self._link is link:
                    await self._take_in_turns(link, frame)
                    await self._inbox.room()
            if link.was_too_long and self._link is link:
                # It would come back and send the same again.
                self._write_off(TOO_LONG)
        except FrameError as error:
            log.warning("a relay sent what it should not", extra={**self._about, "why": str(error)})
            link.end(Refusal.FRAME_REFUSED, str(error))
        except TimeoutError:
            link.end(Refusal.FRAME_REFUSED, "no HELLO came")
        except Exception:
            # The relay has it all, and says it again.
            log.exception("what a relay sent cannot be taken", extra=self._about)
            link.end(FAILED, "what came cannot be taken")
        finally:
            link.end(NORMAL)

    async def _greet(self, link: Link, frame: Frame) -> bool:
        hello = hello_in(frame)
        if refusal := self._refusal(hello):
            link.end(*refusal)
            return False
        self._end_link(Refusal.REPLACED, "a newer connection came")
        self._link = link
        self.hello = hello
        self._catch_up(hello)
        if not await self._inbox.settled():
            link.end(FAILED, "what came cannot be kept")
        if link.over.is_set():
            return False
        await link.welcome(self._inbox.committed)
        log.info("a relay is connected", extra={**self._about, "host": hello.host})
        return True

    def _refusal(self, hello: Hello) -> tuple[int, str] | None:
        if (hello.session_id, hello.run) != (self.session_id, self.run):
            return Refusal.SESSION_UNKNOWN, "the token is another run's"
        if hello.version not in framing.SPOKEN:
            return Refusal.FRAME_REFUSED, f"this door speaks version {framing.VERSION}"
        if self._detached:
            return GOING_AWAY, "the server leaves"
        if self._exit is not None and not self._exit_number:
            return Refusal.SESSION_ENDED, "it was given up"
        if self._receiver is None:
            return TRY_LATER, "it is not started yet"
        return (FAILED, "what is for the CLI cannot be kept") if self._halted else None

    def _catch_up(self, hello: Hello) -> None:
        outbox = self._outbox
        if hello.written > outbox.last:
            # Only with an older copy of what was kept. Numbers the relay knows would go nowhere.
            log.error("a relay has been sent more than is known", extra=self._about)
            outbox.skip(hello.written)
        elif hello.written < outbox.taken:
            log.warning("a relay has less than it said it had", extra=self._about)
        self._acknowledge(hello.written)
        gone = hello.first - 1 - self._inbox.received
        if gone > 0:
            self._inbox.skip(hello.first - 1)
            log.error("lines of a CLI are gone for good", extra={**self._about, "lines": gone})
            self._tell_lines_lost(
                f"{gone} lines of the CLI were lost: neither its relay nor the journal has them"
            )

    async def _take_in_turns(self, link: Link, frame: Frame) -> None:
        """Take it in parts, with the loop's other work between them, while the link is ours."""
        for part in parts(frame):
            if self._link is link:
                self._take(part)
            await asyncio.sleep(0)

    def _take(self, frame: Frame) -> None:
        self._acknowledge(frame.acknowledged)
        match frame.kind:
            case Kind.LINES:
                self._take_lines(frame)
            case Kind.DROPPED:
                self._take_dropped(frame)
            case Kind.EXIT:
                self._take_exit(frame)
            case Kind.ACK:
                return
            case _:
                raise FrameError(f"{frame.kind.name} from a relay that was greeted")
        self._inbox.keep()

    def _acknowledge(self, number: int) -> None:
        if number > self._outbox.sent:
            raise FrameError(f"{number} was acknowledged, and {self._outbox.sent} is the last")
        if self._outbox.take(number):
            self._ledger.taken(number)
            self._room.set()

    def _take_lines(self, frame: Frame) -> None:
        if not frame.payload.endswith(b"\n"):
            raise FrameError("lines without an end")
        if not self._is_next(frame):
            return
        assert self._receiver is not None
        self._inbox.take(frame, self._receiver.data_received)
        self._await_delivery()

    def _take_dropped(self, frame: Frame) -> None:
        size = size_in(frame)
        if self._is_next(frame):
            self._inbox.skip(frame.number)
            log.error("a line of a CLI is too long", extra={**self._about, "size": size})
            self._tell_lines_lost(too_long(size))
            self._await_delivery()

    def _is_next(self, frame: Frame) -> bool:
        """Whether there is something new in a frame of the CLI's lines."""
        if not self._inbox.is_new(frame):
            return False
        if self._exit_number:
            raise FrameError("lines after the CLI's end")
        return True

    def _take_exit(self, frame: Frame) -> None:
        if self._inbox.is_new(frame):
            exit_ = exit_in(frame)
            self._exit_number = frame.number
            self._inbox.skip(frame.number)
            self._tell_end(exit_)

    def _kept(self, well: bool) -> None:
        if not well:
            self._end_link(FAILED, "what came cannot be kept")
            return
        self._wake()
        # A relay that waits for us to keep something is not silent.
        self._await_delivery()

    # -- speaking

    async def _speak(self, link: Link) -> None:
        while True:
            await link.awake()
            while (frame := self._next(link)) is not None:
                await link.send(frame)
            if self._exit_number and link.acknowledged >= self._exit_number:
                link.end(NORMAL)

    def _next(self, link: Link) -> Frame | None:
        """What is due on this link; an acknowledgement travels with whatever is."""
        number = max(link.sent, self._outbox.taken) + 1
        if number <= self._outbox.ready:
            link.sent, kind, payload = self._outbox.gather(number)
            self._outbox.sent = max(self._outbox.sent, link.sent)
        elif link.acknowledged < self._inbox.committed:
            number, kind, payload = 0, Kind.ACK, b""
        else:
            return None
        link.acknowledged = self._inbox.committed
        return Frame(kind, number, self._inbox.committed, payload)
