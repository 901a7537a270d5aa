"""The engine in this process: it owns sessions and their journal, and is the one writer.

    Sessions        which there are
    Adoption        which of them a caller means; those begun elsewhere
    Recovery        opening, retention, the end
    SessionVerbs    start, say, cancel, interrupt, stop, fork, set_mode
    QuestionDesk    questions and their answers
    ForeignAsks     what CLIs ask that are not the engine's
    CLIControls     requests to a live CLI
    Reports         status, list, read, watch, policy, cost, health
    Conversations   what a person reads of a session
    SessionChangesFeed  what changes of the list
    DialIns         CLIs that somebody starts by hand
    Machines        runners

Every verb stores its request before it acts on it, and returns once that is committed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch
from pilothouse.api.items import ConversationPage, ConversationPatches, ItemSource
from pilothouse.api.questions import Answered, Asked, FileChange, Question, QuestionFilter
from pilothouse.api.requests import Ask, DialIn, Fork, Say, Start
from pilothouse.api.results import (
    Activity,
    AllStopped,
    Cancelled,
    CostGroup,
    CostReport,
    DialInOpened,
    DialInWaiting,
    DryRun,
    Health,
    Interrupted,
    ModeSet,
    Paths,
    PolicyReport,
    Rewound,
    Runner,
    RunnerAdded,
    Said,
    Started,
    Stopped,
    Timeline,
)
from pilothouse.api.statuses import Listed, Listing, SessionChanges, Status
from pilothouse.api.values import JsonObject, State
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.folders import make_private
from pilothouse.history import History
from pilothouse.journal.contract import Journal, SessionFilter
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.protocol.permissions import PermissionMode
from pilothouse.settings import Settings

from .adoption import Adoption
from .cli_controls import CLIControls
from .conversations import Conversations
from .dial_ins import DialIns
from .foreign import ForeignCLIs
from .foreign_asks import ForeignAsks
from .gate import OperatorGate
from .keys import Keys
from .limits import Slots, Spending
from .machines import Machines
from .path_completion import PathCompletion
from .policy import PolicyFile
from .question_desk import QuestionDesk
from .recorder import Recorder
from .recovery import Recovery
from .reports import Reports
from .routes import PipeRoutes, Routes
from .scratch import Scratch
from .services import ClientMaker, Services
from .session import Session
from .session_changes import SessionChangesFeed
from .session_list import words_of
from .session_verbs import SessionVerbs
from .sessions import Sessions
from .writers import Writers

__all__ = ["SessionEngine"]

Objects = list[JsonObject]
Runners = list[Runner]
Waiting = list[DialInWaiting]


def _client(options: Options, *, sink: Sink, **parts: Any) -> Client:
    return Client(options, sink=sink, **parts)


class SessionEngine:
    """Implements `api.engine.Engine`; each verb is a part's."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        *,
        cli_path: str | Path | None = None,
        simulated: bool = False,
        scratch: Path | None = None,
        lack: str | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        make_client: ClientMaker = _client,
        routes: Routes | None = None,
    ) -> None:
        recorder = Recorder(journal)
        home = (env or {}).get("HOME")
        self.journal = journal
        self.recorder = recorder
        self.services = services = Services(
            settings=settings,
            journal=journal,
            recorder=recorder,
            policy=PolicyFile(settings.policy_file, home=None if home is None else Path(home)),
            history=History(settings.claude_config_dir, index=settings.state_dir / "history.index"),
            writers=Writers(settings.claude_config_dir / ".pilothouse" / "writers"),
            gate=OperatorGate(allowed=settings.allow_bypass),
            make_client=make_client,
            routes=routes or PipeRoutes(),
            slots=Slots(settings.max_sessions),
            spending=Spending(settings, recorder),
            foreign=ForeignCLIs(recorder),
            cli_path=cli_path or settings.cli_path,
            simulated=simulated,
            scratch=None if scratch is None else Scratch(scratch),
            lack=lack,
            env=dict(env or {}),
            inherit_env=inherit_env,
        )
        sessions = Sessions(services)
        adoption = Adoption(services, sessions)
        self.sessions: dict[str, Session] = sessions.all
        """Those in memory."""
        self.keys = Keys(journal)
        self._verbs = verbs = SessionVerbs(services, sessions, adoption, self.keys)
        self._asks = asks = ForeignAsks(services, sessions)
        self._desk = QuestionDesk(services, sessions, verbs, asks)
        self._controls = CLIControls(services, adoption, verbs)
        self._reports = Reports(services, sessions, adoption)
        self._conversations = Conversations(services, adoption)
        self._paths = PathCompletion(services, adoption)
        self._dial_ins = DialIns(services, sessions, verbs)
        self._machines = Machines(services.routes)
        self._changes = SessionChangesFeed(services, sessions)
        self._recovery = Recovery(services, sessions, asks, self._changes)

    @classmethod
    async def open(
        cls, settings: Settings, *, journal: Journal | None = None, **parts: Any
    ) -> Self:
        """Open the journal, restore what is at work, and note what ended while no engine ran."""
        if journal is None:
            make_private(settings.state_dir)
            journal = await SqliteJournal.open(settings.state_dir / "journal.db")
        engine = cls(settings, journal, **parts)
        await engine.recover()
        return engine

    async def recover(self) -> None:
        """Restore every session at work, and note what ended while no engine ran."""
        await self._recovery.open()

    async def aclose(self) -> None:
        """Leave the CLIs behind relays, end every other one in order, and close the journal."""
        self._dial_ins.close()
        await self._recovery.close()

    async def retain(self) -> int:
        """Remove sessions that have rested for longer than is set; return the number of entries."""
        return await self._recovery.retain()

    @property
    def left(self) -> int:
        """How many CLIs went on when this engine ended."""
        return self._recovery.left

    # Sessions

    async def start(self, request: Start) -> Started:
        return await self._verbs.start(request)

    async def say(self, session_id: str, request: Say) -> Said:
        return await self._verbs.say(session_id, request)

    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled:
        return await self._verbs.cancel(session_id, prompt_id)

    async def interrupt(self, session_id: str) -> Interrupted:
        return await self._verbs.interrupt(session_id)

    async def stop(self, session_id: str) -> Stopped:
        return await self._verbs.stop(session_id)

    async def stop_all(self) -> AllStopped:
        return await self._verbs.stop_all()

    async def archive(self, session_id: str, *, archived: bool = True) -> Listed:
        return await self._verbs.archive(session_id, archived=archived)

    async def fork(self, session_id: str, request: Fork) -> Started:
        return await self._verbs.fork(session_id, request)

    async def set_mode(self, session_id: str, mode: PermissionMode) -> ModeSet:
        return await self._verbs.set_mode(session_id, mode)

    # Their CLIs

    async def set_model(self, session_id: str, model: str | None) -> Status:
        return await self._controls.set_model(session_id, model)

    async def set_thinking(self, session_id: str, tokens: int | None) -> Status:
        return await self._controls.set_thinking(session_id, tokens)

    async def rewind(self, session_id: str, prompt_id: str, *, preview: bool = False) -> Rewound:
        return await self._controls.rewind(session_id, prompt_id, preview=preview)

    async def compact(self, session_id: str, instructions: str | None = None) -> Said:
        return await self._controls.compact(session_id, instructions)

    async def mcp_status(self, session_id: str) -> Objects:
        return await self._controls.mcp_status(session_id)

    async def mcp_reconnect(self, session_id: str, server: str) -> Objects:
        return await self._controls.mcp_reconnect(session_id, server)

    async def mcp_toggle(self, session_id: str, server: str, *, enabled: bool) -> Objects:
        return await self._controls.mcp_toggle(session_id, server, enabled=enabled)

    async def mcp_message(self, session_id: str, server: str, *, message: JsonObject) -> JsonObject:
        return await self._controls.mcp_message(session_id, server, message=message)

    async def mcp_set(self, session_id: str, servers: dict[str, JsonObject]) -> JsonObject:
        return await self._controls.mcp_set(session_id, servers)

    async def greeting(self, session_id: str) -> JsonObject:
        return await self._controls.greeting(session_id)

    async def context_usage(self, session_id: str) -> JsonObject:
        return await self._controls.context_usage(session_id)

    async def commands(self, session_id: str) -> Objects:
        return await self._controls.commands(session_id)

    async def models(self, session_id: str) -> Objects:
        return await self._controls.models(session_id)

    async def control(self, session_id: str, subtype: str, fields: JsonObject) -> JsonObject:
        return await self._controls.control(session_id, subtype, fields)

    # Questions

    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered:
        return await self._desk.answer(question_id, answer, by=by)

    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: QuestionFilter = "decidable",
        limit: int = 500,
        before: str | None = None,
    ) -> Sequence[Question]:
        return await self._desk.list(session_id=session_id, state=state, limit=limit, before=before)

    async def question(self, question_id: str) -> Question:
        return (await self._desk.find(question_id))[0]

    async def file_change(self, question_id: str) -> FileChange:
        return await self._desk.file_change(question_id)

    async def ask(self, request: Ask) -> Asked:
        return await self._asks.ask(request)

    async def withdraw(self, question_id: str, because: str) -> Question:
        return await self._desk.withdraw(question_id, because)

    # What there is

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status:
        return await self._reports.status(session_id, output_lines=output_lines, after=after)

    async def wait(
        self,
        session_id: str,
        *,
        seconds: float = 60.0,
        after: int | None = None,
        at_rest: bool = False,
    ) -> Status:
        return await self._reports.wait(session_id, seconds=seconds, after=after, at_rest=at_rest)

    async def list(
        self,
        *,
        cwd: str | None = None,
        limit: int = 50,
        offset: int = 0,
        live: bool = False,
        search: str = "",
        state: State | None = None,
        label: str | None = None,
        machine: str | None = None,
        archived: bool = False,
    ) -> Listing:
        which = SessionFilter(
            cwd=cwd,
            state=state,
            label=label,
            machine=machine,
            archived=archived,
            words=words_of(search),
        )
        return await self._reports.list(which, limit=limit, offset=offset, live=live)

    async def directories(self, path: str) -> Paths:
        return Paths(paths=await self._paths.directories(path))

    async def files(self, session_id: str, *, query: str = "") -> Paths:
        return Paths(paths=await self._paths.files(session_id, query))

    async def conversation(
        self,
        session_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        search: str = "",
    ) -> ConversationPage:
        conversations = self._conversations
        if search:
            return await conversations.search(
                session_id, search, before=before, after=after, limit=limit
            )
        return await conversations.page(session_id, before=before, after=after, limit=limit)

    async def item_source(self, session_id: str, item: str) -> ItemSource:
        return await self._conversations.source(session_id, item)

    def cassette(self, session_id: str) -> AsyncGenerator[bytes]:
        return self._reports.cassette(session_id)

    async def timeline(self, session_id: str) -> Timeline:
        return await self._conversations.timeline(session_id)

    def follow(
        self, session_id: str, after: int | None = None
    ) -> AsyncGenerator[ConversationPatches]:
        return self._conversations.follow(session_id, after)

    def follow_sessions(self, after: int | None = None) -> AsyncGenerator[SessionChanges]:
        return self._changes.follow(after)

    async def read(
        self, after: int = 0, *, session_id: str | None = None, limit: int = 500
    ) -> Batch:
        return await self._reports.read(after, session_id=session_id, limit=limit)

    def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        return self._reports.watch(after, session_id=session_id)

    async def policy(self) -> PolicyReport:
        return await self._reports.policy()

    async def policy_dry_run(self, text: str) -> DryRun:
        return await self._reports.policy_dry_run(text)

    async def save_policy(self, text: str, *, replaces: str | None = None) -> PolicyReport:
        return await self._reports.save_policy(text, replaces=replaces)

    async def cost(
        self,
        by: CostGroup = "session",
        *,
        session_id: str | None = None,
        since: int | None = None,
        limit: int = 1000,
        before: str | None = None,
    ) -> CostReport:
        return await self._reports.cost(
            by, session_id=session_id, since=since, limit=limit, before=before
        )

    async def activity(self, *, since: int = 0) -> Activity:
        return await self._reports.activity(since)

    async def settings(self) -> JsonObject:
        return await self._reports.settings()

    async def health(self) -> Health:
        return await self._reports.health()

    # Machines

    async def dial_in(self, request: DialIn) -> DialInOpened:
        return await self._dial_ins.open(request)

    async def dial_ins(self) -> Waiting:
        return await self._dial_ins.list()

    async def runners(self) -> Runners:
        return await self._machines.runners()

    async def add_runner(self, name: str) -> RunnerAdded:
        return await self._machines.add_runner(name)

    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner:
        return await self._machines.drain_runner(name, draining=draining)

    async def revoke_runner(self, name: str) -> Runner:
        return await self._machines.revoke_runner(name)
