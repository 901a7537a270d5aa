"""One CLI's requests and responses over one transport. It knows nothing of what they mean.

The reader waits for nobody: bytes become events in the same call that delivers them, messages go
to `on_messages` at once, responses wake their waiters, and only the serving of the CLI's own
requests happens in tasks, which are owned here and awaited at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never, cast

from pilothouse.errors import CLINotStarted, ControlTimeout, SessionEnded, UsageError
from pilothouse.protocol import (
    Connection,
    ControlRequest,
    ControlResponse,
    Event,
    LineRejected,
    Message,
    Request,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    Role,
    StreamEnded,
)
from pilothouse.protocol.wire import JsonObject
from pilothouse.transport import Exit, Transport, TransportClosed, TransportError

from .cancellation import is_being_cancelled

__all__ = ["Channel", "Listener", "Refusal"]


class Refusal(Exception):
    """Raised by a server of requests: the CLI gets this error as its answer."""

    def __init__(self, error: str, code: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.code = code


@dataclass(frozen=True, slots=True)
class Listener:
    """Whom a channel tells. Called from the event loop; must not block."""

    messages_received: Callable[[list[Message | LineRejected], set[type[Any]]], None]
    """Takes what arrived, in order, and the classes among it."""
    last_words: Callable[[], str]
    """Tells what the CLI said was wrong, if it said so in a message."""
    ended: Callable[[SessionEnded], None]


log = logging.getLogger("pilothouse")

END_FOLLOWS = 5.0
"""Seconds within which what must follow an end does follow it."""

_SPECIAL = frozenset({RequestReceived, ResponseReceived, RequestCancelled, StreamEnded})

Serve = Callable[[RequestReceived], Awaitable[Any]]


class Channel:
    """Request and response, both ways, over a transport."""

    def __init__(
        self,
        transport: Transport,
        listener: Listener,
        serve: Serve,
        *,
        max_line: int | None = None,
        first_request_id: str | None = None,
    ) -> None:
        self._transport = transport
        self._listener = listener
        self._serve = serve
        self._connection = Connection(
            Role.CLIENT, max_line=max_line, first_request_id=first_request_id
        )
        self._waiters: dict[str, asyncio.Future[ControlResponse]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._owned: set[asyncio.Task[None]] = set()
        self._input_closed = False
        self._flushing = False
        self._gone = asyncio.Event()
        self.ended_by: SessionEnded | None = None

    @property
    def takes_input(self) -> bool:
        """Whether the CLI lives and still listens."""
        return self.ended_by is None and not self._input_closed

    @property
    def pid(self) -> int | None:
        return self._transport.pid

    @property
    def asked(self) -> list[ControlRequest]:
        """The CLI's requests that nobody has answered yet, oldest first."""
        return list(self._connection.asked.values())

    async def start(self) -> None:
        try:
            await self._transport.start(self)
        except (TransportError, OSError) as error:
            raise CLINotStarted(str(error)) from error

    # Going on with a CLI that another channel has spoken to

    def expect(self, request: Request[Any], request_id: str) -> asyncio.Future[ControlResponse]:
        """Wait for the answer to a request that was sent before."""
        self._connection.expect(request_id, request)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[request_id] = waiter
        waiter.add_done_callback(lambda _: self._waiters.pop(request_id, None))
        return waiter

    def reopen(self, asked: Sequence[ControlRequest]) -> None:
        """Serve what the CLI asked before; its listener has heard of that already."""
        for message in asked:
            event = self._connection.reopen(message)
            if event is not None:
                self._start_serving(event)

    async def detach(self) -> None:
        """Speak to the CLI no more, and leave it as it is."""
        self.ended_by = SessionEnded("its CLI goes on, and is no longer ours to speak to")
        for waiter in list(self._waiters.values()):
            if not waiter.done():
                waiter.set_exception(self.ended_by)
        await self._end_tasks()
        self._gone.set()

    # Asking and telling

    async def request(self, request: Request[Any], deadline: float | None) -> ControlResponse:
        """Ask the CLI and wait for its answer, at most `deadline` seconds."""
        self._check_alive()
        request_id = self._connection.send_request(request)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[request_id] = waiter
        try:
            self._flush()
            async with asyncio.timeout(deadline):
                return await waiter
        except TimeoutError:
            raise ControlTimeout(request.subtype, deadline or 0.0) from None
        finally:
            del self._waiters[request_id]
            self._connection.forget(request_id)

    def send_message(self, message: JsonObject) -> None:
        self._check_alive()
        self._connection.send_message(message)
        self._flush()

    async def drain(self) -> None:
        """Wait while the CLI is slow to take what was sent."""
        try:
            await self._transport.drain()
        except TransportClosed as error:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), END_FOLLOWS)
            self._check_alive()
            raise SessionEnded("the CLI reads no more") from error

    def close_input(self) -> None:
        """Send nothing more; the CLI finishes what it has and ends."""
        self._input_closed = True
        self._transport.close_stdin()

    async def aclose(self, grace: float) -> Exit:
        """End the CLI, in order and within bounds, and everything that waits for it."""
        exit = await self._transport.aclose(grace=grace)
        await self._end_tasks()
        return exit

    async def _end_tasks(self) -> None:
        tasks = [*self._serving.values(), *self._owned]
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=END_FOLLOWS)
            for task in stuck:
                log.error("a handler ignores its cancellation and is left behind: %r", task)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the conversation, to its end or to ours."""
        task = asyncio.get_running_loop().create_task(work)
        self._own(task)
        return task

    def _own(self, task: asyncio.Task[None]) -> None:
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)

    def _check_alive(self) -> None:
        if self.ended_by is not None:
            raise self.ended_by
        if self._input_closed:
            raise UsageError("the CLI's input was closed; it takes nothing more")

    def _flush(self) -> None:
        self._flushing = False
        data = self._connection.data_to_send()
        if not data:
            return
        try:
            self._transport.write(data)
        except TransportClosed:
            # The end itself is reported by `exited`, with how and why.
            return

    # What the transport tells

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._dispatch(self._connection.events())

    def eof_received(self) -> None:
        self._connection.receive_eof()
        self._dispatch(self._connection.events())

    def exited(self, exit: Exit) -> None:
        self.ended_by = _ending(exit, self._listener.last_words())
        for waiter in list(self._waiters.values()):
            if not waiter.done():
                waiter.set_exception(self.ended_by)
        for task in self._serving.values():
            task.cancel()
        self._gone.set()
        self._listener.ended(self.ended_by)

    def _dispatch(self, events: list[Event]) -> None:
        # Nearly every batch is made of messages alone; it goes on as it is.
        kinds = set(map(type, events))
        if not kinds.isdisjoint(_SPECIAL):
            plain = self._sorted_out(events)
            kinds = set(map(type, plain))
        else:
            plain = cast("list[Message | LineRejected]", events)
        if plain:
            self._listener.messages_received(plain, kinds)

    def _sorted_out(self, events: list[Event]) -> list[Message | LineRejected]:
        plain: list[Message | LineRejected] = []
        for event in events:
            match event:
                case Message() | LineRejected():
                    plain.append(event)
                case RequestReceived():
                    plain.append(event.message)
                    self._start_serving(event)
                case ResponseReceived():
                    plain.append(event.response)
                    self._wake(event)
                case RequestCancelled():
                    plain.append(event.message)
                    self._stop_serving(event.request_id)
                case StreamEnded():
                    pass
                case _:
                    assert_never(event)
        return plain

    def _wake(self, event: ResponseReceived) -> None:
        waiter = self._waiters.get(event.request_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(event.response)

    # Serving the CLI's requests

    def _start_serving(self, event: RequestReceived) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(event))
        self._serving[event.request_id] = task

    def _stop_serving(self, request_id: str) -> None:
        # Taken out here: a task that is cancelled before its first step never does it itself.
        task = self._serving.pop(request_id, None)
        if task is not None:
            self._own(task)
            task.cancel()

    async def _answer(self, event: RequestReceived) -> None:
        """The one place where an exception becomes an error on the wire."""
        try:
            response = await self._serve(event)
            if response is None:
                return
            self._connection.send_response(event.request_id, response)
        except Refusal as refusal:
            self._connection.send_error(event.request_id, refusal.error, refusal.code)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            self._connection.send_error(event.request_id, "CancelledError: the handler gave up")
        except Exception as error:  # noqa: BLE001 - the boundary to the user's handlers
            self._connection.send_error(event.request_id, f"{type(error).__name__}: {error}")
        finally:
            self._forget(event.request_id)
        self._flush_answers()

    def _forget(self, request_id: str) -> None:
        # An id that was withdrawn may be asked anew, and then stands for another task.
        if self._serving.get(request_id) is asyncio.current_task():
            del self._serving[request_id]

    def _flush_answers(self) -> None:
        # A single answer goes at once; those of handlers that end together share one write.
        if not self._serving:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)


def _ending(exit: Exit, last_words: str) -> SessionEnded:
    if exit.reason:
        how = exit.reason
    elif exit.signal is not None:
        how = f"the CLI was ended by signal {exit.signal}"
    elif exit.code is None:
        how = "the CLI is gone"
    else:
        how = f"the CLI ended with exit code {exit.code}"
        if exit.code != 0 and last_words and last_words not in exit.stderr_tail:
            how += f": {last_words}"
    return SessionEnded(how, exit_code=exit.code, signal=exit.signal, stderr_tail=exit.stderr_tail)
