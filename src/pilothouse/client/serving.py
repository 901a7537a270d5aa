"""Answers what the CLI asks: permissions, hooks, in-process tools, elicitations, dialogs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pilothouse.api.answers import Allow, Deny
from pilothouse.errors import BypassNotAllowed
from pilothouse.protocol import (
    CanUseTool,
    Elicitation,
    HookCallback,
    McpMessage,
    PermissionAllow,
    RequestReceived,
    RequestUserDialog,
)
from pilothouse.protocol.wire import JsonObject

from .bypass import BypassGate
from .cancellation import is_being_cancelled
from .channel import Refusal
from .elicitation import Dialog, ElicitationRequest, elicitation_payload
from .hooks import HookFailed, Spawn, refused_output
from .options import Options
from .permissions import (
    HandlerAnswer,
    PermissionRequest,
    PlanRequest,
    QuestionRequest,
    Remembered,
    as_request,
    settle,
)
from .tools import ToolHost
from .versions import Features

__all__ = ["Server"]

log = logging.getLogger("pilothouse")


class Server:
    """Serves one CLI's requests with the handlers of its options."""

    def __init__(
        self,
        options: Options,
        gate: BypassGate,
        tools: Mapping[str, ToolHost],
        *,
        features: Callable[[], Features],
        spawn: Spawn,
    ) -> None:
        self._options = options
        self._gate = gate
        self._tools = tools
        self._features = features
        self._spawn = spawn
        self._remembered = Remembered()

    async def serve(self, event: RequestReceived) -> Any:
        """The answer to one request; None where the CLI must not get one from us."""
        request = event.request
        match request:
            case CanUseTool():
                return await self._permission(as_request(event.request_id, request))
            case HookCallback():
                return await self._hook(request)
            case McpMessage():
                return await self._tool(request)
            case Elicitation():
                return await self._elicitation(ElicitationRequest(event.request_id, request))
            case RequestUserDialog():
                return await self._dialog(Dialog(event.request_id, request))
            case _:
                subtype = request.subtype
                raise Refusal(
                    f"Unsupported control request subtype: {subtype}", "unsupported_request"
                )

    async def _permission(self, request: PermissionRequest) -> Any:
        features = self._features()
        known = features.forgets_rules and self._remembered.covers(request)
        answer = Allow() if known else await self._answer(request)
        try:
            result = settle(
                request,
                answer,
                edits_plans=features.edits_plans,
                passes_notes=features.passes_notes,
            )
            if isinstance(result, PermissionAllow) and result.updated_permissions:
                self._gate.check("an answer", result.updated_permissions)
        except (BypassNotAllowed, TypeError) as error:
            log.error("the answer to %s was refused: %s", request.tool_name, error)
            return settle(request, Deny(f"The answer was refused: {error}"))
        self._remembered.note(request, answer)
        return result

    async def _answer(self, request: PermissionRequest) -> HandlerAnswer:
        """What the handler for it says; one that fails denies, with the reason."""
        try:
            asking = self._asking(request)
            if asking is None:
                return Deny(f"Nobody here answers for {request.tool_name}.")
            return await asking
        except (asyncio.CancelledError, Exception) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            log.exception("the handler for %s failed; denied", request.tool_name)
            return Deny(f"The permission handler failed: {type(error).__name__}: {error}")

    def _asking(self, request: PermissionRequest) -> Awaitable[HandlerAnswer] | None:
        options = self._options
        if isinstance(request, QuestionRequest) and options.on_question is not None:
            return options.on_question(request)
        if isinstance(request, PlanRequest) and options.on_plan is not None:
            return options.on_plan(request)
        return None if options.on_permission is None else options.on_permission(request)

    async def _hook(self, callback: HookCallback) -> JsonObject:
        if self._options.hooks is None:
            raise Refusal("no hooks are registered here")
        try:
            output = await self._options.hooks.answer(callback, spawn=self._spawn)
        except HookFailed as error:
            raise Refusal(str(error)) from error
        try:
            self._gate.check("a hook's output", output)
        except BypassNotAllowed as error:
            log.error("the output of a hook was refused: %s", error)
            return refused_output(callback, str(error))
        return output

    async def _tool(self, request: McpMessage) -> JsonObject:
        host = self._tools.get(request.server_name)
        if host is None:
            raise Refusal(f"no in-process server is named {request.server_name!r}")
        reply = await host.handle(request.message)
        # A notification must be acknowledged too, or the CLI waits for it.
        return {"mcp_response": reply if reply is not None else {"jsonrpc": "2.0", "result": {}}}

    async def _elicitation(self, request: ElicitationRequest) -> JsonObject:
        if self._options.on_elicitation is None:
            return {"action": "decline"}
        return elicitation_payload(await self._options.on_elicitation(request))

    async def _dialog(self, dialog: Dialog) -> JsonObject | None:
        # A kind we did not declare belongs to another host: silence, not a refusal.
        if self._options.on_dialog is None or dialog.kind not in self._options.dialog_kinds:
            return None
        answer = (await self._options.on_dialog(dialog)).payload()
        self._gate.check("the answer to a dialog", answer)
        return answer
