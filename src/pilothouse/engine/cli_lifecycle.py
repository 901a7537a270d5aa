"""The CLI of one session, from the locks that are taken for it to its end. See `cli_phase`."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from pilothouse.api.records import (
    CLIEnded,
    CLIStarted,
    PromptSent,
    QuestionClosed,
)
from pilothouse.client.client import Client, Past, Sink
from pilothouse.client.locate import cli_command
from pilothouse.errors import (
    ControlError,
    ControlTimeout,
    NotNow,
    PilothouseError,
    SessionEnded,
    SessionTaken,
)
from pilothouse.folders import make_private
from pilothouse.protocol.permissions import PermissionMode

from .ask_handler import AskHandler
from .cli_phase import INITIAL, Phase, Step, after
from .client_restore import recall
from .environment import check_environment
from .launch_options import asked_options, check_directories, permitted_directory
from .limits import Occupant
from .questions.question import question_id
from .recorder import INPUT_CLOSED
from .routes import Route, Told
from .services import Services
from .view import View
from .writers import WriterLock

__all__ = ["CLILifecycle"]

log = logging.getLogger("pilothouse")

START_WITHIN_S: Final = 10.0
"""How long a start may take that is under way when the engine ends."""


class CLIOwner(Sink, Told, Occupant, Protocol):
    """The session that has the CLI."""

    async def send_queued(self, client: Client) -> None:
        """Write what is queued to a CLI that has just greeted, before anybody else speaks."""
        ...

    def reserved(self) -> None:
        """A CLI may run from now on: the session is at work."""
        ...

    def rested(self) -> None:
        """A start is over, or the CLI has ended: see whether the session is idle."""
        ...


class CLILifecycle:
    """Starts, holds, leaves, takes up and ends the CLI of one session."""

    def __init__(self, services: Services, view: View, owner: CLIOwner) -> None:
        self.phase: Phase = INITIAL
        self.client: Client | None = None
        """While it is live or closing."""
        self.asks: AskHandler | None = None
        """Where it waits for answers: another one for each CLI."""
        self.route = Route()
        self._services = services
        self._recorder = services.recorder
        self._view = view
        self._owner = owner
        self._writers: dict[str, WriterLock] = {}
        self._reserving = asyncio.Lock()
        self._connecting: Client | None = None
        self._eviction: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def _step(self, step: Step) -> None:
        self.phase = after(self.phase, step)

    # What it is

    @property
    def is_held(self) -> bool:
        """Whether a CLI of ours is alive, about to be, or on its way out."""
        return bool(self._writers)

    @property
    def has_cli(self) -> bool:
        """Whether a CLI is alive or about to be, and is not on its way out."""
        return self.is_held and not self.is_closing

    @property
    def is_starting(self) -> bool:
        """Whether a start is under way, to the first message."""
        return self._starting is not None

    @property
    def is_closing(self) -> bool:
        """Whether somebody has begun to close it, and has not seen its end yet."""
        return self._closing is not None

    @property
    def machine(self) -> str:
        """The runner that the CLI runs on; empty: our own machine."""
        return self._view.options.machine or ""

    # Room for a CLI

    async def reserve(self, *, leaving: str = "") -> None:
        """Make sure that a CLI may run: one writer, and room for it. Refuses before any change.

        `leaving` is a session whose own CLI will be gone by then.
        """
        if self.has_cli:
            # At once: what a caller has found out before this holds after it.
            self._check_open()
            return
        async with self._reserving:
            while await self.gone():
                continue
            self._check_open()
            if self.has_cli:
                return
            self._services.foreign.check_absent(self._view)
            self._check_options()
            await asyncio.to_thread(self._check_places)
            await self._check_conversation()
            self._writers = await self._locked()
            try:
                self._take_slot(leaving)
            except BaseException:
                self._release_writers()
                raise
            if self.phase == "absent":
                self._step("reserve")
            self._owner.reserved()

    def _check_open(self) -> None:
        if self._services.is_closing:
            raise NotNow("the server is stopping", advice="start it again, then repeat this")
        self._recorder.check()

    def _check_options(self) -> None:
        allowed, gate = self._services.settings.allowed_env, self._services.gate
        check_environment(self._view.options, allowed, allow_bypass=gate.allowed)

    def _check_places(self) -> None:
        """Refuse directories that have gone since the session began, or that are out of bounds
        now."""
        view, roots = self._view, self._services.settings.allowed_roots
        if view.cwd and not self.machine:
            permitted_directory(view.cwd, roots)
            check_directories(view.options, view.cwd, roots)
        if view.scratch:
            make_private(Path(view.scratch))

    async def _check_conversation(self) -> None:
        """Refuse to begin anew a conversation of which nothing was written, or what a CLI that was
        started by hand has begun in another place. Refuse to go on beside such a CLI, too, if it
        was lost and may still be at work."""
        view = self._view
        if not view.has_conversation:
            return
        if not view.options.persist_session:
            raise NotNow(
                f"session {view.session_id} has no transcript, so it ended with its CLI",
                advice="start another; persist_session keeps a transcript",
            )
        if view.via != "dial-in":
            return
        found = await self._services.history.find(view.claude_session_id)
        if found is None:
            raise NotNow(
                f"the CLI of session {view.session_id} was started by hand and has ended, and its "
                "conversation is not on this machine",
                advice="start it again where it was, with --resume and a new dial-in",
            )
        if view.state == "error":
            self._services.foreign.check_silent(view, found.updated_at)

    def _take_slot(self, leaving: str) -> None:
        # The server may have begun to end, or a guest may have come, while the disk was looked at.
        self._check_open()
        self._services.foreign.check_absent(self._view)
        name = self._view.session_id
        self._eviction = self._services.slots.take(name, self._owner, leaving=leaving)

    async def gone(self) -> bool:
        """Wait for a CLI that is on its way out; whether there was one."""
        if self._closing is None or self._closing.done():
            return False
        await asyncio.wait([self._closing])
        return True

    def release(self) -> None:
        """Let go of what was reserved, where nothing came of it."""
        if self.client is None and self._starting is None:
            self._release_writers()
            if self.phase == "reserved":
                self._step("release")

    # Starting

    async def live(self) -> Client:
        """A CLI that can be asked something, started if there is none."""
        client = await self.connected()
        if client is not None:
            return client
        await self.reserve()
        self.start()
        client = await self.connected()
        if client is None:
            raise NotNow(
                f"no CLI could be started for session {self._view.session_id}: {self._view.reason}",
                advice="see its status",
            )
        return client

    async def connected(self) -> Client | None:
        """The CLI, once it is ready, if one is alive or being started."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        return None if self.is_closing else self.client

    def start(self) -> None:
        """Start a CLI, unless one is alive or being started."""
        if self._starting is not None or self.client is not None:
            return
        if self.phase == "left":
            # This engine ends. What was accepted meanwhile is the next one's to send.
            return
        self._step("start")
        # A new one each time: whoever closed the last CLI may still wait for its end.
        self._ended = asyncio.Event()
        self._starting = self._services.tasks.spawn(self._start())

    async def _start(self) -> None:
        try:
            client = await self._connect()
            if client is not None:
                # Whoever waits for the start, to interrupt say, comes after the first message.
                await self._owner.send_queued(client)
        finally:
            self._starting = None
        if self.phase == "reserved":
            # A message came while this start failed, and was left to it.
            self.start()
        self._owner.rested()

    async def _connect(self) -> Client | None:
        try:
            # The CLI that was there when a message was accepted may have died since.
            await self.reserve()
            if self._eviction is not None:
                await asyncio.wait([self._eviction])
            client, started = await self._prepare()
            self._recorder.write(self._view, started)
            self._connecting = client
            await client.connect()
        except (PilothouseError, OSError) as error:
            self._over(CLIEnded(orderly=self.phase == "cancelled", reason=str(error)))
            return None
        finally:
            self._connecting = None
        # It may have died between its greeting and now.
        if self._ended.is_set():
            return None
        self._step("connect")
        self.client = client
        return client

    async def _prepare(self) -> tuple[Client, CLIStarted]:
        services, view = self._services, self._view
        conversation = await self._conversation()
        if self.phase == "cancelled":
            raise NotNow("its start was called off")
        self.route = route = services.routes.begin(view, self._owner, self._locks)
        self.asks = asks = self.new_ask_handler()
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
        services, own = self._services, self._view.options.permission_timeout_ms
        return AskHandler(
            self._recorder,
            self._view,
            services.policy,
            timeout_ms=services.settings.permission_timeout_ms if own is None else own,
            bypass_allowed=services.gate.allowed,
            spawn=services.tasks.spawn,
            **more,
        )

    def _new_client(self, asks: AskHandler, conversation: dict[str, Any]) -> Client:
        services, view = self._services, self._view
        # Another machine has a CLI and an environment of its own.
        elsewhere = bool(self.machine)
        asked = asked_options(
            view.options,
            cwd=view.scratch or view.cwd,
            mode=self.next_mode(),
            kept={
                "allow": view.rules,
                "deny": view.deny_rules,
                "ask": view.ask_rules,
                "additionalDirectories": view.directories,
            },
            allow_bypass=services.gate.allowed,
            allowed_env=services.settings.allowed_env,
        )
        services.gate.check_options(asked)
        options = replace(
            asked,
            cli_path=None if elsewhere else services.cli_path,
            env=asked.env if elsewhere else {**services.env, **asked.env},
            inherit_env=services.inherit_env and not elsewhere,
            include_partial_messages=services.settings.partials,
            **conversation,
            **asks.handlers,
        )
        parts = self.route.client_parts(view)
        if "transport" not in parts and not elsewhere:
            # Found by our own PATH, and not by one that a caller gives to the CLI and its tools.
            parts["command"] = partial(cli_command, services.cli_path, services.around)
        return services.make_client(options, sink=self._owner, **parts)

    def next_mode(self) -> PermissionMode | None:
        """The mode it was in, which a plan or a person may have changed since the start."""
        mode: Any = self._view.mode if self._view.has_conversation else None
        mode = mode or self._view.options.mode
        # It was allowed then, perhaps, and is not any more.
        return mode if mode != "bypassPermissions" or self._services.gate.allowed else None

    async def _conversation(self) -> dict[str, Any]:
        """Which conversation the CLI goes on with. The transcript on disk decides, not we."""
        view = self._view
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

    # Ending

    async def close(self, reason: str, *, decidable: bool = False) -> bool:
        """End the CLI in order; return whether there was one. Open questions can stay decidable."""
        started = self._starting is not None
        if self._starting is not None:
            await self._cancel(self._starting)
        if self.client is None:
            return started
        closing = self._closing or self.begin_close(reason, decidable=decidable)
        await asyncio.shield(closing)
        return True

    async def _cancel(self, starting: asyncio.Task[None]) -> None:
        """End a start, which may wait for long for a silent CLI."""
        if self.phase == "starting":
            self._step("cancel")
        if self._connecting is not None:
            await self._connecting.aclose()
        await asyncio.wait([starting])

    def begin_close(self, reason: str, *, decidable: bool = False) -> asyncio.Task[None]:
        """Begin to end a CLI that is live."""
        self._step("close")
        self._closing = self._services.tasks.spawn(self._close(reason, decidable=decidable))
        return self._closing

    async def _close(self, reason: str, *, decidable: bool) -> None:
        client, ended = self.client, self._ended
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
        sent = [each.said for each in self._view.queued.values() if each.sent]
        if sent and self._services.journal.failed is None:
            self._recorder.write(self._view, *sent)
            with suppress(SessionEnded, ControlTimeout, ControlError):
                await client.interrupt(cancel_queued=True)

    def ended(self, error: SessionEnded) -> None:
        """Note how the CLI ended. Whoever closed it waits for this."""
        is_known = error.exit_code is not None or error.signal is not None
        wanted = self.phase in ("closing", "cancelled")
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
        """Note that the CLI has ended with the engine that had started it."""
        self._ended = asyncio.Event()
        self._over(CLIEnded(orderly=False, reason=reason))

    def _over(self, record: CLIEnded) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._step("end")
        if self._services.journal.failed is None:
            # One that was never taken up has no route.
            runs = {*self.route.end(), self._view.run} - {""}
            # In one transaction: of what has ended an engine must not open a question again.
            records = (*self._withdrawals(record.reason or "it was closed"), record)
            self._recorder.write(self._view, *records, ended_runs=tuple(runs))
            self._recorder.save(self._view)
        else:
            self.route.end()
        if self.asks is not None:
            self.asks.close()
        self.client = self.asks = None
        self._release_writers()
        self._owner.rested()

    def _withdraw_open(self, reason: str) -> None:
        records = self._withdrawals(reason)
        if records and self._services.journal.failed is None:
            self._recorder.write(self._view, *records)

    def _withdrawals(self, reason: str) -> list[QuestionClosed]:
        because = f"Claude Code has ended before anybody answered: {reason}"
        return [
            QuestionClosed(id=each.id, state="withdrawn", because=because, decidable=True)
            for each in self._view.own_questions
        ]

    # Going on behind a relay while no engine runs

    async def leave(self) -> bool:
        """Let go of a CLI that goes on without us; False: there is none such."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=START_WITHIN_S)
        while await self.gone():
            continue
        client = self.client
        if client is None or self._starting is not None or not self.route.outlives_us:
            return False
        self._step("leave")
        if self.asks is not None:
            self.asks.leave()
        self.route.leave()
        await client.detach()
        self.client = self.asks = None
        for writer in self._writers.values():
            writer.leave()
        self._writers.clear()
        self._services.slots.free(self._view.session_id)
        self._owner.rested()
        return True

    async def take_up(self) -> bool:
        """Go on with a CLI that outlived the engine before this one; False: it has ended."""
        view, services = self._view, self._services
        row = await services.journal.run(view.run)
        route = services.routes.find(view, row, self._owner)
        if route is None:
            return False
        self.route = route
        self._ended = asyncio.Event()
        for each in dict.fromkeys([view.session_id, view.claude_session_id]):
            self._writers[each] = services.writers.take_up(each)
        services.slots.hold(view.session_id, self._owner)
        self._step("take_up")
        past = await recall(services.journal, view, row.refs)
        self.asks = asks = self.new_ask_handler(asked_before=services.journal.question)
        self._mend_withdrawn(asks, past)
        self.client = client = self._new_client(asks, {})
        await client.attach(past)
        self._mend_sent(row.refs)
        if INPUT_CLOSED in row.refs:
            # The engine before this one was closing it: its input is closed.
            self.begin_close("closed")
        elif route.takes_input:
            services.tasks.spawn(self._go_on(client))
        return True

    async def _go_on(self, client: Client) -> None:
        if self._view.mode == "bypassPermissions" and not self._services.gate.allowed:
            await self._end_bypass(client)
        await self._owner.send_queued(client)
        self._owner.rested()

    async def _end_bypass(self, client: Client) -> None:
        """It was allowed when the CLI was started, and is not any more."""
        try:
            await client.set_permission_mode("default")
        except (ControlError, ControlTimeout):
            await self.close("it bypassed permissions, which is no longer allowed", decidable=True)
        except SessionEnded:
            return

    def _mend_withdrawn(self, asks: AskHandler, past: Past) -> None:
        """Make up for what was cut off between the CLI's taking back and the record of it."""
        asked = {question_id(self._view.session_id, each.request_id) for each in past.asked}
        for question in self._view.own_questions:
            if question.id not in asked:
                asks.withdraw(question.id)

    def _mend_sent(self, sent: frozenset[str]) -> None:
        """Make up for what was cut off between a message and the record that it was sent."""
        for prompt in self._view.queued.values():
            if prompt.id in sent and not prompt.sent:
                self._recorder.write(self._view, PromptSent(id=prompt.id))
            elif prompt.sent and prompt.id not in sent:
                prompt.sent = False

    # One writer

    def _locks(self) -> list[int]:
        held = (writer.fileno() for writer in self._writers.values())
        return [descriptor for descriptor in held if descriptor is not None]

    async def _locked(self) -> dict[str, WriterLock]:
        """The locks of the session and of its conversation."""
        names = dict.fromkeys([self._view.session_id, self._view.claude_session_id])
        locking = asyncio.ensure_future(
            asyncio.to_thread(self._services.writers.acquire_all, names)
        )
        try:
            return await asyncio.shield(locking)
        except asyncio.CancelledError:
            # Whoever wanted them has left; what a thread has begun goes on.
            locking.add_done_callback(_release_all)
            raise

    def follow_conversation(self) -> None:
        """Lock the transcript that the CLI writes now: after /clear it is another one."""
        new = self._view.claude_session_id
        if not self._writers or new in self._writers:
            return
        try:
            self._writers[new] = self._services.writers.acquire(new)
        except (SessionTaken, NotNow) as refusal:
            # Logged once: it is not tried again with every line.
            self._writers[new] = self._services.writers.none(new)
            log.warning("session %s goes on as %s, but %s", self._view.session_id, new, refusal)

    def _release_writers(self) -> None:
        for writer in self._writers.values():
            writer.release()
        self._writers.clear()
        self._services.slots.free(self._view.session_id)


def _release_all(locked: asyncio.Future[dict[str, WriterLock]]) -> None:
    if not locked.cancelled() and locked.exception() is None:
        for writer in locked.result().values():
            writer.release()
