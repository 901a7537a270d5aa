"""Prompts and news that wait for their turn, and the work that is under way.

A prompt that comes while a tool runs joins the running turn after that tool's result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.invocations import is_command

if TYPE_CHECKING:
    from pilothouse_sim.simulator.activity import SessionActivity
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.outlet import Outlet
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tasks import Notice
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["CurrentWork", "PromptQueue"]


class PromptQueue:
    """The client's prompts that have not begun, and news of tasks that ended."""

    def __init__(
        self,
        state: SessionState,
        transcript: TranscriptFile,
        hooks: SessionHooks,
        activity: SessionActivity,
    ) -> None:
        self._state = state
        self._transcript = transcript
        self._hooks = hooks
        self._activity = activity
        self.prompts: deque[ClientPrompt] = deque()
        self.notices: deque[Notice] = deque()
        self.input_ended = False
        self._seen: set[str] = set()
        self._past: frozenset[str] = frozenset()
        """The prompts that an earlier process has had."""
        self._started: set[str | None] = set()
        self._wake = asyncio.Event()
        self._is_busy = False
        """Whether something was taken, and nothing that came since has found the queue empty."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.prompts or self.notices)

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits."""
        return bool(self.prompts) or self._activity.is_running

    # What comes from outside

    def receive(self, prompt: ClientPrompt) -> None:
        """Take a prompt of the client's."""
        if prompt.uuid in self._seen:
            self._repeat(prompt)
            return
        if prompt.uuid:
            self._seen.add(prompt.uuid)
        self._activity.start()
        self.tell(prompt.uuid, "queued")
        self._transcript.enqueued(prompt.text)
        if not self._is_busy:
            # A prompt that nothing stands before begins at once, before the next line is read.
            self._is_busy = True
            self.start(prompt.uuid)
        self.prompts.append(prompt)
        self._wake.set()

    def _repeat(self, prompt: ClientPrompt) -> None:
        """Take note of a prompt that was sent before; there is no turn."""
        if self._state.launch.replay_user_messages:
            self._state.outlet.send(
                "user",
                message={"role": "user", "content": prompt.content},
                parent_tool_use_id=None,
                uuid=prompt.uuid,
                isReplay=True,
            )
        if prompt.uuid in self._past:
            self.tell(prompt.uuid, "completed")
        self._activity.say_again()

    def remember(self, uuids: Iterable[str]) -> None:
        """Take no prompt again that an earlier process has had."""
        self._past = frozenset(uuids)
        self._seen.update(self._past)

    def notify(self, notice: Notice) -> None:
        """Take the news that a task ended; the model hears of it in a turn of its own."""
        self.notices.append(notice)
        self._wake.set()

    def end_input(self) -> None:
        """Note that the client writes nothing more."""
        self.input_ended = True
        self._wake.set()

    def cancel(self, uuid: str) -> bool:
        """Take a prompt back that has not begun."""
        for prompt in self.prompts:
            if prompt.uuid == uuid:
                self.prompts.remove(prompt)
                self.tell(uuid, "cancelled")
                return True
        return False

    # What is taken from it

    async def changed(self) -> None:
        """Wait until something comes, or the client writes nothing more."""
        self._wake.clear()
        await self._wake.wait()

    def next(self) -> ClientPrompt:
        """Take the prompt whose turn has come."""
        self._transcript.dequeued()
        return self.prompts.popleft()

    def next_joins(self) -> bool:
        """Whether a prompt waits that can be part of the same turn."""
        return bool(self.prompts) and not is_command(self._state.catalog, self.prompts[0].text)

    async def join(self, conversation: ModelConversation, tally: Tally) -> None:
        """Let the prompts that came while a tool ran join the turn."""
        while self.next_joins():
            prompt = self.prompts.popleft()
            submitted = await self._hooks.prompt_submitted(prompt)
            self._hooks.show(submitted.lines)
            if submitted.is_kept:
                conversation.add("user", prompt.content)
            for context in submitted.contexts:
                conversation.add("system", context)
            self._transcript.joined(prompt)
            conversation.echo(prompt)
            self.start(prompt.uuid)
            if prompt.uuid:
                tally.uuids.append(prompt.uuid)

    def rest(self) -> None:
        """Note that everything which waited is done."""
        self._is_busy = False

    # What the client is told of its prompts

    def start(self, uuid: str | None) -> None:
        """Say that a prompt's turn begins, unless it was said already."""
        if uuid not in self._started:
            self._started.add(uuid)
            self.tell(uuid, "started")

    def tell(self, uuid: str | None, state: str) -> None:
        """Say how far a prompt is."""
        if uuid:
            self._state.outlet.send("command_lifecycle", command_uuid=uuid, state=state)


class CurrentWork:
    """The turn or command that is under way, which an interrupt stops."""

    def __init__(self, outlet: Outlet, mcp: McpServers, queue: PromptQueue) -> None:
        self._outlet = outlet
        self._mcp = mcp
        self._queue = queue
        self.task: asyncio.Task[Any] | None = None
        """What an interrupt cancels."""
        self.is_taken = False
        """Whether a turn or a command is under way, from its first step to its last."""
        self.is_called_off = False
        """Whether the turn ends before its next step; it may have been promised with `started`."""

    def interrupt(self) -> None:
        """Stop the turn that runs, if one does."""
        if self.task is not None and not self.task.done():
            self._outlet.withdraw_all()
            self._mcp.cancel_calls()
            self.task.cancel()
        elif self.task is not None or (self._queue.prompts and not self.is_taken):
            self.is_called_off = True
