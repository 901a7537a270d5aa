"""The places where hooks are called, and what their answers do there.

Commands of settings are called for the same events as callbacks. What a hook tells the model
stands in the conversation as a system message; what it tells the user is an `informational` line.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.endings import Ending
from pilothouse_sim.simulator.hooks.callers import call as call_hook
from pilothouse_sim.simulator.hooks.outputs import Fired
from pilothouse_sim.simulator.hooks.table import HookTable
from pilothouse_sim.simulator.hooks.verdicts import (
    Hooked,
    Submitted,
    contexts,
    listed,
    replaced,
    spoken,
    submitted,
    successes,
)
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.settings import Settings
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.permissions import Verdict
    from pilothouse_sim.simulator.permitting import Permit
    from pilothouse_sim.simulator.prompts import Prompt
    from pilothouse_sim.simulator.session import Session
    from pilothouse_sim.simulator.talk import Talk
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_use import Call, ToolUses

__all__ = ["Hooks"]

HOOK_DECISION: Final = {"source": "hook", "reason_type": "hook"}
REJECTED: Final = {
    "non_execution_kind": "permission-rule",
    "permission_decision": {"decision": "reject", **HOOK_DECISION},
}
TIMED_OUT: Final = (
    "PreToolUse hook did not respond before its timeout (host client may be unreachable). The tool"
    " call was not executed; other configured hooks may not have completed."
)
_BEGINNINGS: Final = ("startup", "resume", "clear")
"""Where a session can come from before there was a prompt."""
LAST_WORDS: Final = 10.0
"""Seconds that the hooks of a session's end may take together."""
STOPPED: Final = Ending(reason="hook_stopped")
_MODELESS: Final = frozenset(
    {"MessageDisplay", "StopFailure", "Elicitation", "ElicitationResult", "Notification"}
    | {"SessionStart", "SessionEnd", "PreCompact", "PostCompact", "SubagentStart"}
    | {"PreModelSwitch", "PostModelSwitch"}
)
"""Events whose hooks are not told the permission mode."""
_EFFORT: Final = frozenset(
    {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest"}
    | {"Stop", "StopFailure", "SubagentStop"}
)
"""Events whose hooks are told how hard the model thinks."""


class Hooks:
    """The session's hooks."""

    def __init__(self, session: Session) -> None:
        launch = session.launch
        settings = Settings(
            session.cwd, session.config_dir, launch.settings, launch.setting_sources
        )
        self._session = session
        self._table = HookTable({} if launch.bare else settings.effective().get("hooks") or {})
        self._late: set[asyncio.Task[Any]] = set()
        self._turn_id = new_id()

    def register(self, hooks: dict[str, Any]) -> None:
        """Calls these callbacks from now on, instead of those registered before."""
        self._table.register(hooks)

    async def fire(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        query: str | None = None,
        own: str | None = None,
        talk: Talk | None = None,
    ) -> Fired:
        """Calls all hooks of an event at once and waits for them.

        `fields` is what they are told besides what all are told, `query` what matchers see, and
        `own` the id of the call that it is about.
        """
        hooks = self._table.find(event, query)
        if not hooks:
            return Fired([])
        told = self._told(event, talk, is_first=fields.get("source") in _BEGINNINGS) | fields
        name = f"{event}:{query}" if query else event
        own = own or new_id()
        calls = [call_hook(self._session, hook, told, own, name) for hook in hooks]
        fired = Fired(await asyncio.gather(*calls))
        if event != "UserPromptSubmit":
            self.show(fired.failures)
        return fired

    def _told(self, event: str, talk: Talk | None, *, is_first: bool) -> dict[str, Any]:
        session = self._session
        told: dict[str, Any] = {
            "session_id": session.session_id,
            "transcript_path": str(session.transcript.path),
            "cwd": str(session.cwd),
        }
        if not is_first:
            told["prompt_id"] = session.prompt_id
        if event not in _MODELESS:
            told["permission_mode"] = session.permissions.mode
        if talk is not None and not talk.is_main:
            told["agent_id"] = talk.labels["agent_id"]
            told["agent_type"] = talk.labels.get("subagent_type")
        if event in _EFFORT and facts.model(session.model_name).takes_effort:
            told["effort"] = {"level": session.launch.effort or "medium"}
        return told | {"hook_event_name": event}

    def tell(self, name: str, fired: Fired) -> None:
        """Tells the user what the hooks have to say."""
        self.show(spoken(name, fired))

    def show(self, lines: list[dict[str, Any]]) -> None:
        """Writes `informational` lines."""
        for line in lines:
            self._session.outlet.system("informational", **line)

    # Sessions and prompts

    async def session_started(self, source: str) -> list[str]:
        """SessionStart; what the model is to know from the beginning."""
        fired = await self.fire("SessionStart", {"source": source}, query=source)
        name = f"SessionStart:{source}"
        return [*contexts(name, fired), *successes(name, fired)]

    async def session_ended(self, reason: str) -> None:
        """SessionEnd; commands that take their time are left alone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self.fire("SessionEnd", {"reason": reason}, query=reason)

    async def prompt_submitted(self, prompt: Prompt) -> Submitted:
        """UserPromptSubmit, before a turn."""
        self._turn_id = new_id()
        fired = await self.fire("UserPromptSubmit", {"prompt": prompt.text})
        return submitted(prompt.text, fired)

    async def model_switches(self, to: str, given: str | None) -> None:
        """PreModelSwitch now, and PostModelSwitch once the request is answered."""
        session = self._session
        tokens = session.turns.main.tokens
        write = facts.model(to).price[2]
        told = {
            "from_model": session.model_name,
            "to_model": to,
            "requested_model": given or to,
            "source": "sdk",
            "context_tokens": tokens,
            "prompt_cache_warm": tokens > 0,
            "cache_ttl": "5m",
            "estimated_cache_write_usd": round(tokens * write / 1_000_000, 4),
            "pricing": "catalog",
        }
        await self.fire("PreModelSwitch", told)
        self._keep(asyncio.create_task(self.fire("PostModelSwitch", told)))

    async def shown(self, words: str) -> None:
        """MessageDisplay, before a text of the model's is written as a line."""
        own = new_id()
        told = {
            "turn_id": self._turn_id,
            "message_id": own,
            "index": 0,
            "final": True,
            "delta": words,
        }
        await self.fire("MessageDisplay", told, own=f"{own}-0")

    # Tools

    async def before_tool(self, uses: ToolUses, call: Call) -> Hooked:
        """PreToolUse. Raises `Refusal` when a hook denies, `Deferred` when one puts it off."""
        from pilothouse_sim.simulator.permitting import Deferred, Refusal

        fired = await self._fire_about("PreToolUse", uses, call, self._about(call, call.input))
        if fired.timeout is not None:
            raise ToolFailure(TIMED_OUT)
        name = f"PreToolUse:{call.name}"
        uses.remark(call, before=spoken(name, fired))
        uses.reminders += contexts(name, fired)
        uses.is_stopped |= fired.stop is not None
        ruling = fired.ruling
        if ruling is not None and ruling.behavior == "deny":
            raise Refusal(f"{name} hook error: {ruling.reason or 'Blocked by hook'}", REJECTED)
        if ruling is not None and ruling.behavior == "defer":
            raise Deferred
        return Hooked(ruling=ruling, input=fired.last("updatedInput"))

    async def race_permission(
        self,
        uses: ToolUses,
        call: Call,
        arguments: dict[str, Any],
        verdict: Verdict,
        asking: asyncio.Future[Any],
    ) -> Any:
        """PermissionRequest, beside the question to the client: the first answer wins."""
        if not self._table.find("PermissionRequest", call.name):
            return await asking
        deciding = asyncio.ensure_future(self.decide(uses, call, arguments, verdict))
        self._keep(deciding)
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
        self, uses: ToolUses, call: Call, arguments: dict[str, Any], verdict: Verdict
    ) -> Permit | dict[str, Any] | None:
        """PermissionRequest: a permit, the client's answer in its stead, or nothing."""
        from pilothouse_sim.simulator.permitting import Permit

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
        fired = await self._fire_about("PermissionRequest", uses, call, fields)
        decision: dict[str, Any] = fired.last("decision") or {}
        if decision.get("behavior") == "allow":
            updates: list[dict[str, Any]] = decision.get("updatedPermissions") or []
            for update in updates:
                self._session.update_permissions(update)
            given = decision.get("updatedInput") or arguments
            return Permit(given, {"decision": "accept", **HOOK_DECISION})
        if decision.get("behavior") == "deny":
            words = decision.get("message") or "Permission denied by PermissionRequest hook"
            interrupt = bool(decision.get("interrupt"))
            return {"behavior": "deny", "message": words, "interrupt": interrupt, "by": "hook"}
        return None

    async def after_tool(
        self,
        uses: ToolUses,
        call: Call,
        arguments: dict[str, Any],
        outcome: ToolOutcome,
        spent_ms: int,
    ) -> ToolOutcome:
        """PostToolUse; the outcome, or what a hook puts in its place."""
        told = {
            "tool_name": call.name,
            "tool_input": arguments,
            "tool_response": outcome.result,
            **self._about(call, arguments),
            "duration_ms": spent_ms,
        }
        fired = await self._fire_about("PostToolUse", uses, call, told)
        self._conclude(uses, call, f"PostToolUse:{call.name}", fired)
        return replaced(call.name, outcome, fired)

    async def after_failure(
        self,
        uses: ToolUses,
        call: Call,
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
        fired = await self._fire_about("PostToolUseFailure", uses, call, told)
        self._conclude(uses, call, f"PostToolUseFailure:{call.name}", fired)

    def _conclude(self, uses: ToolUses, call: Call, name: str, fired: Fired) -> None:
        uses.remark(call, after=spoken(name, fired))
        uses.reminders += contexts(name, fired)
        uses.reminders += [
            f'{name} hook blocking error from command: "{source}": {reason}'
            for source, reason in fired.blocks
        ]
        uses.is_stopped |= fired.stop is not None

    async def after_batch(self, uses: ToolUses, calls: list[Call]) -> Ending | None:
        """PostToolBatch; how the turn ends, if a hook wants no more."""
        contents = {block["tool_use_id"]: block["content"] for block in uses.blocks}
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
        fired = await self.fire("PostToolBatch", {"tool_calls": told}, own=own, talk=uses.talk)
        self.tell("PostToolBatch", fired)
        uses.reminders += contexts("PostToolBatch", fired)
        return STOPPED if fired.blocks or fired.stop is not None else None

    async def _fire_about(
        self, event: str, uses: ToolUses, call: Call, fields: dict[str, Any]
    ) -> Fired:
        return await self.fire(event, fields, query=call.name, own=call.id, talk=uses.talk)

    def _about(self, call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
        server = self._session.mcp.origin(call.name)
        return {
            "tool_name": call.name,
            "tool_input": arguments,
            "tool_use_id": call.id,
            **({"mcp_server": server} if server else {}),
        }

    # The end of a turn

    async def stop(self, talk: Talk, tally: Tally) -> Ending | str | None:
        """Stop, or SubagentStop: how the turn ends, or what sends the model back to work."""
        event = "Stop" if talk.is_main else "SubagentStop"
        told: dict[str, Any] = {
            "stop_hook_active": tally.is_sent_back,
            "last_assistant_message": tally.last_text,
            "background_tasks": [listed(task) for task in self._session.tasks.running()],
            "session_crons": [],
        }
        if not talk.is_main:
            told["agent_transcript_path"] = self._agent_transcript(talk)
        kind = None if talk.is_main else talk.labels.get("subagent_type")
        fired = await self.fire(event, told, query=kind, talk=talk)
        if fired.blocks:
            tally.is_sent_back = True
            self.tell(event, fired)
            return "\n".join(f"{event} hook feedback:\n{reason}" for _, reason in fired.blocks)
        self.tell(event, fired)
        return None if fired.stop is None else Ending(reason="stop_hook_prevented")

    def _agent_transcript(self, talk: Talk) -> str:
        session = self._session
        folder = facts.project_folder(session.config_dir, session.original_cwd)
        own = talk.labels["agent_id"]
        return f"{folder}/{session.session_id}/subagents/agent-{own}.jsonl"

    async def agent_started(self, talk: Talk) -> None:
        """SubagentStart."""
        fired = await self.fire(
            "SubagentStart", {}, query=talk.labels.get("subagent_type"), talk=talk
        )
        for context in contexts("SubagentStart", fired):
            talk.add("system", context)

    async def stop_failed(self, talk: Talk, error: str, words: str) -> None:
        """StopFailure: the turn ends because the API failed."""
        told = {"error": error, "last_assistant_message": words}
        await self.fire("StopFailure", told, query=error, talk=talk)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def aclose(self) -> None:
        """Waits no longer for hooks whose answer came too late to matter."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
