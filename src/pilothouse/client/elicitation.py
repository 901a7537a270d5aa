"""What an MCP server or the CLI itself asks a person, outside any tool: forms, links, dialogs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pilothouse.protocol.control import Elicitation, RequestUserDialog
from pilothouse.protocol.wire import JsonObject

__all__ = ["Dialog", "DialogAnswer", "ElicitationAnswer", "ElicitationRequest"]


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


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """`accept` with content, `decline` (no), or `cancel` (dismissed without a choice)."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject = field(default_factory=dict[str, Any])

    def payload(self) -> JsonObject:
        if self.action == "accept":
            return {"action": "accept", "content": self.content}
        return {"action": self.action}


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
