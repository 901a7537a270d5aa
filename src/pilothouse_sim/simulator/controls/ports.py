"""What control requests ask of a session and tell its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse_sim.simulator.clock import timestamp

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import Session

__all__ = [
    "has_talked",
    "note_command",
    "open_requests",
    "read_object",
    "state_of",
]


def has_talked(session: Session) -> bool:
    """Whether there is a conversation."""
    return bool(session.main.messages)


def open_requests(session: Session, subtype: str) -> list[dict[str, Any]]:
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


def note_command(session: Session, command: str, output: str) -> None:
    """Notes in the conversation, and to the client, what a command of the CLI's own said."""
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


def state_of(session: Session) -> str:
    """The session's state as clients are told it."""
    if open_requests(session, "can_use_tool"):
        return "requires_action"
    return "running" if session.queue.is_busy else "idle"
