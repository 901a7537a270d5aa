"""May this call run? The hooks are asked, then the rules, then the client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.outlet import ClientGone, ClientRefused
from pilothouse_sim.simulator.permissions import Verdict, judge
from pilothouse_sim.simulator.tool_calls import CallRefusal, Interrupting, Permit
from pilothouse_sim.simulator.tools.base import ToolFailure

if TYPE_CHECKING:
    from pilothouse_sim.simulator.activity import SessionActivity
    from pilothouse_sim.simulator.hooks.tools import ToolHooks
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tool_calls import CallBatch, CalledTool
    from pilothouse_sim.simulator.toolbox import Toolbox

__all__ = ["ToolPermissions"]

INVALID = (
    "The canUseTool callback returned an invalid permission result. Expected {behavior: 'allow', "
    "updatedInput?: object} or {behavior: 'deny', message: string}. updatedPermissions may hold "
    "at most 4096 updates, rules and directories in all."
)
_NO_ANSWER = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", "source": "config", "reason_type": "other"},
}


class ToolPermissions:
    """Decides on calls, and asks the client where nothing else has decided."""

    def __init__(
        self,
        state: SessionState,
        hooks: ToolHooks,
        toolbox: Toolbox,
        mcp: McpServers,
        activity: SessionActivity,
    ) -> None:
        self._state = state
        self._hooks = hooks
        self._toolbox = toolbox
        self._mcp = mcp
        self._activity = activity

    async def permit(self, batch: CallBatch, call: CalledTool, arguments: dict[str, Any]) -> Permit:
        """Decide on one call; raise `CallRefusal`."""
        hooked = await self._hooks.before_tool(batch, call)
        arguments = hooked.input or arguments
        if hooked.allows:
            return Permit(
                arguments, {"decision": "accept", "source": "hook", "reason_type": "hook"}
            )
        verdict = judge(call.name, arguments, self._state.permissions)
        if hooked.asks and verdict.behavior != "deny":
            verdict = hooked.as_question(verdict, arguments)
        match verdict.behavior:
            case "allow":
                return Permit(arguments, verdict.meta().get("permission_decision", {}))
            case "deny":
                if verdict.kind == "user-rejected":
                    # Nobody can be asked, but a hook may stand in.
                    decided = await self._hooks.decide(batch, call, arguments, verdict)
                    if decided is not None:
                        return self._settle(batch, call, arguments, decided)
                if verdict.reason_type == "classifier":
                    self._state.warn_unchecked()
                if verdict.announced:
                    self._tell_denied(call, verdict)
                raise CallRefusal(
                    verdict.message,
                    verdict.meta(),
                    result=verdict.tool_use_result,
                    is_denial=verdict.decided,
                )
            case _:
                return await self._ask(batch, call, arguments, verdict)

    def _tell_denied(self, call: CalledTool, verdict: Verdict) -> None:
        self._state.outlet.system(
            "permission_denied",
            tool_name=call.name,
            tool_use_id=call.id,
            **verdict.denied_fields(),
        )

    async def _ask(
        self, batch: CallBatch, call: CalledTool, arguments: dict[str, Any], verdict: Verdict
    ) -> Permit:
        self._activity.require_action()
        asking: asyncio.Task[Any] | None = None
        try:
            asking = self._state.outlet.begin_asking(
                "can_use_tool",
                tool_name=call.name,
                **self._mcp.ask_fields(call.name),
                display_name=self._mcp.display_name(call.name) or verdict.display_name,
                input=self._toolbox.asked(call.name, arguments),
                **verdict.ask_fields(),
                tool_use_id=call.id,
                **batch.agent_fields,
            )
            answer = await self._hooks.race_permission(batch, call, arguments, verdict, asking)
            return self._settle(batch, call, arguments, answer)
        except ClientRefused as error:
            raise _failed(f"Error: {error}") from None
        except ClientGone:
            raise _failed(
                "AbortError: Tool permission stream closed before response received"
            ) from None
        except asyncio.CancelledError:
            batch.note_denial(call)
            raise
        finally:
            if asking is not None:
                asking.cancel()
            self._activity.end_action()

    def _answered(
        self, call: CalledTool, arguments: dict[str, Any], given: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            return self._toolbox.answered(call.name, arguments, given)
        except ToolFailure as failure:
            decision = {"decision": "reject", "source": "permission_updated_input_invalid"}
            raise CallRefusal(
                failure.text,
                {"permission_decision": decision},
                result=failure.result,
                is_denial=False,
            ) from None

    def _settle(
        self, batch: CallBatch, call: CalledTool, arguments: dict[str, Any], answer: Any
    ) -> Permit:
        if isinstance(answer, Permit):
            return answer
        if answer.get("behavior") == "allow":
            updates: list[dict[str, Any]] = answer.get("updatedPermissions") or []
            for update in updates:
                self._state.update_permissions(update)
            given = answer.get("updatedInput")
            if given:
                arguments = self._answered(call, arguments, given)
            return Permit(arguments, {"decision": "accept", "source": "user_temporary"})
        if answer.get("behavior") != "deny" or not isinstance(answer.get("message"), str):
            raise CallRefusal(INVALID, _NO_ANSWER)
        by_hook = {"source": "hook", "reason_type": "hook"}
        decider = by_hook if answer.get("by") == "hook" else {"source": "user_reject"}
        meta = {
            "non_execution_kind": "permission-rule",
            "permission_decision": {"decision": "reject", **decider},
        }
        if answer.get("interrupt"):
            batch.note_denial(call)
            raise Interrupting
        raise CallRefusal(answer.get("message") or "", meta)


def _failed(reason: str) -> CallRefusal:
    return CallRefusal(f"Tool permission request failed: {reason}", _NO_ANSWER)
