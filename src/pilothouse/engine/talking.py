"""The engine's verbs that begin sessions, talk to them and stop them."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from pilothouse.api.contract import (
    AllStopped,
    Cancelled,
    Content,
    Fork,
    Interrupted,
    ModeSet,
    Said,
    Say,
    Start,
    Started,
    Stopped,
)
from pilothouse.api.records import AnyRecord, SessionStarted
from pilothouse.errors import NotNow, UnknownPrompt
from pilothouse.protocol.permissions import PermissionMode

from .keys import Remember
from .launch_options import check_path, permitted_directory
from .registry import Registry
from .session import Session
from .view import View

__all__ = ["Talking"]

log = logging.getLogger("pilothouse")


class Talking(Registry):
    """Starts, says, interrupts, stops, forks."""

    async def start(self, request: Start) -> Started:
        """Begin a session; its id is known and kept before its CLI is."""
        self.recorder.check()
        act = self._starter(request)
        # What is kept is also done, although the caller may have left meanwhile.
        return await self.services.tasks.finish(
            self.keys.once("start", request.key, request, Started, act)
        )

    def _starter(self, request: Start) -> Callable[[Remember], Awaitable[Started]]:
        async def act(remember: Remember) -> Started:
            cwd = await self._directory(request)
            record = SessionStarted(
                cwd=cwd, options=request.options, label=request.label, caps=request.caps
            )
            return await self._begin(record, request.prompt, remember)

        return act

    async def _directory(self, request: Start) -> str:
        """Where the session is to work. What is on another machine, its runner judges."""
        if request.options.machine is not None:
            check_path(request.cwd)
            return request.cwd
        roots = self.services.settings.allowed_roots
        return await asyncio.to_thread(permitted_directory, request.cwd, roots)

    async def _begin(self, record: SessionStarted, prompt: Content, remember: Remember) -> Started:
        """Keep a new session with its first message, and start its CLI."""
        await self.check_wanted(record)
        session = Session(self.services, View(session_id=str(uuid.uuid4())))
        self.check_caps(session.view)
        said = session.prompt(prompt)
        await session.reserve()
        started = Started(session_id=session.session_id, state="active", prompt_id=said.id)
        await self.keep_new(session, [record, said], keys=remember(started))
        session.deliver()
        return started

    async def say(self, session_id: str, request: Say) -> Said:
        """Send a message: to the live CLI, or to one that is started for it."""

        async def act(remember: Remember) -> Said:
            session = await self.session(session_id)
            self.services.gate.check_mode("say", request.mode)
            self.check_caps(session.view)
            if request.mode is not None and request.mode != session.view.mode:
                await session.set_mode(request.mode)
            return await self.tell(session, request, remember)

        scope = f"say:{session_id}"
        return await self.services.tasks.finish(
            self.keys.once(scope, request.key, request, Said, act)
        )

    async def tell(
        self,
        session: Session,
        request: Say,
        remember: Remember = lambda _: (),
        *,
        by: str = "person",
        before: Sequence[AnyRecord] = (),
    ) -> Said:
        resumed = not session.has_cli
        said = session.prompt(request.content, priority=request.priority, by=by)
        await session.reserve()
        told = Said(
            session_id=session.session_id,
            prompt_id=said.id,
            state="awaiting_input" if session.view.open_questions else "active",
            resumed=resumed,
            queued=session.view.busy,
        )
        try:
            await session.write(*before, said, keys=remember(told)).committed
        except BaseException:
            session.give_up()
            raise
        session.deliver()
        return told

    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled:
        """Take a queued message back."""
        session = await self.known(session_id)
        if prompt_id not in session.view.queued:
            raise UnknownPrompt(
                f"no message {prompt_id} is queued in session {session_id}",
                advice="its status lists what is queued; what a turn has taken can be interrupted",
            )
        return Cancelled(prompt_id=prompt_id, cancelled=await session.cancel(prompt_id))

    async def interrupt(self, session_id: str) -> Interrupted:
        """Stop the running turn. The session takes messages as before."""
        session = await self.known(session_id)
        was_running = session.has_cli and (session.view.busy or bool(session.view.open_questions))
        queued = await session.interrupt() if was_running else list(session.view.queued)
        return Interrupted(
            session_id=session_id,
            state=session.view.state,
            was_running=was_running,
            still_queued=queued,
        )

    async def stop(self, session_id: str) -> Stopped:
        """End the session's CLI. A message starts it again."""
        session = await self.known(session_id)
        was_live = await session.stop()
        return Stopped(session_id=session_id, state=session.view.state, was_live=was_live)

    async def stop_all(self) -> AllStopped:
        """End every CLI there is, in order."""
        # Those that were let go of go on behind their relays, and hear nothing from here.
        self.recorder.check()
        live = [each for each in self.sessions.values() if each.has_cli]
        ends = await asyncio.gather(*(each.stop() for each in live), return_exceptions=True)
        for session, end in zip(live, ends, strict=True):
            if isinstance(end, BaseException):
                log.error("session %s could not be stopped: %s", session.session_id, end)
        return AllStopped(sessions=[each.session_id for each in live if not each.has_cli])

    async def fork(self, session_id: str, request: Fork) -> Started:
        """A new session that begins with this one's conversation."""

        async def act(remember: Remember) -> Started:
            parent = await self.session(session_id)
            view = parent.view
            if not view.has_conversation:
                raise NotNow(
                    f"session {session_id} has no conversation yet",
                    advice="wait for its first turn",
                )
            record = SessionStarted(
                cwd=view.cwd,
                options=request.options or replace(view.options, mode=parent.next_mode()),
                label=request.label or view.label,
                caps=view.caps,
                origin="fork",
                parent=session_id,
                fork_from=view.claude_session_id or session_id,
                fork_at=request.at,
            )
            return await self._begin(record, request.prompt, remember)

        scope = f"fork:{session_id}"
        return await self.services.tasks.finish(
            self.keys.once(scope, request.key, request, Started, act)
        )

    async def set_mode(self, session_id: str, mode: PermissionMode) -> ModeSet:
        """Switch the permission mode, in place wherever that is possible."""
        self.services.gate.check_mode("set_mode", mode)
        return await (await self.session(session_id)).set_mode(mode)
