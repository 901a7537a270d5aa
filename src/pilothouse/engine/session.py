"""One session of an engine: what is known of it, what it is told, and its CLI while one is alive.

Messages are accepted whether or not there is a CLI: they are kept first, and written to one as
soon as there is one. A CLI takes each message's id once, so what is sent again after a death runs
once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from pilothouse.api.contract import Content, ModeSet, Status, Waiting
from pilothouse.api.records import (
    InterruptAsked,
    OptionsChanged,
    PromptSaid,
    PromptSent,
    PromptWithdrawn,
    SessionStopped,
)
from pilothouse.client.client import Client
from pilothouse.errors import (
    CapReached,
    ControlError,
    JournalError,
    NotNow,
    SessionEnded,
    UsageError,
)
from pilothouse.protocol.permissions import PermissionMode

from .life import first_unsent
from .outliving import Outliving

__all__ = ["Session"]

log = logging.getLogger("pilothouse")

START_WITHIN_S: Final = 10.0
"""As long an interrupt waits for a CLI that is being started."""
BEGIN_WITHIN_S: Final = 5.0
"""As long an interrupt waits for a CLI to begin the turn that was asked of it."""


class Session(Outliving):
    """Joins a view, a CLI and the questions it asks."""

    def status(self, output: Sequence[str] = ()) -> Status:
        """Everything that is known at this moment."""
        pid = None if self._client is None else self._client.pid or self._route.pid
        told = self.view.status(pid=pid, simulated=self._services.simulated, output=output)
        if self._starting is not None and self._client is None:
            return replace(told, waiting_on=Waiting(what="start", detail="its CLI to start"))
        if self._client is not None and not self._route.connected:
            return replace(told, waiting_on=Waiting(what="machine", detail=self._unreachable()))
        return told

    def _unreachable(self) -> str:
        trouble = self._services.routes.trouble(self.machine)
        return trouble or "its relay to come back"

    def prompt(
        self, content: Content, *, priority: str | None = None, by: str = "person"
    ) -> PromptSaid:
        """A message with an id of its own, to be written and then delivered."""
        if not content:
            raise UsageError("a message needs some content")
        return PromptSaid(id=str(uuid.uuid4()), content=content, priority=priority, by=by)

    def deliver(self) -> None:
        """Write what is queued to the CLI, and start one if there is none."""
        self.last_used = self._recorder.clock()
        if self._starting is not None:
            return
        if self._client is None:
            self.bring_up()
        else:
            self._services.tasks.spawn(self.send_queued(self._client))

    async def send_queued(self, client: Client) -> None:
        """Write what no CLI has yet, in order, each once it is committed."""
        # Looked for anew each time: another of these may run beside this one.
        while (prompt := first_unsent(self.view)) is not None and self._client is client:
            try:
                await self._recorder.kept()
                if prompt.sent or prompt.id not in self.view.queued:
                    continue
                if self._client is not client or not await self._may_begin():
                    return
                self.write(PromptSent(id=prompt.id))
                priority: Any = prompt.said.priority
                await client.say(prompt.said.content, uuid=prompt.id, priority=priority)
            except (SessionEnded, JournalError):
                # Its end is noted by `ended`; the prompt stays queued for the next CLI.
                return

    async def _may_begin(self) -> bool:
        """Whether the next message may be sent now.

        Where spending is capped each waits for the end of the turn before it: a CLI that had it
        would begin another turn with it, whatever the last one has cost.
        """
        if not self._services.spending.is_capped(self.view):
            return True
        tracker = self.view.tracker
        if tracker is not None and (tracker.running or tracker.unanswered):
            return False
        try:
            self._services.spending.check(self.view)
        except CapReached as reached:
            log.warning("session %s: %s", self.session_id, reached)
            for prompt_id in list(self.view.queued):
                await self.cancel(prompt_id, because=str(reached))
            return False
        return True

    async def cancel(self, prompt_id: str, *, because: str | None = None) -> bool:
        """Take a queued message back; False if a turn has taken it."""
        prompt = self.view.queued.get(prompt_id)
        if prompt is None:
            return False
        client = self._client if prompt.sent else None
        if client is not None and not await client.cancel_prompt(prompt_id):
            return False
        if prompt_id in self.view.queued:
            await self.write(PromptWithdrawn(id=prompt_id, because=because)).committed
        else:
            # The CLI has told of it before it answered; that line may not be committed yet.
            await self._recorder.kept()
        return True

    async def interrupt(self) -> list[str]:
        """Stop the running turn; the ids of the messages that are still queued."""
        await self.write(InterruptAsked()).committed
        client = await self._soon_connected()
        if client is None:
            return list(self.view.queued)
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_WITHIN_S):
                await self._begun(client)
        return list((await client.interrupt()).still_queued)

    async def _soon_connected(self) -> Client | None:
        try:
            async with asyncio.timeout(START_WITHIN_S):
                return await self.connected()
        except TimeoutError:
            raise NotNow(
                f"the CLI of session {self.session_id} has not started yet",
                advice="wait for it, or stop the session",
            ) from None

    async def _begun(self, client: Client) -> None:
        """Wait until the turn that shall be stopped runs: before that a CLI has none to stop."""
        view = self.view
        while self._client is client and view.busy and not view.open_questions:
            if view.tracker is not None and view.tracker.running:
                return
            await self._services.journal.wait(view.last_seq, session_id=self.session_id)

    def answer(self, question_id: str, answer: Any) -> None:
        """Let the CLI that waits have an answer which is committed."""
        if self._asks is not None:
            self._asks.give(question_id, answer)

    async def stop(self) -> bool:
        """End its CLI because a caller said so."""
        was_live = await self.close("stopped")
        await self.write(SessionStopped()).committed
        return was_live

    async def set_mode(self, mode: PermissionMode) -> ModeSet:
        """Switch in place where a CLI is alive; interrupt and restart it where it refuses."""
        client = await self.connected()
        how: Any = "at_next_start"
        if client is not None:
            try:
                await client.set_permission_mode(mode)
                how = "in_place"
            except ControlError as error:
                # Older CLIs give no code. What settings forbid a restart would not change.
                if error.error_code not in (None, "bypass_not_launched"):
                    raise
                how = "restarted"
        changed = OptionsChanged(options=replace(self.view.options, mode=mode), mode=mode)
        await self.write(changed).committed
        if how == "restarted":
            await self.close("restarted in another mode")
            await self.reserve()
            self.deliver()
        return ModeSet(session_id=self.session_id, mode=mode, how=how)

    async def change_options(self, **changes: Any) -> None:
        """Note what the next start of a CLI will be given."""
        await self.write(OptionsChanged(options=replace(self.view.options, **changes))).committed
