"""Carries out the tools a reply calls: may it run, run it, tell the model and the client."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from pilothouse_sim.simulator.tally import TurnEnding
from pilothouse_sim.simulator.tool_calls import CallBatch, CalledTool, CallRefusal, Deferred, Permit
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome
from pilothouse_sim.simulator.tools.registry import absent

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.hooks.tools import ToolHooks
    from pilothouse_sim.simulator.structured import Structure
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_permissions import ToolPermissions
    from pilothouse_sim.simulator.toolbox import Toolbox

__all__ = ["ToolParts", "ToolUses"]

STOCK_REJECTION = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). STOP what you are doing and wait "
    "for the user to tell you how to proceed."
)


NOT_HERE = "{name} is not among the tools available here. Continue with the tools you have."

_LOOKING_FIRST = frozenset({"Edit", "NotebookEdit", "Write"})
"""Tools that look at their file before anybody is asked: by then the reply has ended."""

_AT_ONCE = frozenset({"Agent", "Task"})
"""Tools that begin before anything more of the reply is passed on."""


class ToolParts(Struct, frozen=True, kw_only=True):
    """The parts of a session that carrying out tools needs."""

    toolbox: Toolbox
    permissions: ToolPermissions
    structure: Structure
    hooks: SessionHooks
    tool_hooks: ToolHooks


class ToolUses:
    """The calls of one reply."""

    def __init__(self, parts: ToolParts, conversation: ModelConversation, tally: Tally) -> None:
        self._parts = parts
        self._conversation = conversation
        self._tally = tally
        self.batch = CallBatch(conversation.thread, tally)
        self._ending: TurnEnding | None = None
        self._running: list[tuple[CalledTool, asyncio.Task[None]]] = []
        self._reply_ended = asyncio.Event()

    def begin(self, block: dict[str, Any]) -> None:
        """Start a call as soon as the model has spoken it; it waits for those it must follow."""
        call, is_concurrent = CalledTool.of(block), self._parts.toolbox.is_concurrent
        before = [
            task
            for other, task in self._running
            if not (is_concurrent(call) and is_concurrent(other))
        ]
        self._running.append((call, asyncio.create_task(self._take(call, before))))

    async def stop(self) -> None:
        """End the calls that run."""
        tasks = [task for _, task in self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def abandon(self) -> None:
        """Forget the calls of a reply that does not count."""
        await self.stop()
        self._running.clear()

    async def finish(self) -> TurnEnding | None:
        """Wait for the calls, now that the reply is complete."""
        calls = [call for call, _ in self._running]
        self._reply_ended.set()
        await asyncio.gather(*(task for _, task in self._running))
        if self._ending is not None:
            if self._ending.reason != "tool_deferred":
                self.reject_rest()
            return self._ending
        ending = self._parts.structure.ending(self._tally)
        if ending is None and self.batch.is_stopped:
            ending = TurnEnding(reason="hook_stopped")
        if ending is None:
            ending = await self._parts.tool_hooks.after_batch(self.batch, calls)
        if ending is not None and ending.reason == "hook_stopped":
            self._tally.last_text = ""
        return ending

    async def _take(self, call: CalledTool, before: list[asyncio.Task[None]]) -> None:
        if call.name not in _AT_ONCE:
            # The reply goes on meanwhile: a question comes a line after the call it is about.
            await asyncio.sleep(0)
        if before:
            await asyncio.wait(before)
        if call.name in _LOOKING_FIRST:
            await self._reply_ended.wait()
        if self._ending is None:
            await self._use(call)

    async def _may_tell(self, call: CalledTool) -> None:
        """Results come after the reply, each as soon as it is there."""
        if call.name != "StructuredOutput":
            await self._reply_ended.wait()

    async def _use(self, call: CalledTool) -> None:
        permitted: Permit | None = None
        began = time.monotonic()
        try:
            arguments = self._check(call)
            permitted = await self._parts.permissions.permit(self.batch, call, arguments)
            began = time.monotonic()
            outcome = await self._run(call, permitted)
            await self._may_tell(call)
        except ToolFailure as failure:
            await self._may_tell(call)
            if permitted is None:
                self._fail(call, failure.text, failure.result, {})
                return
            spent = int((time.monotonic() - began) * 1000)
            await self._parts.tool_hooks.after_failure(
                self.batch, call, permitted.input, failure, spent
            )
            meta = {"permission_decision": permitted.decision}
            self._fail(call, failure.text, failure.result, meta)
        except Deferred:
            self._defer(call)
        except CallRefusal as refusal:
            await self._may_tell(call)
            self._refuse(call, refusal)
        else:
            self._succeed(call, outcome, permitted)

    def _check(self, call: CalledTool) -> dict[str, Any]:
        """The call's arguments; a sub-agent may lack tools that the session has."""
        agent = self._conversation.agent
        if agent is not None:
            if not agent.kind.may_use(call.name):
                raise absent(call.name, NOT_HERE.format(name=call.name))
            agent.progress.uses(call.name)
        return self._parts.toolbox.check(call)

    async def _run(self, call: CalledTool, permitted: Permit) -> ToolOutcome:
        began = time.monotonic()
        outcome = await self._parts.toolbox.run(self._tally, call, permitted.input)
        spent = int((time.monotonic() - began) * 1000)
        return await self._parts.tool_hooks.after_tool(
            self.batch, call, permitted.input, outcome, spent
        )

    def _defer(self, call: CalledTool) -> None:
        deferred = {"id": call.id, "name": call.name, "input": call.input}
        extra = {"deferred_tool_use": deferred}
        self._ending = TurnEnding(reason="tool_deferred", extra=extra)
        self._tally.stop_reason, self._tally.last_text = "tool_deferred", ""

    # Lines

    def _succeed(self, call: CalledTool, outcome: ToolOutcome, permitted: Permit) -> None:
        block: dict[str, Any] = {
            "tool_use_id": call.id,
            "type": "tool_result",
            "content": outcome.content,
        }
        if outcome.is_error is not UNSET:
            block["is_error"] = outcome.is_error
        meta = {"id": call.id, "permission_decision": permitted.decision}
        self._write(block, outcome.result, meta)

    def _refuse(self, call: CalledTool, refusal: CallRefusal) -> None:
        if refusal.is_denial:
            self.batch.note_denial(call)
        self._fail(call, refusal.text, refusal.result, refusal.meta)
        if refusal.ending is not None:
            self._ending = refusal.ending

    def _fail(self, call: CalledTool, text: str, result: Any, meta: dict[str, Any]) -> None:
        block = {
            "type": "tool_result",
            "content": text,
            "is_error": True,
            "tool_use_id": call.id,
        }
        self._write(block, result, {"id": call.id, **meta})

    def reject_rest(self) -> None:
        """Tell the model that the calls which have no result were not carried out."""
        done = {block["tool_use_id"] for block in self.batch.blocks}
        for call, _ in self._running:
            if call.id not in done:
                meta = {"non_execution_kind": "user-rejected"}
                self._fail(call, STOCK_REJECTION, "User rejected tool use", meta)

    def _write(self, block: dict[str, Any], result: Any, meta: dict[str, Any]) -> None:
        self.batch.blocks.append(block)
        self._tally.user_lines += 1
        # Of what a sub-agent's tools give, only failures are told.
        is_told = self._conversation.is_main or block.get("is_error")
        extra: dict[str, Any] = {"tool_use_result": result} if is_told else {}
        before, after = self.batch.take_remarks(block["tool_use_id"])
        self._parts.hooks.show(before)
        if len(meta) > 1:
            extra["tool_result_meta"] = [meta]
        self._conversation.write_user([block], **extra)
        self._parts.hooks.show(after)
