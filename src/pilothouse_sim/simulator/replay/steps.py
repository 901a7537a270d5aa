"""A recording as steps: which lines of the client's a replay waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from pilothouse_sim.cassettes import CassetteEntry

from .comparison import READS

__all__ = [
    "IGNORED",
    "Step",
    "parse",
    "request_of",
    "requests_in",
    "response_of",
    "session_of",
    "steps_of",
    "type_of",
]

JsonObject = dict[str, Any]

IGNORED: Final = frozenset({"keep_alive", "control_cancel_request"})


@dataclass(slots=True)
class Step:
    """One entry on its way: a line of the client's to come, or one of the CLI's to write."""

    entry: CassetteEntry
    message: JsonObject | None
    asked: JsonObject | None = None
    """The request that a client's answer is for."""
    awaited: bool = False
    done: bool = False

    @property
    def subtype(self) -> str:
        return str(request_of(self.message).get("subtype", ""))

    @property
    def is_read(self) -> bool:
        return self.subtype in READS


def steps_of(entries: Sequence[CassetteEntry]) -> list[Step]:
    """The entries with what is known from those before them."""
    steps = [Step(entry, parse(entry.data or b"")) for entry in entries]
    asked: dict[str, JsonObject] = {}
    open_requests: set[str] = set()
    for index, step in enumerate(steps):
        if step.entry.kind == "out" and step.message is not None:
            _follow(step, step.message, asked, open_requests)
        elif step.entry.kind == "in" and step.message is not None:
            request_id = str(response_of(step.message).get("request_id"))
            step.asked = asked.get(request_id)
            step.awaited = _is_awaited(step, is_open=request_id in open_requests)
            open_requests.discard(request_id)
        elif step.entry.kind == "in":
            goes_on = not open_requests and any(map(_is_speech, steps[index:]))
            step.awaited = not goes_on if step.entry.data is None else bool(step.entry.data.strip())
    return steps


def _follow(
    step: Step, message: JsonObject, asked: dict[str, JsonObject], open_requests: set[str]
) -> None:
    request_id = str(message.get("request_id"))
    if type_of(step) == "control_request":
        asked[request_id] = request_of(message)
        open_requests.add(request_id)
    elif type_of(step) == "control_cancel_request":
        open_requests.discard(request_id)


def _is_awaited(step: Step, *, is_open: bool) -> bool:
    match type_of(step):
        case "control_response":
            # Nobody need answer again what was withdrawn before.
            return is_open
        case "control_request":
            return not step.is_read and step.subtype != "mcp_message"
        case kind:
            return str(kind) not in IGNORED


def _is_speech(step: Step) -> bool:
    return step.entry.kind == "out" and not str(type_of(step) or "control").startswith("control")


def parse(line: bytes) -> JsonObject | None:
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return cast("JsonObject", message) if isinstance(message, dict) else None


def type_of(step: Step) -> Any:
    return None if step.message is None else step.message.get("type")


def request_of(message: JsonObject | None) -> JsonObject:
    request = (message or {}).get("request")
    return cast("JsonObject", request) if isinstance(request, dict) else {}


def response_of(message: JsonObject | None) -> JsonObject:
    response = (message or {}).get("response")
    return cast("JsonObject", response) if isinstance(response, dict) else {}


def requests_in(steps: Sequence[Step]) -> dict[str, Step]:
    """The client's recorded requests by their id."""
    return {
        step.message["request_id"]: step
        for step in steps
        if step.entry.kind == "in"
        and step.message
        and isinstance(step.message.get("request_id"), str)
    }


def session_of(steps: Sequence[Step]) -> str | None:
    """The id of the recorded session, as the CLI first gave it."""
    for step in steps:
        named = (step.message or {}).get("session_id") if step.entry.kind == "out" else None
        if isinstance(named, str) and named:
            return named
    return None
