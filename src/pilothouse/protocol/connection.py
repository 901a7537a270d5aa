"""The protocol as a state machine without I/O: bytes in, events out, bytes out.

    connection = Connection(Role.CLIENT)
    request_id = connection.send_request(Initialize())
    pipe.write(connection.data_to_send())
    connection.receive_data(pipe.read())
    for event in connection.events(): ...

Rules
- Receiving never raises, whatever the bytes are, and depends on no cut between chunks.
- Each request of the peer's is reported once and answered at most once. `send_response` and
  `send_error` return False, and write nothing, where the peer no longer waits: it was answered,
  withdrawn, or the CLI's stream has ended.
- A response is matched to a request of ours by its id, once. Others (a second response, an echo
  of our own) are reported as the plain messages they are.
- Sending checks first and buffers second. A client writes no line that ends any supported CLI:
  no blank line, no `control_request` without a body, no `user` line of another role, no type the
  CLI does not know, and never `control_cancel_request`, which ends the oldest of them. `forget`
  withdraws a request of ours without a word to the peer.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from .control import (
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    Request,
    decode_pending_requests,
    encode_request,
)
from .events import (
    Event,
    LineRejected,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
)
from .messages import Message, NotAMessage, decode, decode_lines
from .wire import JsonObject, encode

__all__ = ["Connection", "IllegalSend", "Role"]

HEAD_KEPT: Final = 1024
"""How much of a line over the limit is kept for the report."""

CLIENT_TYPES: Final = frozenset({"user", "keep_alive", "update_environment_variables"})
"""What a client may write besides control messages; 2.1.37 exits on any other type."""

_CONTROL: Final = frozenset({ControlRequest, ControlResponse, ControlCancelRequest})


class IllegalSend(ValueError):
    """The caller tried to send what the protocol does not allow. Nothing was written."""


class Role(enum.Enum):
    """Which side of the wire we are."""

    CLIENT = "client"
    CLI = "cli"


def _new_request_id() -> str:
    return f"ph_{uuid.uuid4().hex}"


class Connection:
    """One side of one stream-json conversation."""

    def __init__(
        self,
        role: Role,
        *,
        max_line: int | None = None,
        new_request_id: Callable[[], str] = _new_request_id,
        first_request_id: str | None = None,
    ) -> None:
        self.role = role
        self._first_request_id = first_request_id
        self._max_line = max_line
        self._splitter = _LineSplitter(max_line)
        self._new_request_id = new_request_id
        self._events: list[Event] = []
        self._output: list[bytes] = []
        self._ours: dict[str, Request[Any]] = {}
        self._theirs: dict[str, ControlRequest] = {}
        self._ended = False

    @property
    def pending(self) -> Mapping[str, Request[Any]]:
        """Requests of ours that the peer has not answered."""
        return self._ours

    @property
    def asked(self) -> Mapping[str, ControlRequest]:
        """Requests of the peer's that we have not answered."""
        return self._theirs

    @property
    def ended(self) -> bool:
        return self._ended

    # Receiving

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, cut anywhere."""
        fits = self._splitter.fits(data)
        lines = self._splitter.feed(data)
        messages = decode_lines(lines) if fits else None
        if messages is None:
            for line, size in zip(lines, self._splitter.sizes(lines), strict=True):
                self._receive_line(line, size)
        elif _CONTROL.isdisjoint(map(type, messages)):
            self._events += messages
        else:
            for message in messages:
                if type(message) is ControlRequest:
                    self._receive_request(message)
                else:
                    self._receive_message(message)

    def receive_eof(self) -> None:
        """The peer's stream ended. A last line without a newline still counts."""
        if not self._ended:
            self.receive_data(b"\n")
            self._ended = True
            if self.role is Role.CLIENT:
                self._theirs.clear()
            # A client that has closed its side still reads what it asked for.
            self._events.append(StreamEnded())

    def events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def _receive_line(self, line: bytes, size: int) -> None:
        limit = self._max_line
        if limit is not None and size > limit:
            reason = f"longer than {limit} bytes"
            self._events.append(LineRejected(reason, line[:HEAD_KEPT], size))
            return
        try:
            self._receive_message(decode(line))
        except NotAMessage as error:
            self._reject(line, str(error))

    def _reject(self, line: bytes, reason: str) -> None:
        if line.strip():
            self._events.append(LineRejected(reason, line))

    def _receive_message(self, message: Message) -> None:
        try:
            self._take_message(message)
        except Exception as error:  # noqa: BLE001 - the boundary to what a peer may write
            self._reject(message.raw, f"cannot be understood: {type(error).__name__}")

    def _take_message(self, message: Message) -> None:
        if isinstance(message, ControlRequest):
            self._receive_request(message)
        elif isinstance(message, ControlResponse):
            self._receive_response(message)
        elif isinstance(message, ControlCancelRequest):
            self._theirs.pop(message.request_id, None)
            self._events.append(RequestCancelled(message))
        else:
            self._events.append(message)

    def _receive_request(self, message: ControlRequest) -> None:
        # A native CLI repeats requests after a reconnect, and so does a repeated initialize.
        if message.request_id in self._theirs:
            self._events.append(message)
            return
        self._theirs[message.request_id] = message
        self._events.append(RequestReceived(message))

    def _receive_response(self, message: ControlResponse) -> None:
        request = self._ours.pop(message.request_id, None)
        if request is None:
            self._events.append(message)
            return
        self._events.append(ResponseReceived(message.request_id, request, message))
        for reopened in decode_pending_requests(message):
            if reopened.request_id not in self._theirs:
                self._receive_request(reopened)

    # Sending

    def send_request(self, request: Request[Any]) -> str:
        """Ask the peer; the id names the answer."""
        request_id = self._first_request_id or self._new_request_id()
        body = encode_request(request)
        self._write({"type": "control_request", "request_id": request_id, "request": body})
        self._ours[request_id] = request
        self._first_request_id = None
        return request_id

    def expect(self, request_id: str, request: Request[Any]) -> None:
        """Take the answer to a request that an earlier connection has sent."""
        self._ours[request_id] = request
        self._first_request_id = None

    def reopen(self, message: ControlRequest) -> RequestReceived | None:
        """Take a request of the peer's that came to an earlier connection; None: it is here."""
        if message.request_id in self._theirs:
            return None
        self._theirs[message.request_id] = message
        return RequestReceived(message)

    def forget(self, request_id: str) -> None:
        """Wait no longer for an answer to this request of ours."""
        self._ours.pop(request_id, None)

    def send_response(self, request_id: str, response: Any = None) -> bool:
        """Answer a request of the peer's."""
        if request_id not in self._theirs:
            return False
        given: Any = {} if response is None else response
        if not request_id:
            return self.send_answer(request_id, {"subtype": "success", "response": given})
        # As `send_answer` has it, without the detour: most answers go here.
        body = {"subtype": "success", "request_id": request_id, "response": given}
        self._output.append(encode({"type": "control_response", "response": body}))
        del self._theirs[request_id]
        return True

    def send_error(self, request_id: str, error: str, code: str | None = None) -> bool:
        """Refuse a request of the peer's."""
        coded = {} if code is None else {"error_code": code}
        return self.send_answer(request_id, {"subtype": "error", "error": error, **coded})

    def send_answer(self, request_id: str, members: JsonObject) -> bool:
        """Answer with exactly these members: a CLI leaves some out and puts others beside."""
        if request_id not in self._theirs:
            return False
        body = {"subtype": members["subtype"], "request_id": request_id, **members}
        if not request_id:
            # A CLI answers a request without an id, and its answer has none either.
            del body["request_id"]
        self._output.append(encode({"type": "control_response", "response": body}))
        del self._theirs[request_id]
        return True

    def send_message(self, message: JsonObject) -> None:
        """Write a message that is no control message."""
        if self.role is Role.CLIENT:
            _check_client_message(message)
        self._write(message)

    def send_cancel(self, request_id: str) -> None:
        """Withdraw a request of ours at the peer. Only a CLI may: see the rules above."""
        if self.role is Role.CLIENT:
            raise IllegalSend("a client never writes control_cancel_request; use forget()")
        self.forget(request_id)
        self._write({"type": "control_cancel_request", "request_id": request_id})

    def data_to_send(self) -> bytes:
        """What is to be written to the peer now."""
        output, self._output = self._output, []
        return b"".join(output)

    def _write(self, message: Mapping[str, Any]) -> None:
        self._output.append(encode(message))


def _check_client_message(message: JsonObject) -> None:
    kind = message.get("type")
    if kind not in CLIENT_TYPES:
        raise IllegalSend(f"a client does not write {kind!r} messages")
    if kind == "user":
        body = _members(message.get("message"))
        if body.get("role") != "user" or "content" not in body:
            raise IllegalSend("a user message needs message.role 'user' and message.content")


def _members(value: Any) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


class _LineSplitter:
    """Cuts a byte stream into lines, keeping of each no more than the limit, and its size.

    Two bytes more than the limit, to be exact: the last may be a `\r` that is taken off.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        """Bytes of the line that has not ended, whether or not they are held."""
        self._ends_in_cr = False
        """Whether its last byte is a `\r`."""
        self._first_size = 0

    def fits(self, data: bytes) -> bool:
        """Whether no line that is whole with this can be too long."""
        return self._limit is None or self._size + len(data) <= self._limit

    def sizes(self, lines: list[bytes]) -> list[int]:
        """How long the lines were that `feed` has just returned, without their ends."""
        return [self._first_size, *map(len, lines[1:])] if lines else []

    def feed(self, data: bytes) -> list[bytes]:
        complete, newline, tail = data.rpartition(b"\n")
        lines: list[bytes] = []
        if newline:
            lines = complete.split(b"\n")
            if self._held:
                self._hold(lines[0])
                lines[0] = b"".join(self._held)
                self._first_size = self._size - self._ends_in_cr
                self._held, self._size = [], 0
            else:
                self._first_size = len(lines[0].removesuffix(b"\r"))
            if b"\r" in complete or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
        if tail:
            self._hold(tail)
        return lines

    def _hold(self, piece: bytes) -> None:
        # Pieces are joined once, at the newline: a line of many chunks costs its length, not
        # its length squared.
        size = len(piece)
        if size:
            self._ends_in_cr = piece.endswith(b"\r")
        if self._limit is not None:
            piece = piece[: max(0, self._limit + 2 - self._size)]
        if piece:
            self._held.append(piece)
        self._size += size
