"""What a `Connection` reports. An event is a message of the peer's, or one of these.

    Message             any message; nothing is asked of us
    RequestReceived     the peer asks; answer it once with `send_response` or `send_error`
    RequestCancelled    the peer no longer wants that answer
    ResponseReceived    the peer answered a request of ours
    LineRejected        a line that is no message; the stream goes on
    StreamEnded         the peer will send nothing more

Except for the end, each keeps the line it came from.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .control import ControlCancelRequest, ControlRequest, ControlResponse, InboundRequest, Request
from .messages import Message

__all__ = [
    "Event",
    "LineRejected",
    "RequestCancelled",
    "RequestReceived",
    "ResponseReceived",
    "StreamEnded",
]


class RequestReceived(Struct, frozen=True):
    """The peer asks something and waits for exactly one answer."""

    message: ControlRequest

    @property
    def request_id(self) -> str:
        return self.message.request_id

    @property
    def request(self) -> InboundRequest:
        return self.message.request


class RequestCancelled(Struct, frozen=True):
    """The peer withdrew a request it had made; an answer would be ignored."""

    message: ControlCancelRequest

    @property
    def request_id(self) -> str:
        return self.message.request_id


class ResponseReceived(Struct, frozen=True):
    """The answer to `request`, which we sent."""

    request_id: str
    request: Request[Any]
    response: ControlResponse


class LineRejected(Struct, frozen=True):
    """A line that is no message: noise, or longer than the limit that was set."""

    reason: str
    line: bytes
    """The line, or its beginning if it was too long to keep."""
    size: int = 0
    """How many bytes it had, if it was too long to keep."""


class StreamEnded(Struct, frozen=True):
    """End of the peer's stream. Reported once, after everything else."""


Event = Message | RequestReceived | RequestCancelled | ResponseReceived | LineRejected | StreamEnded
