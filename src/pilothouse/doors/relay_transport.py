"""One run's relay as a transport, whether the relay is connected or not: its start and its end.

What passes over its connections is the link's, see `relay_link`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import FrameKind, Order, RelayHello
from pilothouse.relay.refusals import Refusal
from pilothouse.transport.base import Exit, NumberedLines, TransportClosed, TransportError

from .contract import Carried, Ledger, LostLines
from .relay_link import NORMAL, RelayLink

if TYPE_CHECKING:
    from pilothouse.transport.base import Receiver

    from .sockets import Socket

__all__ = ["RelayTransport"]

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
        self.lost_lines: LostLines | None = None
        """Called with a sentence when lines are gone for good."""
        self.end_relay: Callable[[], bool] | None = None
        """Has a relay ended that does not answer; whether that is worth waiting for."""
        self._about = {"session_id": session_id, "run": run, "machine": machine}
        self._launch = launch
        self._link = RelayLink(self._about, ledger, carried, self)
        self._held = b""
        self._input_closed = False
        self._detached = False
        self._closing = False
        self._given_up_at: float | None = None
        """When it is given up, however steadily lines come; None: the CLI may still end itself."""
        self._unanswered = False
        self._lost = ""
        self._timer: asyncio.TimerHandle | None = None
        self._lost_timer: asyncio.TimerHandle | None = None
        self._exit: Exit | None = None
        self._done = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the relay is there now."""
        return self._link.is_greeted

    @property
    def hello(self) -> RelayHello | None:
        """The relay's last greeting."""
        return self._link.hello

    @property
    def pid(self) -> int | None:
        """The CLI's process id, on whichever machine it runs."""
        return None if self.hello is None else self.hello.pid

    @property
    def stderr_tail(self) -> str:
        """The last part of the CLI's stderr, which is told with its end."""
        return self._exit.stderr_tail if self._exit is not None else ""

    # -- starting

    async def start(self, receiver: Receiver) -> None:
        """Have the relay started, if it is not there yet; it may connect later."""
        if self._link.receiver is not None:
            raise TransportError("a transport starts only once")
        if self._closing or self._exit is not None:
            raise TransportClosed("closed before it was started")
        self._link.receiver = receiver
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
        if self._link.receiver is None:
            raise TransportClosed("it was not started")
        if self._input_closed:
            raise TransportClosed("the CLI's input is closed")
        *lines, self._held = (self._held + data).split(b"\n")
        self._link.put(FrameKind.LINES, [line + b"\n" for line in lines])

    async def drain(self) -> None:
        """Wait until the CLI has taken enough of what was written."""
        while self._link.queued > HIGH_WATER and not (self._input_closed or self._is_over):
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
            self._link.put(FrameKind.LINES, [self._held + b"\n"])
            self._held = b""
        self._order("close_input")

    @property
    def _is_over(self) -> bool:
        return self._exit is not None or self._link.is_halted

    def _check_usable(self) -> None:
        if self._exit is not None:
            raise TransportClosed("the CLI is gone, or left to itself")
        if self._link.is_halted:
            raise TransportClosed("what is for the CLI cannot be kept")

    def _order(self, do: str) -> None:
        if self._link.receiver is not None and not self._is_over:
            self._link.put(FrameKind.ORDER, [door_frames.pack(Order(do))])

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
        if self._link.receiver is None:
            self._conclude(Exit(None, None, ""))
        else:
            self.close_stdin()
            self._after(grace, self._terminate)

    def _terminate(self) -> None:
        self._after(TERM_GRACE, self._kill)
        self._order("terminate")

    def _kill(self) -> None:
        self._given_up_at = asyncio.get_running_loop().time() + DELIVERY_LIMIT
        self.relay_heard()
        self._order("kill")

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
            self.lines_lost(f"{reason}: {UNDELIVERED}")
        # Should it ever come back: it is refused for good, and ends its CLI itself.
        self.cli_ended(Exit(None, None, "", reason))
        self._link.end(Refusal.SESSION_ENDED)

    def _after(self, delay: float, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, step)

    def detach(self) -> None:
        """Leave the CLI to its relay, which goes on: the receiver is told nothing more."""
        self._detached = True
        self._link.receiver = None
        self._conclude(Exit(None, None, "", "the server has left it"))
        self._link.end(GOING_AWAY, "the server leaves")

    def lost(self, reason: str) -> None:
        """Note that the relay is gone for good; what it has sent still counts, if it comes soon."""
        if self._exit is not None or self._lost:
            return
        self._lost = reason
        if not self._link.has_connection:
            self._end_lost()
        else:
            loop = asyncio.get_running_loop()
            self._lost_timer = loop.call_later(LOST_GRACE, self._end_lost)

    def give_up(self, reason: str) -> None:
        """Write off a relay that may be alive, but will not be heard of any more."""
        if self._exit is None:
            self.lines_lost(f"{reason}: {UNDELIVERED}")
            self.lost(reason)

    def _end_lost(self) -> None:
        if self._unanswered:
            self._write_off()
            return
        self.cli_ended(Exit(None, None, "", self._lost))
        self._link.end(NORMAL)

    def refuse(self, code: int) -> None:
        """Send the relay away with this code, if it is there."""
        self._link.end(code)

    def cli_ended(self, exit_: Exit) -> None:
        """Notify the receiver of the CLI's end, once."""
        receiver = self._link.receiver
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

    # -- its link

    async def posted(self, body: bytes) -> int:
        """Relays post nothing."""
        return NOT_FOUND

    def is_other(self, headers: Mapping[str, str]) -> bool:
        """Never: a run's token is its relay's alone."""
        return False

    async def visited(self, socket: Socket) -> None:
        """Serve a connection of the relay until it ends, or a newer one comes."""
        await self._link.visited(socket)

    def refusal(self) -> tuple[int, str] | None:
        """Return why a relay that connects now is refused, if it is."""
        if self._detached:
            return GOING_AWAY, "the server leaves"
        if self._exit is not None and not self._link.exit_number:
            return Refusal.SESSION_ENDED, "it was given up"
        return (TRY_LATER, "it is not started yet") if self._link.receiver is None else None

    def relay_heard(self) -> None:
        """Give up unless something more comes soon. Whatever comes now was said before the kill."""
        if self._given_up_at is not None and not self._unanswered and self._exit is None:
            left = self._given_up_at - asyncio.get_running_loop().time()
            self._after(min(KILL_GRACE, max(left, 0)), self._give_up)

    def relay_left(self) -> None:
        """Wait no longer for the rest of a relay that is gone for good."""
        if self._lost:
            self._end_lost()

    def relay_took(self) -> None:
        """Let whoever waits for room look again."""
        self._room.set()

    def lines_lost(self, because: str, lines: NumberedLines | None = None) -> None:
        """Pass on that lines are gone for good."""
        if self.lost_lines is not None:
            self.lost_lines(because, lines)

    def line_too_long(self) -> None:
        """Write the relay off: it would send the same line again."""
        self._write_off(TOO_LONG)
