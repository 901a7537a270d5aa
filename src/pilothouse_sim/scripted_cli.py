"""A CLI's part, played in memory: no process, no model, no network.

    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
        uuid = (await cli.prompts.get()).uuid
        cli.write({"type": "result", "subtype": "success", "user_message_uuid": uuid})

It plays the part with the same `Connection` as the client, in the other role.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pilothouse.protocol import (
    Connection,
    ControlRequest,
    ControlResponse,
    RequestReceived,
    ResponseReceived,
    Role,
    UserMessage,
)
from pilothouse.protocol.control_requests import UntypedRequest
from pilothouse.protocol.wire import JsonObject
from pilothouse.transport import Exit, MemoryTransport, pair

__all__ = ["ScriptedCLI"]

GREETING: JsonObject = {
    "commands": [],
    "agents": [],
    "models": [],
    "account": {},
    "output_style": "default",
    "available_output_styles": ["default"],
    "claude_code_version": "2.1.325",
    "pid": 1,
}

Answer = JsonObject | str | None
"""What a control request gets: a response, the text of an error, or no answer at all."""


class ScriptedCLI:
    """The other end of a client's `transport`. It is a CLI as far as its author wrote one."""

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.transport: MemoryTransport
        self.transport, self.end = pair()
        self.prompts: asyncio.Queue[UserMessage] = asyncio.Queue()
        self.requests: list[ControlRequest] = []
        """The client's control requests, in order."""
        self.lines: list[bytes] = []
        """Every message of the client's that is no control message."""
        self.on_request: Callable[[ControlRequest], None] | None = None
        self.input_ended = asyncio.Event()
        self._answers: dict[str, Answer] = {"initialize": GREETING, **(answers or {})}
        self._connection = Connection(Role.CLI)
        self._asked: dict[str, asyncio.Future[ControlResponse]] = {}
        self._starting = asyncio.get_running_loop().create_task(self.end.start(self))

    def write(self, *messages: JsonObject) -> None:
        """Write messages to the client."""
        for message in messages:
            self._connection.send_message(message)
        self._flush()

    def write_bytes(self, data: bytes) -> None:
        """Write bytes that may be no messages at all."""
        self.end.write(data)

    def ask(self, subtype: str, **fields: Any) -> tuple[str, asyncio.Future[ControlResponse]]:
        """Ask the client; the id of the request and the answer to come."""
        request_id = self._connection.send_request(UntypedRequest(kind=subtype, fields=fields))
        answer = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answer
        self._flush()
        return request_id, answer

    def withdraw(self, request_id: str) -> None:
        """Want that answer no longer."""
        self._connection.send_cancel(request_id)
        self._flush()

    def exit(self, code: int = 0, stderr: str = "") -> None:
        """End, as a process would."""
        self.end.write_stderr(stderr)
        self.end.exit(code)

    # What the transport tells

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        for event in self._connection.events():
            match event:
                case UserMessage():
                    self.lines.append(event.raw)
                    self.prompts.put_nowait(event)
                case RequestReceived():
                    self._answer(event.message)
                case ResponseReceived():
                    self._asked.pop(event.request_id).set_result(event.response)
                case _:
                    self.lines.append(getattr(event, "raw", b""))

    def eof_received(self) -> None:
        self.input_ended.set()
        self.end.exit(0)

    def exited(self, exit: Exit) -> None:
        self.input_ended.set()

    def _answer(self, message: ControlRequest) -> None:
        self.requests.append(message)
        if self.on_request is not None:
            self.on_request(message)
        subtype = message.client_request.subtype
        answer = self._answers.get(subtype, {})
        if isinstance(answer, str):
            self._connection.send_error(message.request_id, answer)
        elif answer is not None:
            self._connection.send_response(message.request_id, answer)
        self._flush()

    def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data:
            self.end.write(data)
