"""One conversation with the model: ask it, run the tools it calls, ask again, until it is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.api_errors import Caller
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.endings import Aborted, Ending
from pilothouse_sim.simulator.launching import system_prompt
from pilothouse_sim.simulator.permitting import Interrupting
from pilothouse_sim.simulator.prompts import as_sent, words_of
from pilothouse_sim.simulator.tool_use import ToolUses
from pilothouse_sim.simulator.unfinished import Patience

if TYPE_CHECKING:
    from pilothouse_sim.simulator.background import Progress
    from pilothouse_sim.simulator.prompts import Prompt
    from pilothouse_sim.simulator.session import Session
    from pilothouse_sim.simulator.speaker import Spoken
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Talk"]


STOP_HOOK_ERROR: Final = {
    "key": "stop-hook-error",
    "text": "Stop hook error occurred · ctrl+o to see",
    "priority": "immediate",
}

LONG = 100_000
"""Tokens below which no conversation needs to be compacted."""


class Talk:
    """The session's own conversation, or a sub-agent's, which `labels` tell apart on the wire."""

    def __init__(self, session: Session, labels: dict[str, Any], *, is_main: bool) -> None:
        self.session = session
        self.labels = labels
        self.is_main = is_main
        self.partial = is_main and session.launch.include_partial_messages
        self.messages: list[dict[str, Any]] = []
        self.system = system_prompt(session.launch) if is_main else ""
        self.tokens = 0
        """The size of the conversation, by the last reply's account."""
        self.dropped = 0
        """Tokens that compactions have saved."""
        self.progress: Progress | None = None
        """Whom a sub-agent's conversation tells of its tools."""
        self._to_echo: list[Prompt] = []

    # Hearing

    def hear(self, prompt: Prompt) -> None:
        """Takes a prompt into the conversation; it is echoed when the model begins to answer."""
        self.add("user", prompt.told)
        self._to_echo.append(prompt)

    def add(self, role: str, content: Any) -> None:
        """Adds to what the model will be told."""
        self.messages.append({"role": role, "content": content})

    def forget(self) -> None:
        """Begins again with nothing said."""
        self.messages = []
        self.tokens = self.dropped = 0

    def first_words(self) -> str:
        """The words of the first prompt."""
        return next((words_of(each["content"]) for each in self.messages), "")

    def echo_prompts(self) -> None:
        """Repeats the prompts of the turn to clients that asked for it."""
        prompts, self._to_echo = self._to_echo, []
        for prompt in prompts:
            self.echo(prompt)

    def echo(self, prompt: Prompt, *, timed: bool = True) -> None:
        """Repeats one prompt to clients that asked for it."""
        if self.session.launch.replay_user_messages:
            self.session.outlet.send(
                "user",
                message={"role": "user", "content": prompt.content},
                parent_tool_use_id=None,
                uuid=prompt.own_id,
                **({"timestamp": timestamp()} if timed else {}),
                isReplay=True,
            )

    # The loop

    async def converse(self, tally: Tally) -> Ending:
        """Goes on until the model has nothing more to do, or something ends the turn."""
        calls_made = 0
        patience = Patience(self, tally)
        while True:
            if self._is_over_budget():
                return self._end_broke()
            await self._make_room(tally)
            spoken = await self._ask_model(tally)
            calls_made += 1
            if isinstance(spoken, Ending):
                await self._tell_failure(tally, spoken)
                return spoken
            if self._is_over_budget():
                await self.uses.abandon()
                return self._end_broke()
            if any(block["type"] == "tool_use" for block in spoken.blocks):
                ending = await self._use_tools(tally)
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
        if self.is_main and self.tokens > LONG:
            # Few conversations grow that long.
            from pilothouse_sim.simulator import compaction

            await compaction.by_itself(self.session, tally)

    async def _ask_model(self, tally: Tally) -> Spoken | Ending:
        self.uses = ToolUses(self, tally)
        try:
            spoken = await Caller(self, tally).call()
        except Aborted:
            await self.uses.abandon()
            raise
        if isinstance(spoken, Ending):
            return spoken
        self.session.transcript.complete(self, spoken)
        self.tokens = sum(value for value in spoken.usage.values() if isinstance(value, int))
        self.add("assistant", spoken.blocks)
        if tally.refusals > 1:
            return spoken
        tally.stop_reason = spoken.stop_reason
        texts = [block["text"] for block in spoken.blocks if block["type"] == "text"]
        if texts:
            tally.last_text = texts[-1]
        return spoken

    async def _use_tools(self, tally: Tally) -> Ending | None:
        uses = self.uses
        try:
            ending = await uses.finish()
        except (asyncio.CancelledError, Interrupting):
            await uses.stop()
            uses.reject_rest()
            self.say_interrupted("[Request interrupted by user for tool use]")
            tally.user_lines += 1
            raise Aborted("aborted_tools") from None
        self.add("user", uses.blocks)
        for reminder in uses.reminders:
            self.add("system", reminder)
        if ending is None and self.is_main:
            await self.session.turns.fold(tally)
        return ending

    async def _stop(self, tally: Tally) -> Ending | None:
        enforced = self.session.structure.enforce(self, tally)
        verdict = await self.session.hooks.stop(self, tally)
        if isinstance(verdict, Ending):
            return verdict
        if verdict is not None:
            self.note(verdict, tally)
            self.session.outlet.system("notification", **STOP_HOOK_ERROR)
        return None if enforced or verdict is not None else Ending()

    async def _tell_failure(self, tally: Tally, ending: Ending) -> None:
        if ending.reason == "api_error":
            await self.session.hooks.stop_failed(self, ending.error, tally.last_text)

    def note(self, words: str, tally: Tally, **extra: Any) -> None:
        """Tells the model something in the user's place, and the client that it was told."""
        block = {"type": "text", "text": words}
        self.add("user", [block])
        tally.user_lines += 1
        self.echo_prompts()
        self.write_user([block], isSynthetic=True, **extra)

    def _is_over_budget(self) -> bool:
        return self.is_main and self.session.is_over_budget()

    def _end_broke(self) -> Ending:
        return Ending(
            reason="budget_exhausted",
            subtype="error_max_budget_usd",
            is_error=True,
            errors=[f"Reached maximum budget (${self.session.launch.max_budget_usd:g})"],
        )

    def _limit_reached(self, tally: Tally, calls_made: int) -> Ending | None:
        launch = self.session.launch
        if not self.is_main:
            return None
        if launch.max_turns and calls_made >= launch.max_turns:
            return Ending(
                reason="max_turns",
                subtype="error_max_turns",
                is_error=True,
                errors=[f"Reached maximum number of turns ({launch.max_turns})"],
            )
        return None

    # What a request to the model holds

    def body(self) -> dict[str, Any]:
        """The request as the Messages API would get it, as far as scenarios look at it."""
        return {
            "model": self.session.request_model(),
            "system": self.system,
            "messages": as_sent(self.messages),
            "tools": [{"name": name} for name in self.session.toolbox.names()],
            "max_tokens": 32000,
            "stream": True,
        }

    # Lines

    def amend_call(self, block: dict[str, Any]) -> None:
        """Gives a call the input that the CLI shows instead of the model's."""
        block["input"] = self.session.toolbox.shown(block["name"], block["input"])

    def write_assistant(self, message: dict[str, Any], tally: Tally, **extra: Any) -> None:
        """Writes a line of the model's."""
        own = self.session.outlet.send(
            "assistant",
            message=message,
            **self.labels,
            timestamp=timestamp(),
            **extra,
            **self.session.mcp.call_meta(message["content"]),
            **(tally.announce() if self.is_main else {}),
        )
        self.session.transcript.assistant(self, message, own, extra)
        for block in message["content"]:
            if self.progress is not None and block["type"] == "tool_use":
                self.progress.called(block["name"], block["input"])

    def write_user(self, content: Any, **extra: Any) -> None:
        """Writes a line of the user's side: a tool's result, or a note of the CLI's."""
        message = {"role": "user", "content": content}
        own = self.session.outlet.send(
            "user", message=message, **self.labels, timestamp=timestamp(), **extra
        )
        self.session.transcript.user(self, message, own, extra)

    def say_interrupted(self, words: str) -> None:
        """Writes the note that the user stepped in."""
        block = {"type": "text", "text": words}
        self.add("user", [block])
        self.write_user([block])
