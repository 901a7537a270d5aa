"""The hooks around tool calls: before one, about its permission, after it, after all of a reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from pilothouse_sim.simulator.hooks.verdicts import Hooked, contexts, replaced, spoken
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.tally import TurnEnding
from pilothouse_sim.simulator.tool_calls import CallRefusal, Deferred, Permit
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.hooks.outputs import Fired
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.permissions import Verdict
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tool_calls import CallBatch, CalledTool

__all__ = ["ToolHooks"]

HOOK_DECISION: Final = {"source": "hook", "reason_type": "hook"}
REJECTED: Final = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", **HOOK_DECISION},
}
TIMED_OUT: Final = (
    "PreToolUse hook did not respond before its timeout (host client may be unreachable). The tool"
    " call was not executed; other configured hooks may not have completed."
)
STOPPED: Final = TurnEnding(reason="hook_stopped")


class ToolHooks:
    """Calls the hooks of tool calls, and does what their answers say."""

    def __init__(self, state: SessionState, hooks: SessionHooks, mcp: McpServers) -> None:
        self._state = state
        self._hooks = hooks
        self._mcp = mcp

    async def before_tool(self, batch: CallBatch, call: CalledTool) -> Hooked:
        """PreToolUse. Raises `CallRefusal` when a hook denies, `Deferred` when one puts it off."""
        fired = await self._fire_about("PreToolUse", batch, call, self._about(call, call.input))
        if fired.timeout is not None:
            raise ToolFailure(TIMED_OUT)
        name = f"PreToolUse:{call.name}"
        batch.remark(call, before=spoken(name, fired))
        batch.reminders += contexts(name, fired)
        batch.is_stopped |= fired.stop is not None
        ruling = fired.ruling
        if ruling is not None and ruling.behavior == "deny":
            raise CallRefusal(f"{name} hook error: {ruling.reason or 'Blocked by hook'}", REJECTED)
        if ruling is not None and ruling.behavior == "defer":
            raise Deferred
        return Hooked(ruling=ruling, input=fired.last("updatedInput"))

    async def race_permission(
        self,
        batch: CallBatch,
        call: CalledTool,
        arguments: dict[str, Any],
        verdict: Verdict,
        asking: asyncio.Future[Any],
    ) -> Any:
        """PermissionRequest, beside the question to the client: the first answer wins."""
        if not self._hooks.has("PermissionRequest", call.name):
            return await asking
        deciding = asyncio.ensure_future(self.decide(batch, call, arguments, verdict))
        self._hooks.keep(deciding)
        try:
            await asyncio.wait({asking, deciding}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            deciding.cancel()
            raise
        if not asking.done() and deciding.result() is not None:
            asking.cancel()
            await asyncio.wait({asking})
            return deciding.result()
        return await asking

    async def decide(
        self, batch: CallBatch, call: CalledTool, arguments: dict[str, Any], verdict: Verdict
    ) -> Permit | dict[str, Any] | None:
        """PermissionRequest: a permit, the client's answer in its stead, or nothing."""
        fields = self._about(call, arguments)
        fields.pop("tool_use_id")
        if verdict.suggestions is not None:
            rules = verdict.behavior == "ask"
            fields["permission_suggestions"] = [
                # Without anybody to ask no rule is offered.
                each
                for each in verdict.suggestions
                if rules or each["type"] != "addRules"
            ]
        fired = await self._fire_about("PermissionRequest", batch, call, fields)
        decision: dict[str, Any] = fired.last("decision") or {}
        if decision.get("behavior") == "allow":
            updates: list[dict[str, Any]] = decision.get("updatedPermissions") or []
            for update in updates:
                self._state.update_permissions(update)
            given = decision.get("updatedInput") or arguments
            return Permit(given, {"decision": "accept", **HOOK_DECISION})
        if decision.get("behavior") == "deny":
            words = decision.get("message") or "Permission denied by PermissionRequest hook"
            interrupt = bool(decision.get("interrupt"))
            return {"behavior": "deny", "message": words, "interrupt": interrupt, "by": "hook"}
        return None

    async def after_tool(
        self,
        batch: CallBatch,
        call: CalledTool,
        arguments: dict[str, Any],
        outcome: ToolOutcome,
        spent_ms: int,
    ) -> ToolOutcome:
        """PostToolUse; the outcome, or what a hook puts in its place."""
        told = {
            "tool_name": call.name,
            "tool_input": arguments,
            "tool_response": _response(outcome.result),
            **self._about(call, arguments),
            "duration_ms": spent_ms,
        }
        fired = await self._fire_about("PostToolUse", batch, call, told)
        self._conclude(batch, call, f"PostToolUse:{call.name}", fired)
        return replaced(call.name, outcome, fired)

    async def after_failure(
        self,
        batch: CallBatch,
        call: CalledTool,
        arguments: dict[str, Any],
        failure: ToolFailure,
        spent_ms: int,
    ) -> None:
        """PostToolUseFailure."""
        told = {
            **self._about(call, arguments),
            "error": failure.text,
            "is_interrupt": False,
            "duration_ms": spent_ms,
        }
        fired = await self._fire_about("PostToolUseFailure", batch, call, told)
        self._conclude(batch, call, f"PostToolUseFailure:{call.name}", fired)

    def _conclude(self, batch: CallBatch, call: CalledTool, name: str, fired: Fired) -> None:
        batch.remark(call, after=spoken(name, fired))
        batch.reminders += contexts(name, fired)
        batch.reminders += [
            f'{name} hook blocking error from command: "{source}": {reason}'
            for source, reason in fired.blocks
        ]
        batch.is_stopped |= fired.stop is not None

    async def after_batch(self, batch: CallBatch, calls: list[CalledTool]) -> TurnEnding | None:
        """PostToolBatch; how the turn ends, if a hook wants no more."""
        contents = {block["tool_use_id"]: block["content"] for block in batch.blocks}
        told = [
            {
                "tool_name": call.name,
                "tool_input": call.input,
                "tool_use_id": call.id,
                "tool_response": contents.get(call.id),
            }
            for call in calls
        ]
        own = f"hook-{new_id()}"
        fired = await self._hooks.fire(
            "PostToolBatch", {"tool_calls": told}, own=own, thread=batch.thread
        )
        self._hooks.tell("PostToolBatch", fired)
        batch.reminders += contexts("PostToolBatch", fired)
        return STOPPED if fired.blocks or fired.stop is not None else None

    async def _fire_about(
        self, event: str, batch: CallBatch, call: CalledTool, fields: dict[str, Any]
    ) -> Fired:
        return await self._hooks.fire(
            event, fields, query=call.name, own=call.id, thread=batch.thread
        )

    def _about(self, call: CalledTool, arguments: dict[str, Any]) -> dict[str, Any]:
        server = self._mcp.origin(call.name)
        return {
            "tool_name": call.name,
            "tool_input": arguments,
            "tool_use_id": call.id,
            **({"mcp_server": server} if server else {}),
        }


def _response(result: Any) -> Any:
    """A tool's result as hooks are told it; what an MCP server structured is in its text."""
    members = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    return members["content"] if "structuredContent" in members else cast("Any", result)
