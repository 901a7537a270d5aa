"""Calls the model, tries again what the API refuses for now, and tells what it refuses."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from pilothouse_sim.simulator import refusals
from pilothouse_sim.simulator.model import ApiFailed, StreamBroken
from pilothouse_sim.simulator.reply_writer import ReplyWriter, SpokenReply
from pilothouse_sim.simulator.synthetic import say_failure, synthetic
from pilothouse_sim.simulator.tally import Aborted, TurnEnding

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pilothouse_sim.scenario import ApiError
    from pilothouse_sim.simulator.compaction import Compaction
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.model_requests import ModelRequests
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_use import ToolParts, ToolUses

__all__ = ["ModelCaller"]

MAX_RETRIES = 10
BASE_DELAY = 0.5
MAX_DELAY = 32.0

_VARIANTS: Final = 3
"""Requests that a refusal for their form costs."""
_REQUEST_ID: Final = "req_scripted"


class ModelCaller:
    """One call of the model, with its retries; `compaction` makes room in a long conversation."""

    def __init__(
        self,
        state: SessionState,
        requests: ModelRequests,
        parts: ToolParts,
        conversation: ModelConversation,
        tally: Tally,
        uses: ToolUses,
        compaction: Compaction | None,
    ) -> None:
        self._state = state
        self._requests = requests
        self._parts = parts
        self._conversation = conversation
        self._tally = tally
        self._uses = uses
        self._compaction = compaction
        self._writer = self._new_writer()
        self._attempts = 0
        self._variants = 0
        self._model = conversation.model

    def _new_writer(self) -> ReplyWriter:
        return ReplyWriter(self._state, self._parts, self._conversation, self._tally, self._uses)

    async def call(self) -> SpokenReply | TurnEnding:
        """What the model said, or how the turn ends because it said nothing."""
        self._announce()
        try:
            return await self._try_and_try()
        except asyncio.CancelledError:
            self._conversation.echo_prompts()
            self._writer.break_off()
            self._tally.user_lines += 1
            raise Aborted("aborted_streaming") from None

    async def _try_and_try(self) -> SpokenReply | TurnEnding:
        while True:
            writer = self._writer = self._new_writer()
            try:
                return await self._timed(self._attempt(writer))
            except ApiFailed as failure:
                if not await self._may_repeat(failure.error):
                    return self._give_up(failure.error)
            except StreamBroken as broken:
                writer.abandon()
                self._writer = self._new_writer()
                if any(block["type"] != "thinking" for block in writer.spoken.blocks):
                    return self._keep_begun(writer.spoken)
                if broken.is_damaged or self._attempts >= self._max_retries:
                    return await self._ask_whole(writer.spoken, counts=not broken.is_damaged)
                self._count(writer.spoken)
                await self._wait(None, "unknown")

    async def _timed(self, waiting: Awaitable[SpokenReply]) -> SpokenReply:
        began = time.monotonic()
        try:
            return await waiting
        finally:
            self._state.ledger.api_ms += int((time.monotonic() - began) * 1000)

    async def _attempt(self, writer: ReplyWriter) -> SpokenReply:
        events = self._requests.stream(self._requests.body(self._conversation))
        spoken = await writer.pass_on(events)
        self._count(spoken)
        return spoken

    # What went wrong on the way

    async def _may_repeat(self, error: ApiError) -> bool:
        """Whether the call is worth repeating; returns when it is time to."""
        if refusals.is_too_large(error):
            return await self._make_room(error)
        if refusals.is_worth_variants(error):
            # The CLI leaves parts of the request out, one after the other, and says nothing of it.
            self._variants += 1
            return self._variants < self._all_variants
        if not refusals.is_passing(error) or self._attempts >= self._max_retries:
            return False
        after = error.headers.get("retry-after", "")
        delay = float(after) if after.isdecimal() else None
        await self._wait(error.status, refusals.class_of(error.status), delay)
        return True

    @property
    def _all_variants(self) -> int:
        """How many requests a refusal for their form costs: more if tools were held back."""
        environment = self._state.environment
        return _VARIANTS if environment.get("ENABLE_TOOL_SEARCH") == "false" else 2 * _VARIANTS

    async def _make_room(self, error: ApiError) -> bool:
        if self._tally.has_made_room or self._compaction is None:
            return False
        self._tally.has_made_room = await self._compaction.after_refusal(
            self._tally, needed=3 if error.status == 413 else 2
        )
        return self._tally.has_made_room

    def _keep_begun(self, spoken: SpokenReply) -> SpokenReply:
        """What was finished before the stream broke counts as a reply."""
        spoken.is_cut = True
        self._count(spoken)
        return spoken

    async def _ask_whole(self, begun: SpokenReply, *, counts: bool) -> SpokenReply | TurnEnding:
        """Ask for the reply in one piece, because its stream does not come through."""
        if counts:
            self._count(begun)
        else:
            self._note_usage(begun)
        try:
            message = await self._requests.whole(self._requests.body(self._conversation))
        except ApiFailed as failure:
            return self._give_up(failure.error)
        spoken = await self._writer.pass_on_whole(message)
        self._count(spoken)
        return spoken

    def _announce(self) -> None:
        if self._conversation.partial:
            uuids = self._tally.uuids
            names = {"user_message_uuids": list(uuids)} if uuids else {}
            self._state.outlet.system("status", status="requesting", **names)

    def _count(self, spoken: SpokenReply) -> None:
        if not spoken.usage:
            return
        self._state.ledger.add(self._model, spoken.usage)
        if not self._state.is_over_budget():
            # The CLI ends the turn before it adds up what the last reply cost.
            self._note_usage(spoken)

    def _note_usage(self, spoken: SpokenReply) -> None:
        self._tally.spent.add(spoken.usage)
        self._tally.last_usage = spoken.usage
        if self._tally.first_usage is None:
            self._tally.first_usage = spoken.usage

    @property
    def _max_retries(self) -> int:
        return int(self._state.environment.get("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES))

    async def _wait(self, status: int | None, kind: str, delay: float | None = None) -> None:
        self._attempts += 1
        if delay is None:
            import random  # few calls are retried, and every start would pay for it

            growing = BASE_DELAY * float(2 ** (self._attempts - 1))
            delay = min(growing, MAX_DELAY) * random.uniform(1, 1.25)
        self._state.outlet.system(
            "api_retry",
            attempt=self._attempts,
            max_retries=self._max_retries,
            retry_delay_ms=int(delay * 1000),
            error_status=status,
            error=kind,
        )
        await asyncio.sleep(delay)

    def _give_up(self, error: ApiError) -> TurnEnding:
        refusal = refusals.read(
            error,
            model=self._state.model_name,
            base_url=self._state.environment.get("ANTHROPIC_BASE_URL", ""),
        )
        extra = {"api_error_status": error.status, "api_error_type": error.error_type}
        say_failure(
            self._conversation,
            self._tally,
            synthetic(refusal.words),
            error=refusal.error,
            request_id=_REQUEST_ID,
            **extra,
        )
        return TurnEnding(reason=refusal.reason, is_error=True, error=refusal.error, extra=extra)
