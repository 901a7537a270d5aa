"""May this call run? The hooks are asked, then the rules, then the client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.endings import Ending
from pilothouse_sim.simulator.outlet import ClientGone, ClientRefused
from pilothouse_sim.simulator.permissions import Verdict, judge
from pilothouse_sim.simulator.tools.base import ToolFailure

if TYPE_CHECKING:
    from pilothouse_sim.simulator.tool_use import Call, ToolUses

__all__ = ["Deferred", "Interrupting", "Permit", "Refusal", "permit"]


INVALID = (
    "The canUseTool callback returned an invalid permission result. Expected {behavior: 'allow', "
    "updatedInput?: object} or {behavior: 'deny', message: string}. updatedPermissions may hold "
    "at most 4096 updates, rules and directories in all."
)
_NO_ANSWER = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", "source": "config", "reason_type": "other"},
}


class Permit:
    """The call may run with this input; `decision` says who allowed it."""

    def __init__(self, input: dict[str, Any], decision: dict[str, Any]) -> None:
        self.input = input
        self.decision = decision


class Interrupting(Exception):
    """The answer to a question ends the turn as an interrupt does."""


class Deferred(Exception):
    """A hook puts the call off: the turn ends, and somebody else carries it out."""


class Refusal(Exception):
    """The call may not run; the text is what the model reads."""

    def __init__(
        self,
        text: str,
        meta: dict[str, Any],
        *,
        result: Any = None,
        is_denial: bool = True,
        ending: Ending | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.result: Any = f"Error: {text}" if result is None else result
        self.meta = meta
        self.is_denial = is_denial
        self.ending = ending


async def permit(uses: ToolUses, call: Call, arguments: dict[str, Any]) -> Permit:
    """Decides on one call; raises `Refusal`."""
    session = uses.session
    hooked = await session.hooks.before_tool(uses, call)
    arguments = hooked.input or arguments
    if hooked.allows:
        return Permit(arguments, {"decision": "accept", "source": "hook", "reason_type": "hook"})
    verdict = judge(call.name, arguments, session.permissions)
    if hooked.asks and verdict.behavior != "deny":
        verdict = hooked.as_question(verdict, arguments)
    match verdict.behavior:
        case "allow":
            return Permit(arguments, verdict.meta().get("permission_decision", {}))
        case "deny":
            if verdict.kind == "user-rejected":
                # Nobody can be asked, but a hook may stand in.
                decided = await session.hooks.decide(uses, call, arguments, verdict)
                if decided is not None:
                    return _settle(uses, call, arguments, decided)
            if verdict.reason_type == "classifier":
                session.warn_unchecked()
            if verdict.announced:
                _tell_denied(uses, call, verdict)
            raise Refusal(
                verdict.message,
                verdict.meta(),
                result=verdict.tool_use_result,
                is_denial=verdict.decided,
            )
        case _:
            return await _ask(uses, call, arguments, verdict)


def _tell_denied(uses: ToolUses, call: Call, verdict: Verdict) -> None:
    uses.session.outlet.system(
        "permission_denied",
        tool_name=call.name,
        tool_use_id=call.id,
        **verdict.denied_fields(),
    )


async def _ask(uses: ToolUses, call: Call, arguments: dict[str, Any], verdict: Verdict) -> Permit:
    session = uses.session
    session.turns.requires_action()
    uses.question_opened()
    asking: asyncio.Task[Any] | None = None
    try:
        asking = session.outlet.begin_asking(
            "can_use_tool",
            tool_name=call.name,
            **session.mcp.ask_fields(call.name),
            display_name=session.mcp.display_name(call.name) or verdict.display_name,
            input=session.toolbox.asked(call.name, arguments),
            **verdict.ask_fields(),
            tool_use_id=call.id,
            **uses.agent_fields,
        )
        answer = await session.hooks.race_permission(uses, call, arguments, verdict, asking)
        return _settle(uses, call, arguments, answer)
    except ClientRefused as error:
        raise _failed(f"Error: {error}") from None
    except ClientGone:
        raise _failed(
            "AbortError: Tool permission stream closed before response received"
        ) from None
    except asyncio.CancelledError:
        uses.count_denial(call)
        raise
    finally:
        if asking is not None:
            asking.cancel()
        uses.question_closed()
        session.turns.action_taken()


def _answered(
    uses: ToolUses, call: Call, arguments: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    try:
        return uses.session.toolbox.answered(call.name, arguments, given)
    except ToolFailure as failure:
        decision = {"decision": "reject", "source": "permission_updated_input_invalid"}
        raise Refusal(
            failure.text,
            {"permission_decision": decision},
            result=failure.result,
            is_denial=False,
        ) from None


def _failed(reason: str) -> Refusal:
    return Refusal(f"Tool permission request failed: {reason}", _NO_ANSWER)


def _settle(uses: ToolUses, call: Call, arguments: dict[str, Any], answer: Any) -> Permit:
    if isinstance(answer, Permit):
        return answer
    if answer.get("behavior") == "allow":
        updates: list[dict[str, Any]] = answer.get("updatedPermissions") or []
        for update in updates:
            uses.session.update_permissions(update)
        given = answer.get("updatedInput")
        if given:
            arguments = _answered(uses, call, arguments, given)
        return Permit(arguments, {"decision": "accept", "source": "user_temporary"})
    if answer.get("behavior") != "deny" or not isinstance(answer.get("message"), str):
        raise Refusal(INVALID, _NO_ANSWER)
    by_hook = {"source": "hook", "reason_type": "hook"}
    decider = by_hook if answer.get("by") == "hook" else {"source": "user_reject"}
    meta = {
        "non_execution_kind": "permission-rule",
        "permission_decision": {"decision": "reject", **decider},
    }
    if answer.get("interrupt"):
        uses.note_denial(call)
        raise Interrupting
    raise Refusal(answer.get("message") or "", meta)
