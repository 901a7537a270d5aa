"""A turn of a conversation: ask the model, run the tools it calls, ask again until it is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pilothouse_sim.simulator.api_errors import ModelCaller
from pilothouse_sim.simulator.incomplete_replies import Patience
from pilothouse_sim.simulator.tally import Aborted, TurnEnding
from pilothouse_sim.simulator.tool_calls import Interrupting
from pilothouse_sim.simulator.tool_use import ToolParts, ToolUses

if TYPE_CHECKING:
    from pilothouse_sim.simulator.compaction import Compaction
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.model_requests import ModelRequests
    from pilothouse_sim.simulator.prompt_queue import PromptQueue
    from pilothouse_sim.simulator.reply_writer import SpokenReply
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tasks import SessionTasks
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["AgentLoop"]


STOP_HOOK_ERROR: Final = {
    "key": "stop-hook-error",
    "text": "Stop hook error occurred · ctrl+o to see",
    "priority": "immediate",
}

LONG = 100_000
"""Tokens below which no conversation needs to be compacted."""


class AgentLoop:
    """Leads a conversation.

    Only the session's own can be compacted, and only a turn of it can be joined by prompts.
    """

    def __init__(
        self,
        conversation: ModelConversation,
        state: SessionState,
        transcript: TranscriptFile,
        requests: ModelRequests,
        parts: ToolParts,
        tasks: SessionTasks,
        compaction: Compaction | None = None,
        queue: PromptQueue | None = None,
    ) -> None:
        self.conversation = conversation
        self._state = state
        self._transcript = transcript
        self._requests = requests
        self._parts = parts
        self._tasks = tasks
        self._compaction = compaction
        self._queue = queue

    async def converse(self, tally: Tally) -> TurnEnding:
        """Go on until the model has nothing more to do, or something ends the turn."""
        calls_made = 0
        patience = Patience(self._state, self.conversation, tally)
        while True:
            if self._is_over_budget():
                return self._end_broke()
            await self._make_room(tally)
            uses = ToolUses(self._parts, self.conversation, tally)
            spoken = await self._ask_model(uses, tally)
            calls_made += 1
            if isinstance(spoken, TurnEnding):
                await self._tell_failure(tally, spoken)
                return spoken
            if self._is_over_budget():
                await uses.abandon()
                return self._end_broke()
            if any(block["type"] == "tool_use" for block in spoken.blocks):
                ending = await self._use_tools(uses, tally)
                patience.used_tools(spoken)
            elif patience.asks_for_more(spoken):
                continue
            elif (failure := patience.gives_up(spoken)) is not None:
                await self._tell_failure(tally, failure)
                return failure
            else:
                ending = await self._stop(tally)
            ending = ending or self._limit_reached(tally, calls_made)
            if ending is not None:
                return ending

    async def _make_room(self, tally: Tally) -> None:
        if self._compaction is not None and self.conversation.tokens > LONG:
            await self._compaction.by_itself(tally)

    async def _ask_model(self, uses: ToolUses, tally: Tally) -> SpokenReply | TurnEnding:
        caller = ModelCaller(
            self._state,
            self._requests,
            self._parts,
            self.conversation,
            tally,
            uses,
            self._compaction,
        )
        try:
            spoken = await caller.call()
        except Aborted:
            await uses.abandon()
            raise
        if isinstance(spoken, TurnEnding):
            return spoken
        self._transcript.complete(self.conversation.thread, spoken.stop_reason, spoken.usage)
        counts = [value for value in spoken.usage.values() if isinstance(value, int)]
        self.conversation.tokens = sum(counts)
        self.conversation.add("assistant", spoken.blocks)
        if tally.refusals > 1:
            return spoken
        tally.stop_reason = spoken.stop_reason
        texts = [block["text"] for block in spoken.blocks if block["type"] == "text"]
        if texts:
            tally.last_text = texts[-1]
        return spoken

    async def _use_tools(self, uses: ToolUses, tally: Tally) -> TurnEnding | None:
        try:
            ending = await uses.finish()
        except (asyncio.CancelledError, Interrupting):
            await uses.stop()
            uses.reject_rest()
            self.conversation.say_interrupted("[Request interrupted by user for tool use]")
            tally.user_lines += 1
            raise Aborted("aborted_tools") from None
        self.conversation.add("user", uses.batch.blocks)
        for reminder in uses.batch.reminders:
            self.conversation.add("system", reminder)
        if ending is None and self._queue is not None:
            await self._queue.join(self.conversation, tally)
        return ending

    async def _stop(self, tally: Tally) -> TurnEnding | None:
        enforced = self._parts.structure.enforce(self.conversation, tally)
        background = [task.hook_entry() for task in self._tasks.running()]
        verdict = await self._parts.hooks.stop(self.conversation.thread, tally, background)
        if isinstance(verdict, TurnEnding):
            return verdict
        if verdict is not None:
            self.conversation.note(verdict, tally)
            self._state.outlet.system("notification", **STOP_HOOK_ERROR)
        return None if enforced or verdict is not None else TurnEnding()

    async def _tell_failure(self, tally: Tally, ending: TurnEnding) -> None:
        if ending.reason == "api_error":
            thread = self.conversation.thread
            await self._parts.hooks.stop_failed(thread, ending.error, tally.last_text)

    def _is_over_budget(self) -> bool:
        return self.conversation.is_main and self._state.is_over_budget()

    def _end_broke(self) -> TurnEnding:
        return TurnEnding(
            reason="budget_exhausted",
            subtype="error_max_budget_usd",
            is_error=True,
            errors=[f"Reached maximum budget (${self._state.launch.max_budget_usd:g})"],
        )

    def _limit_reached(self, tally: Tally, calls_made: int) -> TurnEnding | None:
        launch = self._state.launch
        if not self.conversation.is_main:
            return None
        if launch.max_turns and calls_made >= launch.max_turns:
            return TurnEnding(
                reason="max_turns",
                subtype="error_max_turns",
                is_error=True,
                errors=[f"Reached maximum number of turns ({launch.max_turns})"],
            )
        return None
