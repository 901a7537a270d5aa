"""The relay's side of its conversation with a door, across as many connections as it takes.

A connection begins with a greeting: the relay says where it stands, the door says where it does,
and the relay goes on from there. Until then nothing flows. A connection that breaks costs nothing
but time.

    DoorSession   lines from the spool to the door, lines and orders from the door to the CLI
    DoorLink      one connection: a WebSocket on a socket that is connected
"""

from __future__ import annotations

import random
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from websockets import frames as websocket
from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from . import door_frames
from .child_supervisor import OutOfOrder
from .dialler import Dialler
from .door_frames import Frame, FrameError, FrameKind
from .poller import READ, WRITE
from .refusals import HEADER, PERMANENT, Refusal, refusal_in

if TYPE_CHECKING:
    import ssl

    from .addresses import Target
    from .child_supervisor import StdinQueue
    from .pace import Pace
    from .poller import Poller
    from .spool import Spool
    from .timers import Timers

__all__ = ["DoorAccess", "DoorSession", "SessionOwner"]

BATCH: Final = 256 * 1024
"""Bytes of lines in one frame; a longer line has one of its own."""
WINDOW: Final = 1024 * 1024
"""Bytes sent and not acknowledged: the whole spool at once would be in memory twice."""
QUEUE: Final = 256 * 1024
"""Bytes waiting for the socket before nothing more is sent."""
RECEIVE: Final = 16 * 1024
MESSAGES: Final = (Opcode.BINARY, Opcode.CONT, Opcode.TEXT)


class DoorAccess(NamedTuple):
    """Where a door is, and what to show there."""

    target: Target
    token: str
    tls: ssl.SSLContext | None


class SessionOwner(Protocol):
    """Who is notified of what happens between a relay and its door."""

    def hello(self) -> door_frames.RelayHello:
        """Return where the relay stands."""
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


class DoorSession:
    """Sends what the spool has and queues what is for the CLI, each once and in order."""

    def __init__(
        self,
        door: DoorAccess,
        owner: SessionOwner,
        spool: Spool,
        stdin: StdinQueue,
        poller: Poller,
        timers: Timers,
        pace: Pace,
    ) -> None:
        self._door = door
        self._owner = owner
        self._spool = spool
        self._stdin = stdin
        self._poller = poller
        self._timers = timers
        self._pace = pace
        self._dialler = Dialler(door.target, door.tls, poller, self._connected, self._not_connected)
        self._link: DoorLink | None = None
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
        self._timers.set("handshake", self._pace.handshake, self._too_late)
        self._dialler.dial()

    def _connected(self, connected: socket.socket) -> None:
        door = self._door
        self._link = link = DoorLink(connected, door.target.url, door.token, self, self._poller)
        link.open()

    def _not_connected(self, reason: str) -> None:
        self.link_lost(reason, None)

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
        self._dialler.stop()

    def link_opened(self) -> None:
        hello = self._owner.hello()
        self._send(FrameKind.HELLO, hello.first, door_frames.pack(hello))

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
            frame = door_frames.decode(message)
            self._received(frame)
        except (FrameError, OutOfOrder) as error:
            self._give_up(f"refused what the door sent: {error}", Refusal.FRAME_REFUSED)

    def _received(self, frame: Frame) -> None:
        if frame.kind is FrameKind.WELCOME:
            self._welcomed(door_frames.unpack(door_frames.RelayWelcome, frame.payload))
            return
        if not self._greeted:
            raise FrameError(f"{frame.kind.name} before WELCOME")
        self._acknowledged(frame.acknowledged)
        took = False
        if frame.kind is FrameKind.LINES:
            took = self._stdin.take_lines(frame.number, frame.payload)
        elif frame.kind is FrameKind.ORDER:
            order = door_frames.unpack(door_frames.Order, frame.payload)
            took = self._stdin.take_order(frame.number, order.do)
        elif frame.kind is not FrameKind.ACK:
            raise FrameError(f"{frame.kind.name} from a door")
        if took:
            self._prove_steady()

    def _welcomed(self, welcome: door_frames.RelayWelcome) -> None:
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

    def finish(self, exit_: door_frames.CLIExit) -> None:
        """Send how the CLI ended, after its last line."""
        self._exit = door_frames.pack(exit_)

    def pump(self) -> None:
        """Send what is in the spool, as far as the window goes."""
        if not self._greeted:
            return
        while self._has_room() and (batch := self._spool.take(BATCH)) is not None:
            if batch.dropped:
                self._send(
                    FrameKind.DROPPED,
                    batch.first,
                    door_frames.pack(door_frames.Dropped(batch.dropped)),
                )
            else:
                self._send(FrameKind.LINES, batch.first, batch.data)
        if self._exit is not None and not self._exit_sent and not self._spool.waiting:
            self._exit_sent = True
            self._send(FrameKind.EXIT, self._spool.next, self._exit)
        if self._told < self._stdin.written:
            self._send(FrameKind.ACK, 0)

    def _has_room(self) -> bool:
        link = self._link
        return (
            link is not None
            and link.is_open
            and link.queued < QUEUE
            and self._spool.in_flight < WINDOW
        )

    def _send(self, kind: FrameKind, number: int, payload: bytes = b"") -> None:
        if self._link is not None:
            self._told = self._stdin.written
            self._link.send(door_frames.encode(Frame(kind, number, self._told, payload)))


class DoorLink:
    """One connection to a door. What is sent is kept until the socket takes it; nothing waits."""

    def __init__(
        self,
        connected: socket.socket,
        url: str,
        token: str,
        owner: DoorSession,
        poller: Poller,
    ) -> None:
        self._socket: socket.socket | None = connected
        self._token = token
        self._owner = owner
        self._poller = poller
        self._out: deque[memoryview] = deque()
        self._queued = 0
        self._over = False
        self._parts: list[bytes] = []
        self._protocol = ClientProtocol(parse_uri(url), max_size=None)

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._socket is not None and self._protocol.state is State.OPEN

    @property
    def queued(self) -> int:
        """Bytes the socket has not taken yet."""
        return self._queued

    def open(self) -> None:
        """Ask for a WebSocket; the owner's `link_opened` follows, or its `link_lost`."""
        request = self._protocol.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._protocol.send_request(request)
        self._flush()

    # -- receiving

    def _ready(self, mask: int) -> None:
        if mask & WRITE:
            self._write()
        if mask & READ:
            self._receive()

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(RECEIVE)
            except BlockingIOError:
                break
            except OSError as error:
                if not _is_want(error):
                    self._lose(f"the connection broke: {error}")
                break
            if data:
                self._owner.link_heard()
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            self._handle_events()
            if not data:
                self._lose("the connection ended")
            # TLS may have more than it says.
            if len(data) < RECEIVE and type(self._socket) is socket.socket:
                break

    def _handle_events(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, websocket.Frame):
                self._frame_received(event)
            elif isinstance(event, Response):
                self._answered(event)
            if self._socket is None:
                return
        self._flush()
        if self._protocol.handshake_exc is not None:
            self._lose(f"no WebSocket: {self._protocol.handshake_exc}")
        elif self._protocol.state is State.CLOSING:
            self._lose(f"not a WebSocket's bytes: {self._protocol.parser_exc}")

    def _answered(self, response: Response) -> None:
        if self._protocol.handshake_exc is None:
            self._owner.link_opened()
        else:
            refusal = refusal_in(response.headers.get_all(HEADER))
            self._lose(f"no WebSocket: HTTP {response.status_code}", refusal)

    def _frame_received(self, frame: websocket.Frame) -> None:
        if frame.opcode in MESSAGES:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                message = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts = []
                self._owner.link_received(message)
        elif frame.opcode is Opcode.CLOSE:
            self._flush()
            closed = self._protocol.close_rcvd
            code = closed.code if closed else None
            self._lose(f"the door closed: {code} {closed.reason if closed else ''}".strip(), code)

    # -- sending

    def send(self, message: bytes) -> None:
        """Send one binary message, unless the connection is not open."""
        if self.is_open:
            self._protocol.send_binary(message)
            self._flush()

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.is_open:
            self._protocol.send_ping(b"")
            self._flush()

    def _flush(self) -> None:
        if writes := self._protocol.data_to_send():
            for data in writes:
                # An empty one asks for a half-close, which our closing makes needless.
                if data:
                    self._out.append(memoryview(data))
                    self._queued += len(data)
            self._write()

    def _write(self) -> None:
        while self._out and self._socket is not None:
            try:
                sent = self._socket.send(self._out[0])
            except OSError as error:
                if isinstance(error, BlockingIOError) or _is_want(error):
                    break
                # What the door said last may still be there to be read.
                self._out.clear()
                self._queued = 0
                break
            self._queued -= sent
            if sent == len(self._out[0]):
                self._out.popleft()
            else:
                self._out[0] = self._out[0][sent:]
        if self._socket is not None:
            wanted = READ | WRITE if self._out else READ
            self._poller.set(self._socket.fileno(), wanted, self._ready)

    # -- the end

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the connection, without the owner's `link_lost`."""
        if self.is_open:
            with suppress(WebSocketException):
                self._protocol.send_close(code, reason)
            self._flush()
        self._over = True
        self._drop()

    def _lose(self, reason: str, code: int | None = None) -> None:
        self._drop()
        if not self._over:
            self._over = True
            self._owner.link_lost(reason, code)

    def _drop(self) -> None:
        if self._socket is not None:
            self._poller.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _is_want(error: OSError) -> bool:
    """Whether TLS only has to wait; told by name, so that `ssl` is imported only where used."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")
