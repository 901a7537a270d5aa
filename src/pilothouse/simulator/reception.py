"""Takes what the client writes and brings it to the part of the session that it is for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.protocol.events import LineRejected, RequestReceived, ResponseReceived, StreamEnded
from pilothouse.protocol.messages import ControlResponse, UserMessage
from pilothouse.simulator import controls
from pilothouse.simulator.prompts import Prompt

if TYPE_CHECKING:
    from pilothouse.protocol.events import Event
    from pilothouse.simulator.session import Session

__all__ = ["BadInput", "Reception"]


class BadInput(Exception):
    """A line that ends the CLI; the text goes to stderr."""


class Reception:
    """The session's listener at its end of the wire."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.outlet.connection
        self._answering: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._dispatch()

    def eof_received(self) -> None:
        self._connection.receive_eof()
        self._dispatch()

    def _dispatch(self) -> None:
        for event in self._connection.events():
            try:
                self._take(event)
            except BadInput as error:
                if not self.failed.done():
                    self.failed.set_exception(error)
                return

    def _take(self, event: Event) -> None:
        match event:
            case UserMessage():
                self._session.turns.receive(_read_prompt(event))
            case RequestReceived():
                self._answer(event)
            case ResponseReceived():
                self._echo(event.response)
                self._session.outlet.answered(event.request_id, event.response)
            case LineRejected():
                raise BadInput(
                    f"Error parsing streaming input line: {event.line.decode(errors='replace')}"
                )
            case StreamEnded():
                self._session.outlet.client_gone()
                self._session.turns.end_input()
            case _:
                # Messages it does not know are ignored.
                pass

    def _echo(self, response: ControlResponse) -> None:
        if self._session.launch.replay_user_messages:
            self._connection.send_message(msgspec.json.decode(response.raw))
            self._session.outlet.flush()

    def _answer(self, event: RequestReceived) -> None:
        body: dict[str, Any] = msgspec.json.decode(event.message.raw).get("request") or {}
        task = asyncio.create_task(controls.answer(self._session, event.request_id, body))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)


def _read_prompt(message: UserMessage) -> Prompt:
    body: dict[str, Any] = msgspec.json.decode(message.raw)
    said = body.get("message")
    if not isinstance(said, dict) or said.get("role") != "user":
        raise BadInput("Error: Expected message role 'user'")
    return Prompt(content=said.get("content", ""), uuid=body.get("uuid"))
