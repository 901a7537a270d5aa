"""The verbs that begin sessions, talk to them and stop them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from pilothouse.api.records import AnyRecord, SessionArchived, SessionStarted
from pilothouse.api.requests import Caps, Fork, Say, SessionOptions, Start
from pilothouse.api.results import (
    AllStopped,
    Cancelled,
    Interrupted,
    ModeSet,
    Said,
    Started,
    Stopped,
)
from pilothouse.api.statuses import Listed
from pilothouse.api.values import ID_HAS, Content, is_id
from pilothouse.errors import NotNow, UnknownPrompt, UnknownSession, UsageError
from pilothouse.folders import make_private
from pilothouse.journal.contract import SessionFilter
from pilothouse.protocol.permissions import PermissionMode

from .adoption import Adoption
from .keys import Keys, Remember
from .launch_options import asked_options, check_directories, check_path, permitted_directory
from .services import Services
from .session import Session
from .session_list import SessionList
from .sessions import Sessions
from .values import check_values

__all__ = ["SessionVerbs"]

MOST_LOOKED_AT: Final = 100
"""How many sessions of a directory are looked at for one that can be continued."""

log = logging.getLogger("pilothouse")


class SessionVerbs:
    """Start, say, cancel, interrupt, stop, fork, set_mode.

    What is stored is also done, although the caller may have left meanwhile.
    """

    def __init__(
        self, services: Services, sessions: Sessions, adoption: Adoption, keys: Keys
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._adoption = adoption
        self._keys = keys
        self._list = SessionList(services, sessions)

    async def start(self, request: Start) -> Started:
        """Begin a session; its id is stored before its CLI is started."""
        self._services.recorder.check()

        async def act(remember: Remember) -> Started:
            cwd = await self._directory(request)
            if request.continue_latest:
                return await self._go_on(cwd, request, remember)
            record = SessionStarted(
                cwd=cwd,
                options=request.options,
                label=request.label,
                caps=request.caps,
                simulated=self._services.simulated,
                scratch=self._scratch(cwd, request.options),
            )
            return await self._begin(record, request.prompt, remember)

        return await self._services.tasks.finish(
            self._keys.once("start", request.key, request, Started, act)
        )

    async def _go_on(self, cwd: str, request: Start, remember: Remember) -> Started:
        """Say it to the session that was last used in the directory."""
        own = (replace(request.options, mode=None), request.label, request.caps)
        if own != (SessionOptions(), None, Caps()):
            raise UsageError(
                "a session that goes on has options, a label and caps of its own; "
                "leave all but options.mode out, or leave continue_latest out"
            )
        session = await self._adoption.adopted(await self._latest(cwd))
        self._services.spending.check(session.view)
        mode = request.options.mode
        self._services.gate.check_mode("start", mode)
        if mode is not None and mode != session.view.mode:
            await session.set_mode(mode)
        said = await self.send(
            session, Say(content=request.prompt), lambda said: remember(_continued(session, said))
        )
        return _continued(session, said)

    async def _latest(self, cwd: str) -> str:
        """The session that was last used in a directory and that a CLI of ours can go on with."""
        listing = await self._list.page(SessionFilter(cwd=cwd), limit=MOST_LOOKED_AT, offset=0)
        for each in listing.sessions:
            if each.resumable and not each.foreign and each.machine is None:
                return each.session_id
        raise UnknownSession(
            f"no session in {cwd} can be continued", advice="leave continue_latest out to begin one"
        )

    async def _directory(self, request: Start) -> str:
        """Where the session is to work. What is on another machine, its runner judges."""
        if request.options.machine is not None:
            check_path(request.cwd)
            return request.cwd
        roots = self._services.settings.allowed_roots
        return await asyncio.to_thread(permitted_directory, request.cwd, roots)

    def _scratch(self, cwd: str, options: SessionOptions) -> str | None:
        """The folder to work in instead: nothing of the user's is for the simulator to change."""
        scratch = self._services.scratch
        if scratch is None or options.machine is not None or options.simulate_in_cwd:
            return None
        return scratch.folder_for(cwd)

    async def _begin(self, record: SessionStarted, prompt: Content, remember: Remember) -> Started:
        """Store a new session with its first message, and start its CLI."""
        await self.check_start(record)
        session = self._sessions.new()
        self._services.spending.check(session.view)
        said = session.prompt(prompt)
        await session.cli.reserve()
        started = Started(
            session_id=session.session_id,
            state="active",
            prompt_id=said.id,
            simulated=record.simulated,
            scratch=record.scratch,
        )
        await self._sessions.write_new(session, [record, said], keys=remember(started))
        session.deliver()
        return started

    async def check_start(self, record: SessionStarted) -> None:
        """Refuse options that no CLI may be started with, before anything is stored."""
        # They may be long, or a disk may hang, and there are others to be served.
        await asyncio.to_thread(self._check_options, record)
        await self._services.routes.check(record.options)

    def _check_options(self, record: SessionStarted) -> None:
        if record.fork_at is not None and not is_id(record.fork_at):
            raise UsageError(f"`at` is the uuid of a message; {ID_HAS}")
        check_values(record.options)
        settings, gate = self._services.settings, self._services.gate
        options = asked_options(
            record.options,
            cwd=record.cwd,
            mode=record.options.mode,
            allow_bypass=gate.allowed,
            allowed_env=settings.allowed_env,
        )
        gate.check_options(options)
        if record.options.machine is None:
            check_directories(record.options, record.cwd, settings.allowed_roots)
        if record.scratch is not None:
            make_private(Path(record.scratch))

    async def say(self, session_id: str, request: Say) -> Said:
        """Send a message: to the live CLI, or to one that is started for it."""

        async def act(remember: Remember) -> Said:
            session = await self._adoption.adopted(session_id)
            self._services.gate.check_mode("say", request.mode)
            self._services.spending.check(session.view)
            if request.mode is not None and request.mode != session.view.mode:
                await session.set_mode(request.mode)
            return await self.send(session, request, remember)

        return await self._services.tasks.finish(
            self._keys.once(f"say:{session_id}", request.key, request, Said, act)
        )

    async def send(
        self,
        session: Session,
        request: Say,
        remember: Remember = lambda _: (),
        *,
        by: str = "person",
        before: Sequence[AnyRecord] = (),
    ) -> Said:
        """Store a message, with the records before it, and deliver it."""
        resumed = not session.has_cli
        said = session.prompt(request.content, priority=request.priority, by=by)
        await session.cli.reserve()
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
            session.cli.release()
            raise
        session.deliver()
        return told

    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled:
        """Take a queued message back."""
        session = await self._adoption.own(session_id)
        if prompt_id not in session.view.queued:
            raise UnknownPrompt(
                f"no message {prompt_id} is queued in session {session_id}",
                advice="its status lists what is queued; what a turn has taken can be interrupted",
            )
        return Cancelled(prompt_id=prompt_id, cancelled=await session.cancel(prompt_id))

    async def interrupt(self, session_id: str) -> Interrupted:
        """Stop the running turn. The session takes messages as before."""
        session = await self._adoption.own(session_id)
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
        session = await self._adoption.own(session_id)
        was_live = await session.stop()
        return Stopped(session_id=session_id, state=session.view.state, was_live=was_live)

    async def archive(self, session_id: str, *, archived: bool = True) -> Listed:
        """Put a session into the archive, where lists do not show it, or take it out."""
        session = await self._adoption.adopted(session_id)
        view = session.view
        if archived and (not view.idle or view.queued or view.questions):
            raise NotNow(
                f"session {session_id} is at work, and would do it unseen",
                advice="stop it, or answer what it asks, and archive it then",
            )
        if archived != view.archived:
            await session.write(SessionArchived(archived=archived)).committed
        return session.listed()

    async def stop_all(self) -> AllStopped:
        """End every CLI there is, in order."""
        # Those that were let go of go on behind their relays, and nothing from here reaches them.
        self._services.recorder.check()
        live = [each for each in self._sessions.all.values() if each.has_cli]
        ends = await asyncio.gather(*(each.stop() for each in live), return_exceptions=True)
        for session, end in zip(live, ends, strict=True):
            if isinstance(end, BaseException):
                log.error("session %s could not be stopped: %s", session.session_id, end)
        return AllStopped(sessions=[each.session_id for each in live if not each.has_cli])

    async def fork(self, session_id: str, request: Fork) -> Started:
        """Begin a new session with this one's conversation."""

        async def act(remember: Remember) -> Started:
            parent = await self._adoption.adopted(session_id)
            view = parent.view
            if not view.has_conversation:
                raise NotNow(
                    f"session {session_id} has no conversation yet",
                    advice="wait for its first turn",
                )
            if not view.options.persist_session:
                raise NotNow(
                    f"session {session_id} has no transcript that another could begin with",
                    advice="start another; persist_session keeps a transcript",
                )
            record = SessionStarted(
                cwd=view.cwd,
                options=request.options or replace(view.options, mode=parent.cli.next_mode()),
                label=request.label or view.label,
                caps=view.caps,
                origin="fork",
                parent=session_id,
                fork_from=view.claude_session_id or session_id,
                fork_at=request.at,
                simulated=self._services.simulated,
                scratch=view.scratch,
            )
            return await self._begin(record, request.prompt, remember)

        return await self._services.tasks.finish(
            self._keys.once(f"fork:{session_id}", request.key, request, Started, act)
        )

    async def set_mode(self, session_id: str, mode: PermissionMode) -> ModeSet:
        """Switch the permission mode, in place wherever that is possible."""
        self._services.gate.check_mode("set_mode", mode)
        return await (await self._adoption.adopted(session_id)).set_mode(mode)


def _continued(session: Session, said: Any) -> Started:
    return Started(
        session_id=said.session_id,
        state=said.state,
        prompt_id=said.prompt_id,
        simulated=session.view.simulated,
        scratch=session.view.scratch,
        continued=True,
    )
