"""One session of an engine: what is known of it, its messages, and its CLI.

Messages are accepted whether or not there is a CLI: they are stored first, and written to one as
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

from pilothouse.api.records import (
    AnyRecord,
    InterruptAsked,
    LinesLost,
    OptionsChanged,
    PromptSaid,
    PromptSent,
    PromptWithdrawn,
    SessionStopped,
)
from pilothouse.api.results import ModeSet
from pilothouse.api.statuses import Listed, Status, Waiting
from pilothouse.api.values import Content
from pilothouse.client.client import Client
from pilothouse.client.turns import Turn, TurnTracker
from pilothouse.errors import (
    CapReached,
    ControlError,
    JournalError,
    NotNow,
    SessionEnded,
    UsageError,
)
from pilothouse.journal.contract import KeyRow, Posted
from pilothouse.protocol import LineRejected, Message
from pilothouse.protocol.permissions import PermissionMode
from pilothouse.transport.base import NumberedLines

from .cli_lifecycle import CLILifecycle
from .recorder import PIECES_ALONE
from .services import Services
from .snapshot import QueuedPrompt
from .view import View

__all__ = ["Session"]

log = logging.getLogger("pilothouse")

START_WITHIN_S: Final = 10.0
"""How long an interrupt waits for a CLI that is being started."""
BEGIN_WITHIN_S: Final = 5.0
"""How long an interrupt waits for a CLI to begin the turn that was asked of it."""
SAVED_EVERY: Final = 10_000
"""Lines of a turn after which a snapshot is taken: a restart reads no more, in about 0.2 s."""


class Session:
    """Joins a view, a CLI and the messages that wait for it."""

    def __init__(self, services: Services, view: View, loaded: dict[str, Session]) -> None:
        self.view = view
        self._loaded = loaded
        self.cli = CLILifecycle(services, view, self)
        self.last_used = services.recorder.clock()
        self._services = services
        self._recorder = services.recorder
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unsaved = False
        """A turn has ended since the last snapshot."""
        self._unsaved_lines = 0
        self._pruned = view.last_turn_range[1]

    # What it is

    @property
    def session_id(self) -> str:
        return self.view.session_id

    @property
    def has_cli(self) -> bool:
        """Whether a CLI is alive or about to be, and is not on its way out."""
        return self.cli.has_cli

    @property
    def is_at_work(self) -> bool:
        """Whether anything of it is yet to come: a CLI's end, an answer, a queued message."""
        return self.cli.is_held or self.view.is_at_work

    @property
    def is_idle(self) -> bool:
        """Whether its CLI could be closed without anybody noticing."""
        view = self.view
        return (
            self.cli.phase == "live"
            # Who has started it by hand would notice, and without a transcript all would be lost.
            and self.cli.route.via != "dial-in"
            and view.options.persist_session
            and not self.cli.is_starting
            and not view.busy
            and not view.open_questions
            and not view.queued
            and not view.subagents
        )

    def write(self, *records: AnyRecord, keys: Sequence[KeyRow] = ()) -> Posted:
        """Write records of this session to the journal."""
        return self._recorder.write(self.view, *records, keys=keys)

    def status(self, output: Sequence[str] = ()) -> Status:
        """Everything that is known at this moment."""
        pid = None if self.cli.client is None else self.cli.client.pid or self.cli.route.pid
        told = self.view.status(pid=pid, simulated=self._services.simulated, output=output)
        return replace(told, waiting_on=self._waiting_for_cli() or told.waiting_on)

    def listed(self) -> Listed:
        """One row of a list, as it is at this moment."""
        return self.view.row(waiting_on=self._waiting_for_cli() or self.view.waiting_on)

    def _waiting_for_cli(self) -> Waiting | None:
        if self.cli.is_starting and self.cli.client is None:
            return Waiting(what="start", detail="its CLI to start")
        return Waiting(what="machine", detail=self._unreachable()) if self.is_cut_off else None

    @property
    def is_cut_off(self) -> bool:
        """Whether it has a CLI that cannot be reached right now."""
        return self.cli.client is not None and not self.cli.route.connected

    def _unreachable(self) -> str:
        trouble = self._services.routes.trouble(self.cli.machine)
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
        if self.cli.is_starting:
            return
        if self.cli.client is None:
            self.cli.start()
        else:
            self._services.tasks.spawn(self.send_queued(self.cli.client))

    async def send_queued(self, client: Client) -> None:
        """Write what no CLI has yet, in order, each once it is committed."""
        # Looked for anew each time: another of these may run beside this one.
        while (prompt := _first_unsent(self.view)) is not None and self.cli.client is client:
            try:
                await self._recorder.kept()
                if prompt.sent or prompt.id not in self.view.queued:
                    continue
                if self.cli.client is not client or not await self._may_begin():
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
        client = self.cli.client if prompt.sent else None
        if client is not None and not await client.cancel_prompt(prompt_id):
            return False
        if prompt_id in self.view.queued:
            await self.write(PromptWithdrawn(id=prompt_id, because=because)).committed
        else:
            # The CLI reported it before it answered; that line may not be committed yet.
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
                return await self.cli.connected()
        except TimeoutError:
            raise NotNow(
                f"the CLI of session {self.session_id} has not started yet",
                advice="wait for it, or stop the session",
            ) from None

    async def _begun(self, client: Client) -> None:
        """Wait until the CLI works on the turn that shall be stopped: before that it has none."""
        view = self.view
        while self.cli.client is client and view.busy and not view.open_questions:
            if view.tracker is not None and view.tracker.begun:
                return
            await self._services.journal.wait(view.last_seq, session_id=self.session_id)

    def answer(self, question_id: str, answer: Any) -> None:
        """Give a committed answer to the CLI that waits for it."""
        if self.cli.asks is not None:
            self.cli.asks.give(question_id, answer)

    async def stop(self) -> bool:
        """End its CLI at the request of a caller."""
        was_live = await self.cli.close("stopped")
        await self.write(SessionStopped()).committed
        return was_live

    async def set_mode(self, mode: PermissionMode) -> ModeSet:
        """Switch in place where a CLI is alive; interrupt and restart it where it refuses."""
        client = await self.cli.connected()
        how: Any = "at_next_start"
        if client is not None:
            try:
                await client.set_permission_mode(mode)
                how = "in_place"
            except ControlError as error:
                # Older CLIs give no code. What settings forbid a restart would not change.
                if error.error_code not in (None, "bypass_not_launched"):
                    raise
                # Another CLI could not go on with it.
                if not self.view.options.persist_session:
                    raise
                how = "restarted"
        changed = OptionsChanged(options=replace(self.view.options, mode=mode), mode=mode)
        await self.write(changed).committed
        if how == "restarted":
            await self.cli.close("restarted in another mode")
            await self.cli.reserve()
            self.deliver()
        return ModeSet(session_id=self.session_id, mode=mode, how=how)

    async def change_options(self, **changes: Any) -> None:
        """Note what the next start of a CLI will be given."""
        await self.write(OptionsChanged(options=replace(self.view.options, **changes))).committed

    # What the CLI says and does (`CLIOwner` of the lifecycle)

    @property
    def tracker(self) -> TurnTracker:
        """The turns of its CLI: the view follows them, and nobody else does."""
        return self.view.tracker or TurnTracker()

    def received(
        self,
        events: Sequence[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None = None,
    ) -> Sequence[Turn]:
        """Write the CLI's lines to the journal; return the turns that ended with them.

        `lines` have their bytes, if they have a number.
        """
        turns = self._recorder.lines(self.view, events, kinds, lines)
        self.cli.follow_conversation()
        for turn in turns:
            self._turn_ended(turn)
        if turns:
            self._prune()
        if turns or self._idle_timer is not None or not self.view.busy:
            self.rested()
        if kinds != PIECES_ALONE:
            self._unsaved_lines += len(events)
        if (self._unsaved and self.view.idle) or self._unsaved_lines >= SAVED_EVERY:
            self._unsaved = not self._recorder.save(self.view)
            self._unsaved_lines = 0
        return turns

    def ended(self, error: SessionEnded) -> None:
        """Note how the CLI ended."""
        self.cli.ended(error)
        self._prune()

    def lines_lost(self, because: str, lines: NumberedLines | None = None) -> None:
        """Record that lines could not be recorded."""
        log.warning("session %s: %s", self.session_id, because)
        if self._services.journal.failed is None:
            # In one transaction with how far the lines have come: it is recorded once.
            self._recorder.write(self.view, LinesLost(because=because), lines=lines)

    def reconnected(self) -> None:
        """Ask a CLI that dialled in anew what it still waits for."""
        if self.cli.client is not None:
            self.cli.client.greet_again()

    def _turn_ended(self, turn: Turn) -> None:
        self._unsaved = True
        self._services.spending.add(turn.cost_usd)
        if self.cli.client is not None and _first_unsent(self.view) is not None:
            self._services.tasks.spawn(self.send_queued(self.cli.client))

    def _prune(self) -> None:
        """Let go of the pieces of messages that are whole by now."""
        first, self._pruned = self._pruned + 1, self.view.last_turn_range[1]
        if self._services.settings.partials and self._services.journal.failed is None:
            self._services.tasks.spawn(self._remove_partials(first, self._pruned))

    async def _remove_partials(self, first: int, last: int) -> None:
        await self._services.journal.prune_partials(self.session_id, first, last)

    # Idleness

    def reserved(self) -> None:
        """Be among the sessions in memory, which it may have left while somebody had it."""
        if self.view.last_seq:
            self._loaded[self.session_id] = self

    def rested(self) -> None:
        """Close the CLI once it has been idle for long."""
        if not self.is_idle:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
                self._idle_timer = None
        elif self._idle_timer is None and self._services.settings.idle_close_s:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(
                self._services.settings.idle_close_s, self._idle_too_long
            )

    def _idle_too_long(self) -> None:
        self._idle_timer = None
        if self.cli.client is not None and not self.cli.client.idle:
            # Its subagents are back, and it is about to go on by itself.
            self.rested()
        elif self.is_idle:
            self.cli.begin_close("idle for long")

    def retire(self) -> asyncio.Task[None]:
        """Begin to close an idle CLI, to make room for another session's."""
        closing = self.cli.begin_close("closed to make room for another session")
        self.rested()
        return closing


def _first_unsent(view: View) -> QueuedPrompt | None:
    return next((each for each in view.queued.values() if not each.sent), None)
