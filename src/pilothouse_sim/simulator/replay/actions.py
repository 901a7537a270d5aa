"""What a player does: writes a line, or ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

__all__ = ["Action", "EndReplay", "WriteLine", "line_of", "refusal", "reply"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteLine:
    """Write these bytes, `after` seconds after what came before in the recording."""

    stream: Literal["out", "err"]
    data: bytes
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class EndReplay:
    """End with this exit code, or by this signal."""

    code: int = 0
    signal: int | None = None


Action = WriteLine | EndReplay


def reply(request: JsonObject, response: JsonObject) -> WriteLine:
    """The answer to a request."""
    body = {"subtype": "success", "request_id": request.get("request_id"), "response": response}
    return WriteLine("out", line_of({"type": "control_response", "response": body}))


def refusal(request: JsonObject, error: str) -> WriteLine:
    """The error that answers a request."""
    body = {"subtype": "error", "request_id": request.get("request_id"), "error": error}
    return WriteLine("out", line_of({"type": "control_response", "response": body}))


def line_of(message: JsonObject) -> bytes:
    """A message as it is written."""
    return msgspec.json.encode(message) + b"\n"
