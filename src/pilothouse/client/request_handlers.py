"""Answers what the CLI asks: permissions, hooks, in-process tools, elicitations, dialogs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from pilothouse.api.answers import Allow, Deny
from pilothouse.errors import BypassNotAllowed
from pilothouse.protocol import (
    CanUseTool,
    Elicitation,
    HookCallback,
    McpMessage,
    PermissionAllow,
    PermissionResult,
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
    ToolRequest,
    as_request,
    settle,
)
from .tools import ToolHost
from .versions import Features

__all__ = ["RequestHandlers"]

log = logging.getLogger("pilothouse")

Handler = Callable[[Any], Awaitable[HandlerAnswer]]


class RequestHandlers:
    """The handlers of a client's options, by the requests of its CLI that they answer."""

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
        decide: Handler = options.on_permission or _deny
        self._deciders: dict[type[PermissionRequest], Handler] = {
            ToolRequest: decide,
            QuestionRequest: options.on_question or decide,
            PlanRequest: options.on_plan or decide,
        }

    def answer(self, event: RequestReceived) -> Coroutine[Any, Any, Any]:
        """The answer to one request; None where the CLI must not get one from us."""
        message = event.message
        request = message.request
        match request:
            case CanUseTool():
                return self._permission(message.request_id, request)
            case HookCallback():
                return self._hook(request)
            case McpMessage():
                return self._tool(request)
            case Elicitation():
                return self._elicitation(ElicitationRequest(event.request_id, request))
            case RequestUserDialog():
                return self._dialog(Dialog(event.request_id, request))
            case _:
                subtype = request.subtype
                raise Refusal(
                    f"Unsupported control request subtype: {subtype}", "unsupported_request"
                )

    async def _permission(self, request_id: str, asked: CanUseTool) -> PermissionResult:
        features = self._features()
        request = as_request(request_id, asked, features)
        if features.forgets_rules and self._remembered.covers(request):
            return self._settle(request, Allow())
        try:
            answer = await self._deciders[type(request)](request)
        except (asyncio.CancelledError, Exception) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            log.exception("the handler for %s failed; denied", request.tool_name)
            answer = Deny(f"The permission handler failed: {type(error).__name__}: {error}")
        return self._settle(request, answer)

    def _settle(self, request: PermissionRequest, answer: HandlerAnswer) -> PermissionResult:
        """The answer as the CLI takes it, or a denial if it must not have it."""
        try:
            settled = settle(request, answer)
            result = settled.result
            if type(result) is PermissionAllow and result.updated_permissions:
                self._gate.check("an answer", result.updated_permissions)
        except (BypassNotAllowed, TypeError) as error:
            log.error("the answer to %s was refused: %s", request.tool_name, error)
            return settle(request, Deny(f"The answer was refused: {error}")).result
        if settled.is_for_good:
            self._remembered.note(request, settled)
        return result

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


async def _deny(request: PermissionRequest) -> Deny:
    return Deny(f"Nobody here answers for {request.tool_name}.")
