"""The `--sdk-url` dialect: a CLI that dials our door itself, without a relay.

    DiallingProcess                                         how it is started and ended
    CLI ──> /ws/SESSION ──> visited ──> Receiver            its lines, each once
    CLI ──> POST /session/SESSION/events ──> posted ──┘     in the hybrid mode
    write ──> Outbox ──> the socket                         kept until the CLI has shown it has them

For CLIs up to 2.1.120; see `refuses`. A relay does the same job for every version, and loses
nothing. What is lost here is told to `lost_lines`:

- 2.1.119 and other late builds repeat their last 1,000 lines after a reconnect: nothing is lost.
- 2.1.37, native or Node, repeats nothing. Lines it wrote while no connection was open are gone;
  that some are missing is known from `X-Last-Request-Id`. One that it writes in the moment between
  its dial and the opened connection is gone unnoticed.
- Requests and responses have no uuid, and no build repeats them. An open question is recovered by
  another `initialize`: whoever is told by `reconnected` is to send one. The CLI refuses it with
  "Already initialized" and lists the open questions, which `protocol.Connection` opens again.
  A lost hook call or MCP message cannot be recovered; the CLI waits for it until its own timeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from pilothouse.relay.refusals import Refusal
from pilothouse.transport.base import Exit, TransportClosed, TransportError
from pilothouse.transport.stdio import HIGH_WATER

from .contract import LostLines
from .dialect_lines import Answers, Assembly, Head, Hearing, Outbox, read_head

if TYPE_CHECKING:
    from pilothouse.client.versions import Version
    from pilothouse.transport.base import Receiver

    from .sockets import Socket

__all__ = ["DiallingProcess", "SdkUrlTransport", "refuses"]

FIRST_REFUSING: Final[Version] = (2, 1, 121)

TOO_LONG: Final = "a line of the CLI was lost: it is longer than any that is taken; ending the CLI"

REPEAT_DEADLINE: Final = 10.0
"""For a line that the CLI wrote to come again. It repeats at once, or never."""
LAST_FRAMES_GRACE: Final = 1.0
"""For what an ended CLI has sent to arrive."""
LAST_POSTS_GRACE: Final = 0.25
FLUSH_GRACE: Final = 2.0
SEND_DEADLINE: Final = 60.0
CLOSE_DEADLINE: Final = 2.0

NORMAL: Final = 1000
FAILED: Final = 1011
OK, BAD_REQUEST, GONE, TRY_LATER = 200, 400, 410, 503

log = logging.getLogger("pilothouse.doors")


def refuses(version: Version) -> str | None:
    """Why a CLI of this version cannot be started so, if it cannot."""
    if version < FIRST_REFUSING:
        return None
    named, first = (".".join(map(str, each)) for each in (version, FIRST_REFUSING))
    return (
        f"Claude Code {named} refuses --sdk-url for every server but its maker's own, as all do "
        f"from {first} on; start the session behind a relay, which does the same job"
    )


class DiallingProcess(Protocol):
    """The process of a CLI that dials."""

    @property
    def pid(self) -> int | None:
        """Its number, also after its end, if it is known."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last part of what it wrote to stderr so far, if that can be read."""
        ...

    async def start(self, cli: SdkUrlTransport) -> None:
        """Have it run, and tell `cli` once when it does not any more."""
        ...

    @property
    def is_ours(self) -> bool:
        """Whether we have started it, so that nobody else has its token."""
        ...

    def came(self) -> None:
        """Note that it has connected."""
        ...

    def left(self, code: int | None) -> None:
        """Note that its connection is gone, and with which code it was closed."""
        ...

    def end(self) -> None:
        """Have it end in order. Called once, when it has everything that was written."""
        ...

    async def aclose(self, *, grace: float) -> Exit:
        """Have it ended, whatever that takes, and tell how it ended."""
        ...


class SdkUrlTransport:
    """Carries the lines of one CLI that dials our door across its connections.

    Nothing that is written gets lost on our side: it waits for a connection, and is sent again
    after one that broke until the CLI has shown that it has it (see `Outbox`).
    """

    def __init__(
        self, process: DiallingProcess, *, session_id: str, run: str, hybrid: bool = False
    ) -> None:
        self.session_id: Final = session_id
        self.run: Final = run
        self.machine: Final = ""
        self.route: Final = "ws"
        self.runner_version: str | None = None
        """`X-Environment-Runner-Version` of the last connection."""
        self.arrived: Callable[[], None] | None = None
        """Called when the CLI connects for the first time."""
        self.lost_lines: LostLines | None = None
        """Told in a sentence when lines of the CLI's are known to be lost."""
        self.reconnected: Callable[[], None] | None = None
        """Called after every reconnect; `initialize` is to be sent again then."""
        self._process = process
        self._hybrid = hybrid
        self._receiver: Receiver | None = None
        self._started = asyncio.Event()
        self._link: _Link | None = None
        self._connections = 0
        self._hearing = Hearing(self._tell_lost)
        self._outbox = Outbox()
        self._answers = Answers(self.put)
        self._room = asyncio.Event()
        self._room.set()
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._input_closed = False
        self._is_ending = False
        self._exit: Exit | None = None
        self._done = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The CLI's process, also after its end."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last part of what the CLI wrote to stderr so far."""
        return self._process.stderr_tail

    @property
    def connected(self) -> bool:
        """Whether the CLI is at the door."""
        return self._link is not None

    @property
    def has_ended(self) -> bool:
        """Whether the CLI is gone for good."""
        return self._exit is not None

    # -- the process

    async def start(self, receiver: Receiver) -> None:
        """Start the CLI, which dials when it is ready; what is written waits for that."""
        if self._receiver is not None:
            raise TransportError("a transport starts only once")
        self._receiver = receiver
        await self._process.start(self)
        self._started.set()

    def write(self, data: bytes) -> None:
        """Queue bytes for the CLI; whole lines go, over this connection or the next."""
        if self._receiver is None or self._exit is not None or self._input_closed:
            raise TransportClosed("the CLI takes no input")
        self.put(data)

    def put(self, data: bytes) -> None:
        """Queue whole lines for the CLI, also when nobody else may write any more."""
        self._outbox.put(data)
        self._room_changed()
        if self._link is not None:
            self._link.due.set()

    async def drain(self) -> None:
        """Wait until little enough is waiting for a connection that takes it."""
        await self._room.wait()
        if self._exit is not None:
            raise TransportClosed("the CLI is gone")

    def close_stdin(self) -> None:
        """End the CLI in order, once everything is sent that a connection takes."""
        if self._input_closed:
            return
        self._input_closed = True
        self._answers.stop()
        if self._link is not None and self._outbox.waiting:
            self._after(FLUSH_GRACE, self._end_process)
        else:
            self._end_process()

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """End the CLI, in order if it does so within `grace`."""
        self.close_stdin()
        exit_ = await self._process.aclose(grace=grace)
        # One that never ran has nobody to tell.
        if self._exit is not None:
            await self._done.wait()
        return exit_

    def _end_process(self) -> None:
        self._cancel(self._end_process)
        if not self._is_ending:
            self._is_ending = True
            self._process.end()

    def process_ended(self, exit_: Exit) -> None:
        """Note how the process has ended; what is told first counts."""
        if self._exit is not None:
            return
        self._exit = exit_
        self._answers.stop()
        self._room.set()
        if self._link is not None:
            self._after(LAST_FRAMES_GRACE, self._finish)
        else:
            self._finish_soon()

    def _finish_soon(self) -> None:
        if self._hybrid:
            self._after(LAST_POSTS_GRACE, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        if self._done.is_set() or self._receiver is None or self._exit is None:
            return
        for timer in self._timers.values():
            timer.cancel()
        if self._link is not None:
            self._link.end(NORMAL)
        self._done.set()
        self._receiver.eof_received()
        self._receiver.exited(self._exit)

    def _after(self, delay: float, step: Callable[[], None]) -> None:
        self._cancel(step)
        self._timers[step] = asyncio.get_running_loop().call_later(delay, step)

    def _cancel(self, step: Callable[[], None]) -> None:
        if (timer := self._timers.pop(step, None)) is not None:
            timer.cancel()

    # -- its connections

    def is_other(self, headers: Mapping[str, str]) -> bool:
        """Whether a dial must be that of another CLI than the one that came first.

        A CLI that has said anything names its last line when it dials again, except in the hybrid
        mode. One that has not is taken for another only while the first is connected.
        """
        if self._process.is_ours or "x-last-request-id" in headers or self._hybrid:
            return False
        return self.connected or self._hearing.has_heard

    def give_up(self, reason: str) -> None:
        """Take a CLI for ended that may come back, and is not wanted any more."""
        self.process_ended(Exit(None, None, "", reason))

    def send_away(self, code: int, reason: str) -> None:
        """Close its connection, if there is one."""
        if self._link is not None:
            self._link.end(code, reason)

    async def visited(self, socket: Socket) -> None:
        """Speak with the CLI over this connection, which replaces an older one."""
        link = _Link(socket)
        if self._exit is not None:
            link.end(Refusal.SESSION_ENDED, "the session has ended")
        else:
            self._attach(link)
        try:
            await link.serve(self._receive, self._send)
        finally:
            self._detach(link)

    def _attach(self, link: _Link) -> None:
        if self._link is not None:
            self._link.end(Refusal.REPLACED, "another connection came")
        self._link = link
        self._process.came()
        self._connections += 1
        if self._connections == 1 and self.arrived is not None:
            self.arrived()
        headers = link.socket.headers
        self.runner_version = headers.get("x-environment-runner-version")
        self._hearing.connected(headers.get("x-last-request-id"))
        if self._hearing.is_missing:
            self._after(REPEAT_DEADLINE, self._hearing.give_up)
        told = {"runner_version": self.runner_version, "session_id": self.session_id}
        log.info("a CLI dialled in", extra={**told, "run": self.run})
        self._outbox.connected()
        link.due.set()
        if self._connections > 1 and self.reconnected is not None:
            self.reconnected()

    def _detach(self, link: _Link) -> None:
        if self._link is not link:
            return
        self._link = None
        self._process.left(link.socket.close_code)
        if self._exit is not None:
            self._finish_soon()
        elif self._input_closed:
            self._end_process()

    async def _receive(self, link: _Link) -> None:
        await self._started.wait()
        assembly = Assembly(self._tell_lost)
        while (message := await link.socket.receive()) is not None and self._link is link:
            data = message.encode() if isinstance(message, str) else message
            self._take(assembly.feed(data), self._hearing.is_new)
        if link.socket.was_too_long and self._link is link:
            # It would dial again, and some builds would repeat it.
            self._tell_lost(TOO_LONG)
            self.close_stdin()

    async def _send(self, link: _Link) -> None:
        while True:
            await link.due.wait()
            link.due.clear()
            if data := self._outbox.take():
                # Whole lines alone: a half one would be put before the next connection's first,
                # and a line that cannot be read ends the CLI.
                async with asyncio.timeout(SEND_DEADLINE):
                    await link.socket.send(data.decode(errors="replace"))
                if self._hybrid and not self._input_closed:
                    self._answers.sent(data)
            self._room_changed()
            if self._input_closed and not self._outbox.waiting:
                self._end_process()

    async def posted(self, body: bytes) -> int:
        """Take a batch of the hybrid mode; what was posted before is dropped."""
        if self._receiver is None:
            return TRY_LATER
        if self._done.is_set():
            return GONE
        # One that somebody else has started says by this how it was started.
        self._hybrid = True
        try:
            events = _read_batch(body)
        except (msgspec.DecodeError, RecursionError):
            return BAD_REQUEST
        if not all(event.startswith(b"{") for event in events):
            return BAD_REQUEST
        self._take(events, self._hearing.is_new_event)
        return OK

    def _take(self, lines: Sequence[bytes], is_new: Callable[[Head], bool]) -> None:
        new: list[bytes] = []
        for line in lines:
            head = read_head(line)
            self._outbox.confirm(head)
            self._answers.confirm(head)
            if is_new(head):
                new.append(line + b"\n")
        if new and self._receiver is not None and not self._done.is_set():
            self._receiver.data_received(b"".join(new))

    def _room_changed(self) -> None:
        if self._outbox.waiting <= HIGH_WATER or self._exit is not None:
            self._room.set()
        else:
            self._room.clear()

    def _tell_lost(self, sentence: str) -> None:
        if self.lost_lines is not None:
            self.lost_lines(sentence)


class _Link:
    """One connection of the CLI's."""

    def __init__(self, socket: Socket) -> None:
        self.socket: Final = socket
        self.due = asyncio.Event()
        self._over = asyncio.Event()
        self._code = NORMAL
        self._reason = ""

    def end(self, code: int, reason: str = "") -> None:
        """Have it closed by whoever serves it; the first word counts."""
        if not self._over.is_set():
            self._code, self._reason = code, reason
            self._over.set()

    async def serve(self, *works: Callable[[_Link], Coroutine[Any, Any, None]]) -> None:
        """Work until one of the works has ended, or `end` was called; then close."""
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(work(self)) for work in works]
        tasks.append(asyncio.create_task(self._over.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                self._note(ended)
        await self._close()

    def _note(self, ended: object) -> None:
        # A RuntimeError is what an ASGI server says of a WebSocket that it has closed itself.
        if isinstance(ended, TimeoutError | RuntimeError):
            self.end(FAILED)
        elif isinstance(ended, Exception):
            self.end(FAILED)
            log.error("a connection of a CLI failed", exc_info=ended)

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_DEADLINE):
                await self.socket.close(self._code, self._reason)
        except (TimeoutError, RuntimeError):
            return


class _Batch(msgspec.Struct):
    events: list[msgspec.Raw]


def _read_batch(body: bytes) -> list[bytes]:
    events = map(bytes, msgspec.json.decode(body, type=_Batch).events)
    return [msgspec.json.format(each, indent=-1) if b"\n" in each else each for each in events]
