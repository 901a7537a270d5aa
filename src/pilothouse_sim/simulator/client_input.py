"""Takes what the client writes and brings it to the part of the session that it is for."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pilothouse.protocol.events import LineRejected, RequestReceived, ResponseReceived, StreamEnded
from pilothouse.protocol.messages import (
    ControlResponse,
    UpdateEnvironmentVariablesMessage,
    UserMessage,
)
from pilothouse.protocol.wire import as_object, members, parse_strictly
from pilothouse_sim.simulator import controls
from pilothouse_sim.simulator.prompts import ClientPrompt

if TYPE_CHECKING:
    from pilothouse.protocol.events import Event
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["BadInput", "ClientInput"]

LAST_ANSWERS = 5.0
"""Seconds that the answers to the last requests may take."""

_TOKEN: Final = "CLAUDE_CODE_SESSION_ACCESS_TOKEN"
"""The one variable that 2.1.325 takes over while it runs."""
_TYPE: Final = re.compile(rb'"type"\s*:\s*"(\w+)"')


class BadInput(Exception):
    """A line that ends the CLI; the text goes to stderr."""


class ClientInput:
    """The session's listener at its end of the wire."""

    def __init__(self, session: SimulatedSession) -> None:
        self._session = session
        self._outlet = session.state.outlet
        self._connection = self._outlet.connection
        self._answering: set[asyncio.Task[None]] = set()
        self._waiting: deque[Event] = deque()
        self._is_answering = False
        self._beginning: asyncio.Task[None] | None = None
        """The answer to `initialize`, as long as it is not written."""
        self._held: list[Event] = []
        """What came behind it."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._dispatch()

    def eof_received(self) -> None:
        self._connection.receive_eof()
        self._dispatch()

    def _dispatch(self) -> None:
        self._waiting.extend(self._connection.events())
        if not self._is_answering:
            self._go_on()

    def _go_on(self) -> None:
        """Take what waits; after a request, its answer begins before anything else is taken."""
        self._is_answering = False
        while self._waiting and not self.failed.done():
            event = self._waiting.popleft()
            if self._beginning is not None and not isinstance(event, ResponseReceived):
                self._hold(event)
                continue
            try:
                self._take(event)
            except BadInput as error:
                self.failed.set_exception(error)
            if isinstance(event, RequestReceived):
                self._is_answering = True
                asyncio.get_running_loop().call_soon(self._go_on)
                return

    def _hold(self, event: Event) -> None:
        """Put off what came behind `initialize`; answers pass, for it may wait for them."""
        self._held.append(event)
        if isinstance(event, StreamEnded):
            self._outlet.client_gone()

    def _begun(self, _: asyncio.Task[None]) -> None:
        self._beginning = None
        self._waiting.extendleft(reversed(self._held))
        self._held.clear()
        self._go_on()

    def _take(self, event: Event) -> None:
        match event:
            case UserMessage():
                self._session.queue.receive(_read_prompt(event))
            case RequestReceived():
                self._answer(event)
            case ResponseReceived():
                self._echo(event.response)
                self._outlet.answered(event.request_id, event.response)
            case UpdateEnvironmentVariablesMessage():
                _take_token(as_object(members(event.raw).get("variables")))
            case LineRejected():
                _refuse(event.line)
            case StreamEnded():
                self._outlet.client_gone()
                self._session.queue.end_input()
            case _:
                # Messages it does not know are ignored.
                pass

    def _echo(self, response: ControlResponse) -> None:
        if self._session.state.launch.replay_user_messages:
            self._connection.send_message(members(response.raw))
            self._outlet.flush()

    async def finish(self) -> None:
        """Let requests be answered that came before the end; none may hold it up for long."""
        if self._answering:
            await asyncio.wait(self._answering, timeout=LAST_ANSWERS)

    def _answer(self, event: RequestReceived) -> None:
        body = members(event.message.raw).get("request")
        if body is None:
            raise BadInput("Error: Missing request on control_request")
        request = as_object(body)
        task = asyncio.create_task(controls.answer(self._session, event.request_id, request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        if request.get("subtype") == "initialize":
            self._beginning = task
            task.add_done_callback(self._begun)


def _refuse(line: bytes) -> None:
    """End the CLI for a line that is no JSON, or null; other values that are no objects pass."""
    try:
        if parse_strictly(line) is not None:
            return
        kind = "TypeError"
    except (ValueError, RecursionError):
        kind = "SyntaxError"
    found = _TYPE.search(line)
    name = found[1].decode() if found else "unknown"
    # JavaScript counts in UTF-16.
    length = len(line.decode("utf-8", "replace").encode("utf-16-le")) // 2
    raise BadInput(f"Error parsing streaming input line (type={name}, {length} chars): {kind}")


def _take_token(variables: dict[str, Any]) -> None:
    token = variables.get(_TOKEN)
    if isinstance(token, str):
        os.environ[_TOKEN] = token


def _read_prompt(message: UserMessage) -> ClientPrompt:
    body = members(message.raw)
    said = as_object(body.get("message"))
    if said.get("role") != "user":
        raise BadInput(f"Error: Expected message role 'user', got '{_spelled(said)}'")
    return ClientPrompt(
        content=said.get("content") or "(no content)",
        uuid=body.get("uuid"),
        is_question=body.get("shouldQuery") is not False,
        # Of where a prompt comes from, only this is taken from a client's word.
        is_human=as_object(body.get("origin")).get("kind") == "human",
    )


def _spelled(said: dict[str, Any]) -> str:
    """A role as JavaScript writes it."""
    role = said.get("role", "undefined")
    return "null" if role is None else str(role)
