"""The sessions an engine has: which there are, which may run, and what is told of them again."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pilothouse.api.contract import ID_HAS, Question, is_id
from pilothouse.api.records import AnyRecord, SessionStarted
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.errors import (
    CapReached,
    NotNow,
    PilothouseError,
    Refused,
    TooManySessions,
    UnknownQuestion,
    UnknownSession,
    UsageError,
)
from pilothouse.history import Found, History
from pilothouse.journal.contract import Journal, KeyRow, Snapshot
from pilothouse.settings import Settings

from .gate import OperatorGate
from .guests import Guests
from .keys import Keys
from .launch_options import check_directories, client_options, permitted_directory
from .policy import PolicyFile
from .recorder import Recorder, day_of
from .routes import PipeRoutes, Routes
from .services import ClientMaker, Services
from .session import Session
from .values import check_values
from .view import View
from .writers import Writers

__all__ = ["PAGE", "Registry"]

log = logging.getLogger("pilothouse")

PAGE = 1000
"""Entries that are read at once."""
DAY = 24 * 60 * 60 * 1000
HOUSEKEEPING = 60 * 60.0
"""Seconds between two looks for what is no longer to be kept."""


def _client(options: Options, *, sink: Sink, **parts: Any) -> Client:
    return Client(options, sink=sink, **parts)


class Registry:
    """What every verb of an engine stands on."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        *,
        cli_path: str | Path | None = None,
        simulated: bool = False,
        lack: str | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        make_client: ClientMaker = _client,
        routes: Routes | None = None,
    ) -> None:
        self.journal = journal
        self.recorder = Recorder(journal)
        self.keys = Keys(journal)
        self.sessions: dict[str, Session] = {}
        self.started_at = self.recorder.clock()
        self.left = 0
        """How many CLIs went on when this engine ended."""
        self._housekeeping: list[asyncio.Task[None]] = []
        self._spent: dict[str, float] = {}
        """What each day has cost, of those this engine has seen."""
        self.services = Services(
            settings=settings,
            journal=journal,
            recorder=self.recorder,
            policy=PolicyFile(settings.policy_file, home=_home(env)),
            history=History(settings.claude_config_dir, index=settings.state_dir / "history.index"),
            writers=Writers(settings.claude_config_dir / ".pilothouse" / "writers"),
            gate=OperatorGate(allowed=settings.allow_bypass),
            make_client=make_client,
            routes=routes or PipeRoutes(),
            make_room=self._make_room,
            turn_ended=self._count,
            check_caps=self.check_caps,
            is_capped=self.is_capped,
            check_alone=lambda view: self.guests.check_absent(view),
            cli_path=cli_path or settings.cli_path,
            simulated=simulated,
            lack=lack,
            env=dict(env or {}),
            inherit_env=inherit_env,
        )
        self.guests = Guests(self.services)

    # Life

    async def recover(self) -> None:
        """Tell every session again, and note what ended while nobody looked."""
        today = day_of(self.recorder.clock())
        spent = await self.journal.costs("day", day=today)
        self._spent[today] = sum(line.usd for line in spent)
        for snapshot in await self.journal.sessions():
            view = await self._retold(snapshot)
            session = self.sessions[view.session_id] = Session(self.services, view)
            lost = await self._taken_up(session)
            if lost:
                session.lost(lost)
            self.guests.expect(session)
        self.services.routes.tidy({each.view.run for each in self.sessions.values()})
        self._finish_plans()
        self._housekeeping = [
            self.services.tasks.spawn(self._keep_house()),
            self.services.tasks.spawn(self._mind_journal()),
        ]

    async def _taken_up(self, session: Session) -> str:
        """Why a session has lost its CLI; empty if it rests, or its CLI goes on."""
        view = session.view
        if not (view.live or view.busy or view.own_questions):
            return ""
        if not view.run:
            return "the server ended"
        try:
            goes_on = await session.take_up()
        except PilothouseError as error:
            log.error("session %s cannot go on: %s", session.session_id, error)
            return f"the server came back and could not go on with it: {error}"
        return "" if goes_on else "its relay was gone when the server came back"

    def _finish_plans(self) -> None:
        """Make up for what was cut off after a plan was handed to a new session."""
        for session in list(self.sessions.values()):
            successor = self.sessions.get(session.view.successor or "")
            if successor is None or successor.view.run_seq or not successor.view.queued:
                continue
            if not successor.has_cli:
                self.services.tasks.spawn(self._hand_over(session, successor))

    async def _hand_over(self, session: Session, successor: Session) -> None:
        if session.has_cli:
            await session.stop()
        try:
            await successor.reserve()
        except Refused as refused:
            log.warning("session %s does not begin: %s", successor.session_id, refused)
        else:
            successor.deliver()

    async def _retold(self, snapshot: Snapshot) -> View:
        try:
            view = View.restore(snapshot)
        except ValueError:
            view = View(session_id=snapshot.session_id)
        cursor = view.last_seq
        while True:
            batch = await self.journal.read(
                cursor, session_id=view.session_id, limit=PAGE, partials=False
            )
            for event in batch.events:
                view.apply(event.seq, event.kind, event.at, bytes(event.body))
            if not batch.events:
                return view
            cursor = batch.events[-1].seq

    async def retain(self) -> int:
        """Forget the sessions that the retention setting no longer keeps; how many entries."""
        days = self.services.settings.retention_days
        if not days:
            return 0
        at_work = [name for name in self.sessions if self._is_at_work(name)]
        before = self.recorder.clock() - days * DAY
        removed = await self.journal.retain(before=before, keep=at_work)
        kept = {snapshot.session_id for snapshot in await self.journal.sessions()}
        for name in [name for name in self.sessions if name not in kept]:
            if not self._is_at_work(name):
                del self.sessions[name]
        return removed

    def _is_at_work(self, session_id: str) -> bool:
        """Whether anything of a session is yet to come, perhaps a question of a guest's."""
        return self.sessions[session_id].is_at_work or self.guests.hosts(session_id)

    async def _keep_house(self) -> None:
        while True:
            await self.retain()
            await asyncio.sleep(HOUSEKEEPING)

    async def _mind_journal(self) -> None:
        """Let go of every CLI once nothing can be kept: those behind relays wait for a server that
        can, with what they say, and every other one is ended."""
        await self.journal.broken()
        log.error(
            "nothing can be kept any more, so every CLI is let go of: %s", self.journal.failed
        )
        self.guests.leave()
        await self._let_go("nothing can be kept")

    async def aclose(self) -> None:
        """Leave every CLI that goes on behind its relay, end every other one in order, and close
        the journal."""
        self.services.is_closing = True
        for task in self._housekeeping:
            task.cancel()
        self.guests.leave()
        await self._let_go("the server stopped")
        await self.services.tasks.settle()
        await self.journal.aclose()

    async def _let_go(self, reason: str) -> None:
        async def one(session: Session) -> bool:
            if await session.leave():
                return True
            await session.close(reason, decidable=True)
            return False

        # What goes wrong with one is logged, and keeps no other and no file open.
        left = await asyncio.gather(*map(one, self.sessions.values()), return_exceptions=True)
        for error in (each for each in left if isinstance(each, Exception)):
            log.error("a session could not be let go of: %s", error, exc_info=error)
        self.left += sum(each is True for each in left)

    # Which session

    async def known(self, session_id: str) -> Session:
        """One of ours whose CLI, if it has one, is ours as well."""
        session = await self.session(session_id, adopt=False)
        self._check_alone(session)
        return session

    def held(self, session_id: str) -> Session | None:
        """One of ours, by its own id or by that of its conversation."""
        return self.sessions.get(session_id) or self._conversing(session_id)

    async def session(self, session_id: str, *, adopt: bool = True) -> Session:
        """One of ours, or one that was made elsewhere and has a transcript."""
        # First of all: a session that was let go of would seem to be somebody else's.
        self.recorder.check()
        session = self.held(session_id)
        if session is not None:
            if adopt:
                await self._make_ours(session)
            return session
        found = await self.services.history.find(session_id) if adopt else None
        if found is None or found.cwd is None:
            raise UnknownSession(
                f"there is no session {session_id}", advice=self._nearest(session_id)
            )
        cwd = await self._permitted(found.cwd)
        if session_id in self.sessions:
            return self.sessions[session_id]
        view = View(session_id=session_id)
        record = SessionStarted(
            cwd=cwd, origin="adopted", title=found.title, claude_session_id=session_id
        )
        session = self.sessions[session_id] = Session(self.services, view)
        await session.write(record).committed
        return session

    async def _make_ours(self, session: Session) -> None:
        """Make sure that a CLI of ours may go on with a session."""
        view = session.view
        self._check_alone(session)
        if session.is_held or not (view.origin == "foreign" or view.guest_at):
            return
        found = await self.services.history.find(view.claude_session_id)
        if found is not None:
            self.guests.check_silent(view, found.updated_at)
        if view.origin == "foreign":
            await self._adopt(session, found)

    async def _adopt(self, session: Session, found: Found | None) -> None:
        """Take over the session of a guest that has gone, where its transcript says it is."""
        view = session.view
        if found is None or found.cwd is None:
            raise NotNow(
                f"the conversation of session {session.session_id} is not on this machine",
                advice="go on with it where it was begun",
            )
        cwd = await self._permitted(found.cwd)
        self._check_alone(session)
        if view.origin == "foreign":
            record = SessionStarted(
                cwd=cwd,
                label=view.label,
                origin="adopted",
                title=view.title or found.title,
                claude_session_id=view.claude_session_id,
            )
            await session.write(record).committed

    def _check_alone(self, session: Session) -> None:
        if not session.is_held:
            self.guests.check_absent(session.view)

    async def _permitted(self, cwd: str) -> str:
        roots = self.services.settings.allowed_roots
        return await asyncio.to_thread(permitted_directory, cwd, roots)

    def _conversing(self, claude_id: str) -> Session | None:
        """The session whose conversation the CLI calls so, after /clear say."""
        of_that_name = (s for s in self.sessions.values() if s.view.claude_session_id == claude_id)
        return next(of_that_name, None)

    def _nearest(self, session_id: str) -> str:
        near = difflib.get_close_matches(session_id, self.sessions, n=3, cutoff=0.4)
        return f"did you mean {', '.join(near)}?" if near else "list the sessions"

    async def asked(self, question_id: str) -> tuple[Question, Session | None]:
        """The question, and the session that still takes an answer to it."""
        self.recorder.check()
        question = await self.journal.question(question_id)
        if question is None or question.decidable:
            for session in self.sessions.values():
                held = session.view.questions.get(question_id)
                if held is not None:
                    return held, session
            # Settled a moment ago, perhaps: what it came to is not committed yet.
            await self.recorder.kept()
            question = await self.journal.question(question_id)
        if question is None:
            raise UnknownQuestion(
                f"there is no question {question_id}", advice="list the open questions"
            )
        return question, None

    async def keep_new(
        self,
        session: Session,
        records: Sequence[AnyRecord],
        *,
        before: Sequence[tuple[View, AnyRecord]] = (),
        keys: Sequence[KeyRow] = (),
    ) -> None:
        try:
            pairs = [*before, *((session.view, record) for record in records)]
            posted = self.recorder.write_all(pairs, keys=keys)
            self.sessions[session.session_id] = session
            await posted.committed
        except BaseException:
            session.give_up()
            raise

    # Limits

    async def check_wanted(self, record: SessionStarted) -> None:
        """Refuse options that no CLI may be started with, before anything is kept."""
        # They may be long, or a disk may hang, and there are others to be served.
        await asyncio.to_thread(self._check_options, record)
        await self.services.routes.check(record.options)

    def _check_options(self, record: SessionStarted) -> None:
        if record.fork_at is not None and not is_id(record.fork_at):
            raise UsageError(f"`at` is the uuid of a message; {ID_HAS}")
        check_values(record.options)
        options = client_options(
            record.options,
            cwd=record.cwd,
            mode=record.options.mode,
            allow_bypass=self.services.gate.allowed,
            allowed_env=self.services.settings.allowed_env,
            partials=False,
            cli_path=None,
            env={},
            inherit_env=False,
            conversation={},
            handlers={},
        )
        self.services.gate.check_options(options)
        if record.options.machine is None:
            check_directories(record.options, record.cwd, self.services.settings.allowed_roots)

    def is_capped(self, view: View) -> bool:
        """Whether a limit is set to what the session may cost."""
        return self._session_cap(view) is not None or self.services.settings.day_cap_usd is not None

    def _session_cap(self, view: View) -> float | None:
        own = view.caps.session_usd
        return self.services.settings.session_cap_usd if own is None else own

    def check_caps(self, view: View) -> None:
        cap = self._session_cap(view)
        if cap is not None and view.cost_usd >= cap:
            raise CapReached(
                f"session {view.session_id} has cost ${view.cost_usd:.4f} of ${cap:g}",
                advice="start a new session, or raise session_cap_usd",
            )
        today, day_cap = self.spent_today(), self.services.settings.day_cap_usd
        if day_cap is not None and today >= day_cap:
            raise CapReached(
                f"today's sessions have cost ${today:.4f} of ${day_cap:g}",
                advice="go on tomorrow, or raise day_cap_usd",
            )

    def spent_today(self) -> float:
        """What all sessions have cost since midnight."""
        return self._spent.get(day_of(self.recorder.clock()), 0.0)

    def _count(self, usd: float) -> None:
        day = day_of(self.recorder.clock())
        self._spent[day] = self._spent.get(day, 0.0) + usd

    def _make_room(self, *excluded: str) -> asyncio.Task[None] | None:
        others = [each for name, each in self.sessions.items() if name not in excluded]
        live = [each for each in others if each.has_cli]
        if len(live) < self.services.settings.max_sessions:
            return None
        idle = min((each for each in live if each.is_idle), key=_last_used, default=None)
        if idle is None:
            raise TooManySessions(
                f"{len(live)} sessions run and none of them is idle",
                advice="wait for one, stop one, or raise MAX_SESSIONS",
            )
        return idle.retire()


def _last_used(session: Session) -> int:
    return session.last_used


def _home(env: Mapping[str, str] | None) -> Path | None:
    home = (env or {}).get("HOME")
    return None if home is None else Path(home)
