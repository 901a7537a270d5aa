"""The life of a session's CLI, from the room that is made for it to its end.

absent ──bring_up──> starting ──connected──> alive ──close──> closing ──> absent
                        └────────── it failed, or it died ───────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pilothouse.api.records import AnyRecord, CLIEnded, CLIStarted, LinesLost, QuestionClosed
from pilothouse.client.client import Client
from pilothouse.client.locate import cli_command
from pilothouse.client.turns import Turn
from pilothouse.errors import (
    ControlError,
    ControlTimeout,
    NotNow,
    PilothouseError,
    SessionEnded,
    SessionTaken,
)
from pilothouse.journal.contract import KeyRow, Posted
from pilothouse.protocol import Initialize, LineRejected, Message
from pilothouse.protocol.permissions import PermissionMode

from .ask_handler import AskHandler
from .environment import check_environment
from .launch_options import check_directories, client_options, permitted_directory
from .recorder import PIECES_ALONE
from .routes import Route
from .services import Services
from .snapshot import QueuedPrompt
from .view import View
from .writers import Writer

__all__ = ["Life", "first_unsent"]

log = logging.getLogger("pilothouse")

SAVED_EVERY: Final = 10_000
"""Lines of a turn after which a snapshot is taken: a restart reads no more, in about 0.2 s."""


class Life(ABC):
    """Starts, keeps and ends the CLI of one session; it is the sink of its client."""

    def __init__(self, services: Services, view: View) -> None:
        self.view = view
        self.last_used = services.recorder.clock()
        self._services = services
        self._recorder = services.recorder
        self._client: Client | None = None
        self._asks: AskHandler | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._writers: dict[str, Writer] = {}
        self._route = Route()
        self._connecting: Client | None = None
        self._called_off = False
        self._room: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._ended.set()
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
        return bool(self._writers) and self._closing is None

    @property
    def is_held(self) -> bool:
        """Whether a CLI of ours is alive, about to be, or on its way out."""
        return bool(self._writers)

    @property
    def is_at_work(self) -> bool:
        """Whether anything of it is yet to come: a CLI's end, an answer, a queued message."""
        view = self.view
        return bool(self._writers) or view.busy or bool(view.questions) or bool(view.queued)

    @property
    def machine(self) -> str:
        """The runner that its CLI runs on; empty: our own machine."""
        return self.view.options.machine or ""

    @property
    def asks(self) -> AskHandler | None:
        """Where the CLI that is alive waits for answers: another one for each CLI."""
        return self._asks

    @property
    def is_idle(self) -> bool:
        """Whether its CLI could be closed without anybody noticing."""
        view = self.view
        return (
            self._client is not None
            and self._starting is None
            and self._closing is None
            and not view.busy
            and not view.open_questions
            and not view.queued
            and not view.subagents
        )

    def write(self, *records: AnyRecord, keys: Sequence[KeyRow] = ()) -> Posted:
        """Keep records of this session."""
        return self._recorder.write(self.view, *records, keys=keys)

    # Room for a CLI

    async def reserve(self, *, leaving: str = "") -> None:
        """Make sure that a CLI may run: one writer, and room for it. Refuses before any change.

        `leaving` is a session whose own CLI will be gone by then.
        """
        while await self.gone():
            continue
        if self._services.is_closing:
            raise NotNow("the server is stopping", advice="start it again, then repeat this")
        self._recorder.check()
        if self.has_cli:
            return
        self._services.foreign.check_absent(self.view)
        settings = self._services.settings
        check_environment(
            self.view.options, settings.allowed_env, allow_bypass=self._services.gate.allowed
        )
        if self.view.cwd and not self.machine:
            # It may have gone since the session began, or the roots may be others now.
            permitted_directory(self.view.cwd, settings.allowed_roots)
            check_directories(self.view.options, self.view.cwd, settings.allowed_roots)
        self._acquire_writers()
        try:
            self._room = self._services.slots.take(self.session_id, self, leaving=leaving)
        except BaseException:
            self._release_writers()
            raise

    async def gone(self) -> bool:
        """Wait for a CLI that is on its way out; whether there was one."""
        if self._closing is None or self._closing.done():
            return False
        await asyncio.wait([self._closing])
        return True

    def give_up(self) -> None:
        """Let go of what was reserved, where nothing came of it."""
        if self._client is None and self._starting is None:
            self._release_writers()

    @abstractmethod
    async def send_queued(self, client: Client) -> None:
        """Write what is queued to the CLI that is alive now."""

    # The CLI's life

    async def live(self) -> Client:
        """A CLI that can be asked something, started if there is none."""
        client = await self.connected()
        if client is not None:
            return client
        await self.reserve()
        self.bring_up()
        client = await self.connected()
        if client is None:
            raise NotNow(
                f"no CLI could be started for session {self.session_id}: {self.view.reason}",
                advice="see its status",
            )
        return client

    async def connected(self) -> Client | None:
        """The CLI, once it is ready, if one is alive or being started."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        return self._client if self._closing is None else None

    def bring_up(self) -> None:
        """Start a CLI, unless one is alive or being started."""
        if self._starting is not None or self._client is not None:
            return
        # A new one each time: whoever closed the last CLI may still wait for its end.
        self._ended = asyncio.Event()
        self._called_off = False
        self._starting = self._services.tasks.spawn(self._start())

    async def _start(self) -> None:
        try:
            client = await self._connect()
            if client is not None:
                # Whoever waits for the start, to interrupt say, comes after the first message.
                await self.send_queued(client)
        finally:
            self._starting = None
        if self._client is None and self._writers:
            # A message came while this start failed, and was left to it.
            self.bring_up()
        self._follow_idleness()

    async def _connect(self) -> Client | None:
        try:
            # The CLI that was there when a message was accepted may have died since.
            await self.reserve()
            if self._room is not None:
                await asyncio.wait([self._room])
            client, started = await self._prepare()
            self.write(started)
            self._connecting = client
            await client.connect()
        except (PilothouseError, OSError) as error:
            self._over(CLIEnded(orderly=self._called_off, reason=str(error)))
            return None
        finally:
            self._connecting = None
        # It may have died between its greeting and now.
        self._client = None if self._ended.is_set() else client
        return self._client

    async def _prepare(self) -> tuple[Client, CLIStarted]:
        services, view = self._services, self.view
        conversation = await self._conversation()
        if self._called_off:
            raise NotNow("its start was called off")
        self._route = route = services.routes.begin(view, self, self._locks)
        self._asks = asks = self.new_ask_handler()
        client = self._new_client(asks, conversation)
        resumed = "resume" in conversation and not conversation.get("fork_session", False)
        return client, CLIStarted(
            resumed=resumed,
            simulated=services.simulated,
            run=route.run,
            via=route.via,
            machine=route.machine,
        )

    def new_ask_handler(self, **more: Any) -> AskHandler:
        """Where a CLI waits for the answers to what it asks in this session."""
        services = self._services
        return AskHandler(
            self._recorder,
            self.view,
            services.policy,
            timeout_ms=services.settings.permission_timeout_ms,
            bypass_allowed=services.gate.allowed,
            spawn=services.tasks.spawn,
            **more,
        )

    def _new_client(self, asks: AskHandler, conversation: dict[str, Any]) -> Client:
        services, view = self._services, self.view
        # Another machine has a CLI and an environment of its own.
        elsewhere = bool(self.machine)
        options = client_options(
            view.options,
            cwd=view.cwd,
            mode=self.next_mode(),
            rules=view.rules,
            allow_bypass=services.gate.allowed,
            allowed_env=services.settings.allowed_env,
            partials=services.settings.partials,
            cli_path=None if elsewhere else services.cli_path,
            env={} if elsewhere else services.env,
            inherit_env=services.inherit_env and not elsewhere,
            conversation=conversation,
            handlers=asks.handlers,
        )
        services.gate.check_options(options)
        parts = self._route.client_parts(view)
        if "transport" not in parts and not elsewhere:
            # Found by our own PATH, and not by one that a caller gives to the CLI and its tools.
            parts["command"] = partial(cli_command, services.cli_path, services.around)
        return services.make_client(options, sink=self, **parts)

    def _locks(self) -> list[int]:
        held = (writer.fileno() for writer in self._writers.values())
        return [descriptor for descriptor in held if descriptor is not None]

    def next_mode(self) -> PermissionMode | None:
        """The mode it was in, which a plan or a person may have changed since the start."""
        mode: Any = self.view.mode if self.view.has_conversation else None
        mode = mode or self.view.options.mode
        # It was allowed then, perhaps, and is not any more.
        return mode if mode != "bypassPermissions" or self._services.gate.allowed else None

    async def _conversation(self) -> dict[str, Any]:
        """Which conversation the CLI goes on with. The transcript on disk decides, not we."""
        view = self.view
        claude_id = view.claude_session_id or view.session_id
        if await self._has_transcript(claude_id):
            return {"resume": claude_id}
        if view.origin == "fork" and view.fork_from is not None:
            fork: dict[str, Any] = {
                "resume": view.fork_from,
                "fork_session": True,
                "session_id": claude_id,
            }
            return fork if view.fork_at is None else fork | {"resume_session_at": view.fork_at}
        return {"session_id": claude_id}

    async def _has_transcript(self, claude_id: str) -> bool:
        if self.machine:
            return await self._services.routes.has_transcript(self.machine, claude_id)
        return await self._services.history.find(claude_id) is not None

    async def close(self, reason: str, *, decidable: bool = False) -> bool:
        """End its CLI in order; whether there was one. Open questions stay decidable if so told."""
        started = self._starting is not None
        if self._starting is not None:
            await self._call_off(self._starting)
        if self._client is None:
            return started
        if self._closing is None:
            self._closing = self._services.tasks.spawn(self._close(reason, decidable=decidable))
        await asyncio.shield(self._closing)
        return True

    async def _call_off(self, starting: asyncio.Task[None]) -> None:
        """End a start, which may wait for long for a CLI that says nothing."""
        self._called_off = True
        if self._connecting is not None:
            await self._connecting.aclose()
        await asyncio.wait([starting])

    def retire(self) -> asyncio.Task[None]:
        """Begin to close an idle CLI, to make room for another session's."""
        self._closing = self._services.tasks.spawn(
            self._close("closed to make room for another session", decidable=False)
        )
        return self._closing

    async def _close(self, reason: str, *, decidable: bool) -> None:
        self._stop_idle_timer()
        client, ended = self._client, self._ended
        try:
            if decidable:
                self._withdraw_open(reason)
            if client is not None:
                await self._hold_queued(client)
                await client.aclose()
                await ended.wait()
        finally:
            self._closing = None

    async def _hold_queued(self, client: Client) -> None:
        """Take back what the CLI has not begun, which it would run while it closes.

        It stays queued: the next CLI gets it first. That is noted before the CLI lets go of it, so
        that no crash comes between.
        """
        sent = [each.said for each in self.view.queued.values() if each.sent]
        if sent and self._services.journal.failed is None:
            self.write(*sent)
            with suppress(SessionEnded, ControlTimeout, ControlError):
                await client.interrupt(cancel_queued=True)

    # What the client tells (`Sink`)

    def received(self, events: Sequence[Message | LineRejected], kinds: set[type[Any]]) -> None:
        """Keep what the CLI wrote."""
        turns = self._recorder.lines(self.view, events, kinds, self._route.received)
        if self.view.claude_session_id not in self._writers:
            self._follow_conversation()
        for turn in turns:
            self._turn_ended(turn)
        if turns:
            self._prune()
        if turns or self._idle_timer is not None or not self.view.busy:
            self._follow_idleness()
        if kinds != PIECES_ALONE:
            self._unsaved_lines += len(events)
        if (self._unsaved and self.view.idle) or self._unsaved_lines >= SAVED_EVERY:
            self._unsaved = not self._recorder.save(self.view)
            self._unsaved_lines = 0

    def ended(self, error: SessionEnded) -> None:
        """Note how the CLI ended. Whoever closed it waits for this."""
        is_known = error.exit_code is not None or error.signal is not None
        wanted = self._closing is not None or self._called_off
        # Of one whose relay is gone nobody knows how it ended.
        orderly = error.exit_code == 0 or (wanted and is_known)
        self._over(
            CLIEnded(
                orderly=orderly,
                reason="" if orderly else str(error),
                exit_code=error.exit_code,
                signal=error.signal,
            )
        )

    def lost(self, reason: str) -> None:
        """Note that its CLI has ended with the engine that had started it."""
        self._ended.clear()
        self._over(CLIEnded(orderly=False, reason=reason))

    def _over(self, record: CLIEnded) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        if self._services.journal.failed is None:
            # One that was never taken up has no route.
            runs = {*self._route.end(), self.view.run} - {""}
            # In one transaction: of what has ended an engine must not open a question again.
            records = (*self._withdrawals(record.reason or "it was closed"), record)
            self._recorder.write(self.view, *records, ended_runs=tuple(runs))
            self._recorder.save(self.view)
            self._prune()
        else:
            self._route.end()
        if self._asks is not None:
            self._asks.close()
        self._client = self._asks = None
        self._stop_idle_timer()
        self._release_writers()

    def _withdraw_open(self, reason: str) -> None:
        records = self._withdrawals(reason)
        if records and self._services.journal.failed is None:
            self.write(*records)

    def _withdrawals(self, reason: str) -> list[QuestionClosed]:
        because = f"Claude Code has ended before anybody answered: {reason}"
        return [
            QuestionClosed(id=each.id, state="withdrawn", because=because, decidable=True)
            for each in self.view.own_questions
        ]

    def _turn_ended(self, turn: Turn) -> None:
        self._unsaved = True
        self._services.spending.add(turn.cost_usd)
        if self._client is not None and first_unsent(self.view) is not None:
            self._services.tasks.spawn(self.send_queued(self._client))

    def _prune(self) -> None:
        """Let go of the pieces of messages that are whole by now."""
        first, self._pruned = self._pruned + 1, self.view.last_turn_range[1]
        if self._services.settings.partials and self._services.journal.failed is None:
            self._services.tasks.spawn(self._remove_partials(first, self._pruned))

    async def _remove_partials(self, first: int, last: int) -> None:
        await self._services.journal.prune_partials(self.session_id, first, last)

    # What the route tells (`Told`)

    def lines_lost(self, because: str) -> None:
        """Keep that something cannot be kept."""
        log.warning("session %s: %s", self.session_id, because)
        if self._services.journal.failed is None:
            # In one transaction with how far the lines have come: it is told once.
            received = self._route.received()
            self._recorder.write(self.view, LinesLost(because=because), received=received)
        if self._client is not None:
            self._client.turns.lines_lost()

    def reconnected(self) -> None:
        """Ask a CLI that dialled in anew what it still waits for."""
        if self._client is not None:
            self._services.tasks.spawn(self._ask_again(self._client))

    async def _ask_again(self, client: Client) -> None:
        with suppress(SessionEnded, ControlTimeout, ControlError):
            await client.request(Initialize())

    # Idleness

    def _follow_idleness(self) -> None:
        if not self.is_idle:
            self._stop_idle_timer()
        elif self._idle_timer is None and self._services.settings.idle_close_s:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(
                self._services.settings.idle_close_s, self._idle_too_long
            )

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _idle_too_long(self) -> None:
        self._idle_timer = None
        if self._client is not None and not self._client.idle:
            # Its subagents are back, and it is about to go on by itself.
            self._follow_idleness()
        elif self.is_idle:
            self._closing = self._services.tasks.spawn(
                self._close("idle for long", decidable=False)
            )

    # One writer

    def _acquire_writers(self) -> None:
        try:
            for each in dict.fromkeys([self.session_id, self.view.claude_session_id]):
                self._writers[each] = self._services.writers.acquire(each)
        except BaseException:
            self._release_writers()
            raise

    def _follow_conversation(self) -> None:
        """After /clear the CLI writes another transcript, which nobody else may have."""
        if not self._writers:
            return
        new = self.view.claude_session_id
        try:
            self._writers[new] = self._services.writers.acquire(new)
        except (SessionTaken, NotNow) as refusal:
            # Told once: it is not looked at again with every line.
            self._writers[new] = self._services.writers.none(new)
            log.warning("session %s goes on as %s, but %s", self.session_id, new, refusal)

    def _release_writers(self) -> None:
        for writer in self._writers.values():
            writer.release()
        self._writers.clear()
        self._services.slots.free(self.session_id)


def first_unsent(view: View) -> QueuedPrompt | None:
    return next((each for each in view.queued.values() if not each.sent), None)
