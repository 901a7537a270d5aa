"""Keeps a relay and its door on the same page, across as many connections as it takes.

A connection is greeted first: the relay says where it stands, the door says where it does, and the
relay goes on from there. Until then nothing flows. A connection that breaks costs nothing but time.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from . import framing
from .addresses import Resolver
from .framing import Frame, FrameError, Kind
from .intake import Gap
from .link import Link
from .refusals import PERMANENT, Refusal
from .watching import READ

if TYPE_CHECKING:
    import ssl

    from .addresses import Target
    from .intake import Intake
    from .pace import Pace
    from .spool import Spool
    from .timers import Timers
    from .watching import Watch

__all__ = ["Courier", "Door", "Owner"]

BATCH: Final = 256 * 1024
"""Bytes of lines in one frame; a longer line has one of its own."""
WINDOW: Final = 1024 * 1024
"""Bytes sent and not acknowledged: the whole spool at once would be in memory twice."""
QUEUE: Final = 256 * 1024
"""Bytes waiting for the socket before nothing more is sent."""


class Door(NamedTuple):
    """Where to go, and what to show there."""

    target: Target
    token: str
    tls: ssl.SSLContext | None


class Owner(Protocol):
    """Whom a courier tells."""

    def hello(self) -> framing.Hello:
        """Say where the relay stands."""
        ...

    def served(self) -> None:
        """Note that a door is there."""
        ...

    def unserved(self, reason: str) -> None:
        """Note that there is none, and why."""
        ...

    def refused(self, code: int) -> None:
        """Note that there is no use in trying again."""
        ...

    def all_acknowledged(self) -> None:
        """Note that the door has everything, the CLI's end included."""
        ...


class Courier:
    """The relay's side of the framing."""

    def __init__(
        self,
        door: Door,
        owner: Owner,
        spool: Spool,
        intake: Intake,
        watch: Watch,
        timers: Timers,
        pace: Pace,
    ) -> None:
        self._door = door
        self._owner = owner
        self._spool = spool
        self._intake = intake
        self._watch = watch
        self._timers = timers
        self._pace = pace
        self._resolver = Resolver()
        watch.set(self._resolver.fileno(), READ, lambda _: self._resolver.ready())
        self._link: Link | None = None
        self._greeted = False
        self._failures = 0
        self._pinged_at: float | None = None
        self._told = 0
        """The last number of the door's that it knows to be written."""
        self._exit: bytes | None = None
        self._exit_sent = False

    @property
    def is_greeted(self) -> bool:
        """Whether a door is there."""
        return self._greeted

    # -- connections

    def connect(self) -> None:
        """Try to reach the door, again and again."""
        target, token, tls = self._door
        self._link = link = Link(target, token, self, self._watch, tls)
        self._timers.set("handshake", self._pace.handshake, self._too_late)
        self._resolver.ask(target, link.connect)

    def close(self) -> None:
        """Leave the door for good."""
        self._settle_down()
        self._timers.cancel("connect")
        self._drop(1000, "")

    def _too_late(self) -> None:
        self._give_up("the door does not answer", 1000)

    def _give_up(self, reason: str, code: int) -> None:
        """Leave this connection for another."""
        self._drop(code, reason)
        self.link_lost(reason, None)

    def _drop(self, code: int, reason: str) -> None:
        if self._link is not None:
            self._link.close(code, reason)
            self._link = None

    def _settle_down(self) -> None:
        self._greeted = False
        for name in ("handshake", "ping", "steady"):
            self._timers.cancel(name)
        self._resolver.forget()

    def link_opened(self) -> None:
        hello = self._owner.hello()
        self._send(Kind.HELLO, hello.first, framing.pack(hello))

    def link_heard(self) -> None:
        self._pinged_at = None

    def link_lost(self, reason: str, code: int | None) -> None:
        self._link = None
        self._settle_down()
        self._owner.unserved(reason)
        if code is not None and code in PERMANENT:
            self._owner.refused(code)
        else:
            self._timers.set("connect", self._delay(code), self.connect)

    def _delay(self, code: int | None) -> float:
        pace = self._pace
        longest = pace.local_delay if self._door.target.is_local else pace.longest_delay
        delay = min(longest, pace.first_delay * 2 ** min(self._failures, 20))
        self._failures += 1
        if code == Refusal.REPLACED:
            delay = max(delay, pace.replaced_delay)
        return delay * random.uniform(0.5, 1.0)

    def _prove_steady(self) -> None:
        self._failures = 0

    def _check_pulse(self) -> None:
        self._timers.set("ping", self._pace.ping, self._check_pulse)
        now = time.monotonic()
        if self._pinged_at is None:
            self._pinged_at = now
            if self._link is not None:
                self._link.ping()
        elif now - self._pinged_at >= self._pace.silence - self._pace.ping:
            self._give_up("the door is silent", 1001)

    # -- frames

    def link_received(self, message: bytes) -> None:
        try:
            frame = framing.decode(message)
            self._received(frame)
        except (FrameError, Gap) as error:
            self._give_up(f"refused what the door sent: {error}", Refusal.FRAME_REFUSED)

    def _received(self, frame: Frame) -> None:
        if frame.kind is Kind.WELCOME:
            self._welcomed(framing.unpack(framing.Welcome, frame.payload))
            return
        if not self._greeted:
            raise FrameError(f"{frame.kind.name} before WELCOME")
        self._acknowledged(frame.acknowledged)
        took = False
        if frame.kind is Kind.LINES:
            took = self._intake.take_lines(frame.number, frame.payload)
        elif frame.kind is Kind.ORDER:
            order = framing.unpack(framing.Order, frame.payload)
            took = self._intake.take_order(frame.number, order.do)
        elif frame.kind is not Kind.ACK:
            raise FrameError(f"{frame.kind.name} from a door")
        if took:
            self._prove_steady()

    def _welcomed(self, welcome: framing.Welcome) -> None:
        if self._greeted:
            raise FrameError("a second WELCOME")
        self._timers.cancel("handshake")
        self._timers.set("ping", self._pace.ping, self._check_pulse)
        self._timers.set("steady", self._pace.steady, self._prove_steady)
        self._pinged_at = None
        self._greeted = True
        self._exit_sent = False
        self._spool.rewind()
        self._acknowledged(welcome.committed)
        self._owner.served()

    def _acknowledged(self, number: int) -> None:
        last = self._spool.next - (self._exit is None)
        if number > last:
            raise FrameError(f"{number} was acknowledged, and {last} is the last")
        if self._spool.acknowledge(number):
            self._prove_steady()
        if self._exit is not None and number == last:
            self._owner.all_acknowledged()

    # -- sending

    def finish(self, exit_: framing.Exit) -> None:
        """Tell how the CLI ended, behind its last line."""
        self._exit = framing.pack(exit_)

    def pump(self) -> None:
        """Send what there is, as far as the window goes."""
        if not self._greeted:
            return
        while self._has_room() and (batch := self._spool.take(BATCH)) is not None:
            if batch.dropped:
                self._send(Kind.DROPPED, batch.first, framing.pack(framing.Dropped(batch.dropped)))
            else:
                self._send(Kind.LINES, batch.first, batch.data)
        if self._exit is not None and not self._exit_sent and not self._spool.waiting:
            self._exit_sent = True
            self._send(Kind.EXIT, self._spool.next, self._exit)
        if self._told < self._intake.written:
            self._send(Kind.ACK, 0)

    def _has_room(self) -> bool:
        link = self._link
        return (
            link is not None
            and link.is_open
            and link.queued < QUEUE
            and self._spool.in_flight < WINDOW
        )

    def _send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        if self._link is not None:
            self._told = self._intake.written
            self._link.send(framing.encode(Frame(kind, number, self._told, payload)))
