"""What an MCP server or the CLI itself asks a person, outside any tool: forms, links, dialogs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilothouse.api.answers import Decline, Dismiss, Fill
from pilothouse.protocol.control import Elicitation, RequestUserDialog
from pilothouse.protocol.wire import JsonObject

__all__ = [
    "Dialog",
    "DialogAnswer",
    "ElicitationAnswer",
    "ElicitationRequest",
    "elicitation_payload",
]


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """An MCP server asks for values (`mode` "form") or to open a page ("url")."""

    request_id: str
    request: Elicitation

    @property
    def server_name(self) -> str:
        return self.request.mcp_server_name

    @property
    def message(self) -> str:
        return self.request.message

    @property
    def schema(self) -> JsonObject:
        return self.request.requested_schema or {}


ElicitationAnswer = Fill | Decline | Dismiss
"""What a handler may return: the values, a no, or neither."""


def elicitation_payload(answer: object) -> JsonObject:
    """The answer as the CLI takes it. What is no answer to an MCP server raises TypeError."""
    match answer:
        case Fill(content=content):
            return {"action": "accept", "content": content}
        case Decline():
            return {"action": "decline"}
        case Dismiss():
            return {"action": "cancel"}
        case _:
            raise TypeError(f"{type(answer).__name__} is no answer to an MCP server")


@dataclass(frozen=True, slots=True)
class Dialog:
    """The CLI asks for one of its own dialogs, of a kind listed in `Options.dialog_kinds`."""

    request_id: str
    request: RequestUserDialog

    @property
    def kind(self) -> str:
        return self.request.dialog_kind

    @property
    def body(self) -> JsonObject:
        return self.request.payload


@dataclass(frozen=True, slots=True)
class DialogAnswer:
    """The dialog's result, or dismissed."""

    result: Any = None
    cancelled: bool = False

    def payload(self) -> JsonObject:
        if self.cancelled:
            return {"behavior": "cancelled"}
        return {"behavior": "completed", "result": self.result}
