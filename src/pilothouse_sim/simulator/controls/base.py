"""What answers to control requests are made of, and what several of them look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from pilothouse_sim.simulator.clock import timestamp

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = [
    "Answer",
    "ControlAsk",
    "Handler",
    "RequestRefused",
    "has_talked",
    "note_command",
    "open_requests",
    "read_object",
    "required",
    "state_of",
]


class ControlAsk(Struct, frozen=True):
    """A control request of the client's."""

    id: str
    fields: dict[str, Any]

    def get(self, name: str) -> Any:
        """A member of the request, or None."""
        return self.fields.get(name)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer with more to it than a body."""

    body: dict[str, Any] | None = None
    beside: dict[str, Any] = {}
    """Members that stand beside the body."""
    then: Callable[[], None] | None = None
    """What happens once the answer is written."""


class RequestRefused(Exception):
    """The request is answered with an error."""

    def __init__(self, text: str, code: str | None = None, **beside: Any) -> None:
        super().__init__(text)
        self.text = text
        self.beside: dict[str, Any] = ({"error_code": code} if code else {}) | beside


Reply = dict[str, Any] | Answer | None
Handler = Callable[["SimulatedSession", ControlAsk], "Reply | Awaitable[Reply]"]
"""Answers one kind of request. None is a success that says nothing more."""


def required(asked: ControlAsk, name: str, subtype: str) -> str:
    """A member that must be text."""
    value = asked.get(name)
    if not isinstance(value, str):
        raise RequestRefused(f"{subtype}: {name} must be a string")
    return value


def has_talked(session: SimulatedSession) -> bool:
    """Whether there is a conversation."""
    return bool(session.main.messages)


def open_requests(session: SimulatedSession, subtype: str) -> list[dict[str, Any]]:
    """The requests of this kind that the client has not answered, as they were written."""
    pending = session.state.outlet.connection.pending
    return [
        {
            "type": "control_request",
            "request_id": request_id,
            "request": {"subtype": request.subtype, **_repeated(request)},
        }
        for request_id, request in pending.items()
        if request.subtype == subtype
    ]


def _repeated(request: Any) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(request, "fields", {})
    return {key: value for key, value in fields.items() if key != "server_policy_ask_only"}


def note_command(session: SimulatedSession, command: str, output: str) -> None:
    """Note in the conversation, and to the client, what a command of the CLI's own said."""
    said = f"<local-command-stdout>{output}</local-command-stdout>"
    name, _, arguments = command.partition(" ")
    called = f"<command-name>{name}</command-name>\n<command-args>{arguments}</command-args>"
    session.main.add("user", f"{called}\n{said}")
    session.state.outlet.send(
        "user",
        message={"role": "user", "content": said},
        parent_tool_use_id=None,
        timestamp=timestamp(),
        isReplay=True,
    )


def read_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is, or an empty one."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def state_of(session: SimulatedSession) -> str:
    """The session's state as clients are told it."""
    if open_requests(session, "can_use_tool"):
        return "requires_action"
    return "running" if session.queue.is_busy else "idle"
