"""The places where hooks are called, and what their answers do there.

Commands of settings are called for the same events as callbacks. What a hook tells the model
stands in the conversation as a system message; what it tells the user is an `informational` line.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.hooks.callers import call as call_hook
from pilothouse_sim.simulator.hooks.outputs import Fired
from pilothouse_sim.simulator.hooks.table import HookTable
from pilothouse_sim.simulator.hooks.verdicts import (
    Submitted,
    contexts,
    spoken,
    submitted,
    successes,
)
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.settings import CliSettings
from pilothouse_sim.simulator.tally import TurnEnding

if TYPE_CHECKING:
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.transcript import Thread, TranscriptFile

__all__ = ["SessionHooks"]

_BEGINNINGS: Final = ("startup", "resume", "clear")
"""Where a session can come from before there was a prompt."""
LAST_WORDS: Final = 10.0
"""Seconds that the hooks of a session's end may take together."""
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


class SessionHooks:
    """The session's hooks."""

    def __init__(self, state: SessionState, transcript: TranscriptFile) -> None:
        launch = state.launch
        settings = CliSettings(state.cwd, state.config_dir, launch.settings, launch.setting_sources)
        self._state = state
        self._transcript = transcript
        self._table = HookTable({} if launch.bare else settings.effective().get("hooks") or {})
        self._late: set[asyncio.Task[Any]] = set()
        self._turn_id = new_id()

    def register(self, hooks: dict[str, Any]) -> None:
        """Call these callbacks from now on, instead of those registered before."""
        self._table.register(hooks)

    async def fire(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        query: str | None = None,
        own: str | None = None,
        thread: Thread | None = None,
    ) -> Fired:
        """Call all hooks of an event at once and wait for them.

        `fields` is what they are told besides what all are told, `query` what matchers see, and
        `own` the id of the call that it is about.
        """
        hooks = self._table.find(event, query)
        if not hooks:
            return Fired([])
        told = self._told(event, thread, is_first=fields.get("source") in _BEGINNINGS) | fields
        name = f"{event}:{query}" if query else event
        own = own or new_id()
        calls = [call_hook(self._state, hook, told, own, name) for hook in hooks]
        fired = Fired(await asyncio.gather(*calls))
        if event != "UserPromptSubmit":
            self.show(fired.failures)
        return fired

    def _told(self, event: str, thread: Thread | None, *, is_first: bool) -> dict[str, Any]:
        state = self._state
        told: dict[str, Any] = {
            "session_id": state.session_id,
            "transcript_path": str(self._transcript.path),
            "cwd": str(state.cwd),
        }
        if not is_first:
            told["prompt_id"] = state.prompt_id
        if event not in _MODELESS:
            told["permission_mode"] = state.permissions.mode
        if thread is not None and not thread.is_main:
            told["agent_id"] = thread.labels["agent_id"]
            told["agent_type"] = thread.labels.get("subagent_type")
        if event in _EFFORT and facts.model(state.model_name).takes_effort:
            told["effort"] = {"level": state.launch.effort or "medium"}
        return told | {"hook_event_name": event}

    def has(self, event: str, query: str) -> bool:
        """Whether a hook is to be called for the event and what matchers see."""
        return bool(self._table.find(event, query))

    def tell(self, name: str, fired: Fired) -> None:
        """Tell the user what the hooks have to say."""
        self.show(spoken(name, fired))

    def show(self, lines: list[dict[str, Any]]) -> None:
        """Write `informational` lines."""
        for line in lines:
            self._state.outlet.system("informational", **line)

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

    async def prompt_submitted(self, prompt: ClientPrompt) -> Submitted:
        """UserPromptSubmit, before a turn."""
        self._turn_id = new_id()
        fired = await self.fire("UserPromptSubmit", {"prompt": prompt.text})
        return submitted(prompt.text, fired)

    async def model_switches(self, to: str, given: str | None, tokens: int) -> None:
        """PreModelSwitch now, and PostModelSwitch once the request is answered.

        `tokens` is the size of the conversation that another model has to read.
        """
        write = facts.model(to).price[2]
        told = {
            "from_model": self._state.model_name,
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
        self.keep(asyncio.create_task(self.fire("PostModelSwitch", told)))

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

    # The end of a turn

    async def stop(
        self, thread: Thread, tally: Tally, background: list[dict[str, Any]]
    ) -> TurnEnding | str | None:
        """Stop, or SubagentStop: how the turn ends, or what sends the model back to work.

        `background` lists the tasks that go on beside the turn.
        """
        event = "Stop" if thread.is_main else "SubagentStop"
        told: dict[str, Any] = {
            "stop_hook_active": tally.is_sent_back,
            "last_assistant_message": tally.last_text,
            "background_tasks": background,
            "session_crons": [],
        }
        if not thread.is_main:
            told["agent_transcript_path"] = self._agent_transcript(thread)
        kind = None if thread.is_main else thread.labels.get("subagent_type")
        fired = await self.fire(event, told, query=kind, thread=thread)
        if fired.blocks:
            tally.is_sent_back = True
            self.tell(event, fired)
            return "\n".join(f"{event} hook feedback:\n{reason}" for _, reason in fired.blocks)
        self.tell(event, fired)
        return None if fired.stop is None else TurnEnding(reason="stop_hook_prevented")

    def _agent_transcript(self, thread: Thread) -> str:
        state = self._state
        folder = facts.project_folder(state.config_dir, state.original_cwd)
        own = thread.labels["agent_id"]
        return f"{folder}/{state.session_id}/subagents/agent-{own}.jsonl"

    async def agent_started(self, thread: Thread) -> list[str]:
        """SubagentStart; what the agent is to know from the beginning."""
        kind = thread.labels.get("subagent_type")
        fired = await self.fire("SubagentStart", {}, query=kind, thread=thread)
        return contexts("SubagentStart", fired)

    async def stop_failed(self, thread: Thread, error: str, words: str) -> None:
        """StopFailure: the turn ends because the API failed."""
        told = {"error": error, "last_assistant_message": words}
        await self.fire("StopFailure", told, query=error, thread=thread)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Let a hook go on whose answer may come too late to matter."""
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def aclose(self) -> None:
        """Wait no longer for hooks whose answer came too late to matter."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
