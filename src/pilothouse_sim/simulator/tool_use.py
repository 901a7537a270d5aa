"""Carries out the tools a reply calls: may it run, run it, tell the model and the client."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from pilothouse_sim.simulator.endings import Ending
from pilothouse_sim.simulator.permitting import Deferred, Permit, Refusal, permit
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.talk import Talk
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Call", "ToolUses"]

STOCK_REJECTION = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). STOP what you are doing and wait "
    "for the user to tell you how to proceed."
)


_LOOKING_FIRST = frozenset({"Edit", "NotebookEdit", "Write"})
"""Tools that look at their file before anybody is asked: by then the reply has ended."""


class Call(Struct, frozen=True, kw_only=True):
    """A tool the model calls."""

    id: str
    name: str
    input: dict[str, Any]

    @classmethod
    def of(cls, block: dict[str, Any]) -> Call:
        """Reads a tool_use block."""
        return cls(id=block["id"], name=block["name"], input=block["input"])


class ToolUses:
    """The calls of one reply."""

    def __init__(self, talk: Talk, tally: Tally) -> None:
        self.talk = talk
        self.tally = tally
        self.session = talk.session
        self.blocks: list[dict[str, Any]] = []
        self.reminders: list[str] = []
        """What hooks have the model know besides."""
        self.is_stopped = False
        """Whether a hook wants the turn to end with these calls."""
        self._remarks: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        self._ending: Ending | None = None
        self._running: list[tuple[Call, asyncio.Task[None]]] = []
        self._reply_ended = asyncio.Event()
        self._questions = 0
        self._all_settled = asyncio.Event()
        self._all_settled.set()
        self.agent_fields = {key: talk.labels[key] for key in ("agent_id",) if key in talk.labels}

    def begin(self, block: dict[str, Any]) -> None:
        """Starts a call as soon as the model has spoken it; it waits for those it must follow."""
        call, is_concurrent = Call.of(block), self.session.toolbox.is_concurrent
        before = [
            task
            for other, task in self._running
            if not (is_concurrent(call) and is_concurrent(other))
        ]
        self._running.append((call, asyncio.create_task(self._take(call, before))))

    async def stop(self) -> None:
        """Ends the calls that run."""
        tasks = [task for _, task in self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def abandon(self) -> None:
        """Forgets the calls of a reply that does not count."""
        await self.stop()
        self._running.clear()

    async def finish(self) -> Ending | None:
        """Waits for the calls, now that the reply is complete."""
        calls = [call for call, _ in self._running]
        self._reply_ended.set()
        await asyncio.gather(*(task for _, task in self._running))
        if self._ending is not None:
            if self._ending.reason != "tool_deferred":
                self.reject_rest()
            return self._ending
        ending = self.session.structure.ending(self.tally)
        if ending is None and self.is_stopped:
            ending = Ending(reason="hook_stopped")
        if ending is None:
            ending = await self.session.hooks.after_batch(self, calls)
        if ending is not None and ending.reason == "hook_stopped":
            self.tally.last_text = ""
        return ending

    async def _take(self, call: Call, before: list[asyncio.Task[None]]) -> None:
        # The reply goes on meanwhile: a question comes a line after the call it is about.
        await asyncio.sleep(0)
        if before:
            await asyncio.wait(before)
        if call.name in _LOOKING_FIRST:
            await self._reply_ended.wait()
        if self._ending is None:
            await self._use(call)

    async def _may_tell(self, call: Call) -> None:
        """Results come after the reply, and not while a question about it is open."""
        if call.name != "StructuredOutput":
            await self._reply_ended.wait()
        await self._all_settled.wait()

    def question_opened(self) -> None:
        """Notes that the client is asked about one of the calls."""
        self._questions += 1
        self._all_settled.clear()

    def question_closed(self) -> None:
        """Notes that it is no longer asked."""
        self._questions -= 1
        if not self._questions:
            self._all_settled.set()

    def remark(
        self,
        call: Call,
        before: list[dict[str, Any]] | None = None,
        after: list[dict[str, Any]] | None = None,
    ) -> None:
        """Keeps what hooks tell the user, to be written around the call's result."""
        earlier, later = self._remarks.setdefault(call.id, ([], []))
        earlier += before or []
        later += after or []

    async def _use(self, call: Call) -> None:
        permitted: Permit | None = None
        began = time.monotonic()
        try:
            arguments = self.session.toolbox.check(call)
            permitted = await permit(self, call, arguments)
            began = time.monotonic()
            outcome = await self._run(call, permitted)
            await self._may_tell(call)
        except ToolFailure as failure:
            await self._may_tell(call)
            if permitted is None:
                self._fail(call, failure.text, failure.result, {})
                return
            spent = int((time.monotonic() - began) * 1000)
            await self.session.hooks.after_failure(self, call, permitted.input, failure, spent)
            meta = {"permission_decision": permitted.decision}
            self._fail(call, failure.text, failure.result, meta)
        except Deferred:
            self._defer(call)
        except Refusal as refusal:
            await self._may_tell(call)
            self._refuse(call, refusal)
        else:
            self._succeed(call, outcome, permitted)

    async def _run(self, call: Call, permitted: Permit) -> ToolOutcome:
        began = time.monotonic()
        outcome = await self.session.toolbox.run(self, call, permitted.input)
        spent = int((time.monotonic() - began) * 1000)
        return await self.session.hooks.after_tool(self, call, permitted.input, outcome, spent)

    def _defer(self, call: Call) -> None:
        deferred = {"id": call.id, "name": call.name, "input": call.input}
        extra = {"deferred_tool_use": deferred}
        self._ending = Ending(reason="tool_deferred", extra=extra)
        self.tally.stop_reason, self.tally.last_text = "tool_deferred", ""

    def note_denial(self, call: Call) -> None:
        """Keeps a call that was refused for the turn's result."""
        denial = {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input}
        self.tally.denials.append(denial)

    # Lines

    def _succeed(self, call: Call, outcome: ToolOutcome, permitted: Permit) -> None:
        block: dict[str, Any] = {
            "tool_use_id": call.id,
            "type": "tool_result",
            "content": outcome.content,
        }
        if outcome.is_error is not UNSET:
            block["is_error"] = outcome.is_error
        meta = {"id": call.id, "permission_decision": permitted.decision}
        self._write(block, outcome.result, meta)

    def _refuse(self, call: Call, refusal: Refusal) -> None:
        if refusal.is_denial:
            self.note_denial(call)
        self._fail(call, refusal.text, refusal.result, refusal.meta)
        if refusal.ending is not None:
            self._ending = refusal.ending

    def _fail(self, call: Call, text: str, result: Any, meta: dict[str, Any]) -> None:
        block = {
            "type": "tool_result",
            "content": text,
            "is_error": True,
            "tool_use_id": call.id,
        }
        self._write(block, result, {"id": call.id, **meta})

    def count_denial(self, call: Call) -> None:
        """Notes for the result that the call was not allowed."""
        denial = {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input}
        self.tally.denials.append(denial)

    def reject_rest(self) -> None:
        """Tells the model that the calls which have no result were not carried out."""
        done = {block["tool_use_id"] for block in self.blocks}
        for call, _ in self._running:
            if call.id not in done:
                meta = {"non_execution_kind": "user-rejected"}
                self._fail(call, STOCK_REJECTION, "User rejected tool use", meta)

    def _write(self, block: dict[str, Any], result: Any, meta: dict[str, Any]) -> None:
        self.blocks.append(block)
        self.tally.user_lines += 1
        # Of what a sub-agent's tools give, only failures are told.
        is_told = self.talk.is_main or block.get("is_error")
        extra: dict[str, Any] = {"tool_use_result": result} if is_told else {}
        before, after = self._remarks.pop(block["tool_use_id"], ([], []))
        self.session.hooks.show(before)
        if len(meta) > 1:
            extra["tool_result_meta"] = [meta]
        self.talk.write_user([block], **extra)
        self.session.hooks.show(after)
