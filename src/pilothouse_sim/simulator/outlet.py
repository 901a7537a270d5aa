"""What the simulator writes, and what it asks the client and waits for."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from pilothouse.protocol.connection import Connection
from pilothouse.protocol.control import ControlResponse
from pilothouse.protocol.control_requests import UntypedRequest
from pilothouse_sim.simulator.wire_ends import WireEnd

__all__ = ["ClientGone", "ClientRefused", "Message", "Outlet", "new_id"]

Message = dict[str, Any]


class ClientRefused(Exception):
    """The client answered a request of ours with an error."""


class ClientGone(Exception):
    """The client closed its side before it answered."""


def new_id() -> str:
    """A fresh uuid as text."""
    return str(uuid.uuid4())


class Outlet:
    """Writes messages of one session through one connection."""

    def __init__(self, connection: Connection, end: WireEnd, session_id: str) -> None:
        self.connection = connection
        self.session_id = session_id
        self._end = end
        self._is_silent = False
        self._asked: dict[str, asyncio.Future[ControlResponse]] = {}
        self._lasting: set[str] = set()
        """Requests that an interrupt does not withdraw."""
        self._gone = False

    def send(self, type_: str, /, **fields: Any) -> str:
        """Write a message of this session and return its uuid."""
        message = {"type": type_, **fields}
        own = message.setdefault("uuid", new_id())
        message.setdefault("session_id", self.session_id)
        self.connection.send_message(message)
        self.flush()
        return own

    def mirror(self, path: str, entries: list[Message]) -> None:
        """Write lines of a transcript; such a message has no id of its own."""
        line = {"type": "transcript_mirror", "filePath": path, "entries": entries}
        self.connection.send_message(line)
        self.flush()

    def system(self, subtype: str, /, **fields: Any) -> None:
        """Write a system message."""
        self.send("system", subtype=subtype, **fields)

    def fall_silent(self) -> None:
        """Write nothing from now on."""
        self._is_silent = True

    def flush(self) -> None:
        """Pass on what the connection holds."""
        data = self.connection.data_to_send()
        if data and not self._is_silent:
            self._end.write(data)

    def respond(self, request_id: str, body: Message | None = None) -> None:
        """Answer a request of the client's."""
        self.connection.send_response(request_id, body)
        self.flush()

    def refuse(self, request_id: str, error: str, code: str | None = None) -> None:
        """Refuse a request of the client's."""
        self.connection.send_error(request_id, error, code)
        self.flush()

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Write a request whose answer nobody waits for."""
        self.connection.send_request(UntypedRequest(kind=subtype, fields=fields))
        self.flush()

    async def ask(self, subtype: str, /, **fields: Any) -> Any:
        """Ask the client and wait; cancelling the wait withdraws the request."""
        request_id, answer = self._open(subtype, fields)
        return await self._wait_for(request_id, answer)

    def begin_asking(self, subtype: str, /, **fields: Any) -> asyncio.Task[Any]:
        """Ask the client at once; the task brings the answer, and cancelling it withdraws."""
        request_id, answer = self._open(subtype, fields)
        return asyncio.create_task(self._wait_for(request_id, answer))

    def _open(
        self, subtype: str, fields: dict[str, Any]
    ) -> tuple[str, asyncio.Future[ControlResponse]]:
        if self._gone:
            raise ClientGone
        request_id = self.connection.send_request(UntypedRequest(kind=subtype, fields=fields))
        answer = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answer
        if subtype == "mcp_message":
            self._lasting.add(request_id)
        self.flush()
        return request_id, answer

    async def _wait_for(self, request_id: str, answer: asyncio.Future[ControlResponse]) -> Any:
        try:
            response = await answer
        except asyncio.CancelledError:
            self.withdraw(request_id)
            raise
        if response.subtype == "error":
            raise ClientRefused(response.error or "")
        return response.response

    def withdraw(self, request_id: str) -> None:
        """Withdraw the request, once."""
        answer = self._asked.pop(request_id, None)
        if answer is None:
            return
        if request_id in self._lasting:
            # MCP has its own way to say so.
            self._lasting.discard(request_id)
        else:
            self.connection.send_cancel(request_id)
            self.flush()

    def withdraw_all(self) -> None:
        """Withdraw every request that is open."""
        for request_id in [each for each in self._asked if each not in self._lasting]:
            self.withdraw(request_id)

    def answered(self, request_id: str, response: ControlResponse) -> None:
        """Take the client's answer to a request of ours."""
        answer = self._asked.pop(request_id, None)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def client_gone(self) -> None:
        """Tell everybody who waits for the client that nothing will come."""
        self._gone = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ClientGone)
        self._asked.clear()
