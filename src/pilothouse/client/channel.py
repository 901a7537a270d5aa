"""One CLI's requests and responses over one transport. It knows nothing of what they mean.

The reader waits for nobody: bytes become events in the same call that delivers them, messages go
to the listener at once, responses wake their waiters, and then the CLI's own requests are given
to their handlers: see `handler_tasks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
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
from pilothouse.transport.base import NumberedLines

from .cancellation import is_being_cancelled
from .handler_tasks import Answering, HandlerTasks
from .turns import Turn

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

    received: Callable[
        [list[Message | LineRejected], set[type[Any]], NumberedLines | None], Sequence[Turn]
    ]
    """Takes what arrived, the classes among it, and what it was read from if that has a number.
    Returns the turns that ended with it."""
    followed: Callable[[list[Message | LineRejected], set[type[Any]], Sequence[Turn]], None]
    """Hears of the same afterwards, with the turns."""
    last_words: Callable[[], str]
    """Tells what the CLI said was wrong, if it said so in a message."""
    ended: Callable[[SessionEnded], None]


log = logging.getLogger("pilothouse")

END_FOLLOWS = 5.0
"""Seconds within which what must follow an end does follow it."""

_SPECIAL = frozenset({RequestReceived, ResponseReceived, RequestCancelled, StreamEnded})

Serve = Callable[[RequestReceived], Coroutine[Any, Any, Any]]


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
        self._connection = Connection(
            Role.CLIENT, max_line=max_line, first_request_id=first_request_id
        )
        self._waiters: dict[str, asyncio.Future[ControlResponse]] = {}
        self._handlers = HandlerTasks(
            Answering(serve, self._respond, self._refuse, self._flush_answers)
        )
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
        waiter = asyncio.get_running_loop().create_future()
        if self.ended_by is not None:
            waiter.set_exception(self.ended_by)
            return waiter
        self._connection.expect(request_id, request)
        self._waiters[request_id] = waiter
        waiter.add_done_callback(lambda _: self._waiters.pop(request_id, None))
        return waiter

    def reopen(self, asked: Sequence[ControlRequest]) -> None:
        """Serve what the CLI asked before; its listener has heard of that already."""
        reopened = (self._connection.reopen(message) for message in asked)
        self._serve_all([event for event in reopened if event is not None])

    async def detach(self) -> None:
        """Speak to the CLI no more, and leave it as it is."""
        self.ended_by = SessionEnded("its CLI goes on, and is no longer ours to speak to")
        for waiter in list(self._waiters.values()):
            if not waiter.done():
                waiter.set_exception(self.ended_by)
        await self._handlers.aclose()
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
        await self._handlers.aclose()
        return exit

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the conversation, to its end or to ours."""
        return self._handlers.spawn(work)

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
        lines = data if isinstance(data, NumberedLines) else None
        self._dispatch(self._connection.events(), lines)

    def eof_received(self) -> None:
        self._connection.receive_eof()
        self._dispatch(self._connection.events())

    def exited(self, exit: Exit) -> None:
        self.ended_by = _ending(exit, self._listener.last_words())
        for waiter in list(self._waiters.values()):
            if not waiter.done():
                waiter.set_exception(self.ended_by)
        self._handlers.cancel_all()
        self._gone.set()
        self._listener.ended(self.ended_by)

    def _dispatch(self, events: list[Event], lines: NumberedLines | None = None) -> None:
        # Nearly every batch is made of messages alone; it goes on as it is.
        kinds = set(map(type, events))
        if kinds.isdisjoint(_SPECIAL):
            plain = cast("list[Message | LineRejected]", events)
            self._pass_on(plain, kinds, lines)
            return
        plain, asked = self._sorted_out(events)
        if plain:
            self._pass_on(plain, set(map(type, plain)), lines)
        if asked:
            self._serve_all(asked.values())

    def _pass_on(
        self,
        messages: list[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None,
    ) -> None:
        turns = self._listener.received(messages, kinds, lines)
        self._listener.followed(messages, kinds, turns)

    def _sorted_out(
        self, events: list[Event]
    ) -> tuple[list[Message | LineRejected], dict[str, RequestReceived]]:
        """The messages, and what the CLI asks with them and has not taken back."""
        plain: list[Message | LineRejected] = []
        asked: dict[str, RequestReceived] = {}
        for event in events:
            match event:
                case RequestReceived():
                    message = event.message
                    plain.append(message)
                    asked[message.request_id] = event
                case ResponseReceived():
                    plain.append(event.response)
                    self._wake(event)
                case RequestCancelled():
                    plain.append(event.message)
                    asked.pop(event.request_id, None)
                    self._handlers.cancel(event.request_id)
                case StreamEnded():
                    pass
                case Message() | LineRejected():
                    plain.append(event)
                case _:
                    assert_never(event)
        return plain, asked

    def _wake(self, event: ResponseReceived) -> None:
        waiter = self._waiters.get(event.request_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(event.response)

    # Serving the CLI's requests

    def _serve_all(self, asked: Iterable[RequestReceived]) -> None:
        # Those that are answered here and now share one write.
        self._flushing = True
        try:
            self._handlers.start(asked)
        finally:
            self._flush()

    def _respond(self, event: RequestReceived, response: Any) -> None:
        if response is not None:
            try:
                self._connection.send_response(event.message.request_id, response)
            except Exception as error:  # noqa: BLE001 - an answer of the user's that is no JSON
                self._refuse(event, error)

    def _refuse(self, event: RequestReceived, error: BaseException) -> None:
        """The one place where an exception becomes an error on the wire."""
        code = None
        if isinstance(error, Refusal):
            text, code = error.error, error.code
        elif not isinstance(error, asyncio.CancelledError):
            text = f"{type(error).__name__}: {error}"
        elif is_being_cancelled():
            raise error
        else:
            text = "CancelledError: the handler gave up"
        self._connection.send_error(event.request_id, text, code)

    def _flush_answers(self) -> None:
        # A single answer goes at once; those of handlers that end together share one write.
        if not self._handlers:
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
