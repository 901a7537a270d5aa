"""What a player does: writes a line, or ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

__all__ = ["Action", "End", "Write", "line_of", "refusal", "reply"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
    """Write these bytes, `after` seconds after what came before in the recording."""

    stream: Literal["out", "err"]
    data: bytes
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """End with this exit code, or by this signal."""

    code: int = 0
    signal: int | None = None


Action = Write | End


def reply(request: JsonObject, response: JsonObject) -> Write:
    """The answer to a request."""
    body = {"subtype": "success", "request_id": request.get("request_id"), "response": response}
    return Write("out", line_of({"type": "control_response", "response": body}))


def refusal(request: JsonObject, error: str) -> Write:
    """The error that answers a request."""
    body = {"subtype": "error", "request_id": request.get("request_id"), "error": error}
    return Write("out", line_of({"type": "control_response", "response": body}))


def line_of(message: JsonObject) -> bytes:
    """A message as it is written."""
    return msgspec.json.encode(message) + b"\n"
