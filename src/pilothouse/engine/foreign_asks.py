"""What CLIs ask that are not the engine's: each ask becomes a question of a session.

`ask` may be repeated for as long as somebody waits: a question that was asked before is the same
one, also after a restart, and one that is settled is returned as it was settled. A question that
nobody has waited for during the lease is withdrawn. An engine that comes back leaves questions open
for as long.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from pilothouse.api.answers import Answer, Deny
from pilothouse.api.problems import ENDING
from pilothouse.api.questions import Asked, Question
from pilothouse.api.records import QuestionClosed, SessionStarted
from pilothouse.api.requests import LONGEST_WAIT, Ask
from pilothouse.api.values import ID_HAS, JsonObject, is_id
from pilothouse.client.permissions import PermissionRequest, as_request
from pilothouse.errors import (
    JournalError,
    NotNow,
    PilothouseError,
    Refused,
    ServerError,
    TooManySessions,
    UsageError,
)
from pilothouse.protocol import CanUseTool, PermissionAllow
from pilothouse.protocol.wire import encode_json

from .ask_handler import AskHandler
from .launch_options import permitted_directory
from .questions import settled
from .questions.question import question_id
from .services import Services
from .session import Session
from .sessions import Sessions

__all__ = ["ForeignAsks"]

MOST_ASKS: Final = 1000
"""How many questions of foreign CLIs may be open at once."""
GONE: Final = "the CLI that asked has gone"
YES_LASTS_S: Final = 600
"""How long a yes is repeated: who was cut off asks again sooner."""
LATE: Final = (
    "This was allowed more than 10 minutes ago, for what was asked then; it is not told again. "
    "Ask under another id."
)


class OpenAsk:
    """One open question of a foreign CLI, and how many wait for its answer."""

    def __init__(self, session: Session, question_id: str, request: PermissionRequest) -> None:
        self.session = session
        self.question_id = question_id
        self.request = request
        self.waiting = 0
        self.shown = asyncio.Event()
        """The question is stored, or there is none any more."""
        self.failed: PilothouseError | None = None
        self.task: asyncio.Task[None]
        self.lease: asyncio.TimerHandle | None = None

    @property
    def question(self) -> Question | None:
        """The question while it is open."""
        question = self.session.view.questions.get(self.question_id)
        return question if question is not None and question.state == "open" else None

    def stop_lease(self) -> None:
        if self.lease is not None:
            self.lease.cancel()
            self.lease = None


class ForeignAsks:
    """Serves CLIs that somebody else has started."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions
        self._arriving = asyncio.Lock()
        """Held while it is looked up whether a question is there already."""
        self._open: dict[str, OpenAsk] = {}
        self._handlers: dict[str, AskHandler] = {}
        """By session, of those in which somebody waits for an answer."""

    # What such a CLI asks

    async def ask(self, request: Ask) -> Asked:
        """Wait a while for the answer to what such a CLI asks."""
        self._check(request)
        request = replace(request, session_id=_one_spelling(request.session_id))
        try:
            return await self._answered_in_time(request)
        except JournalError:
            if not self._services.is_closing:
                raise
            # It was closed while this was looked up.
            raise ServerError(ENDING) from None

    def _check(self, request: Ask) -> None:
        if self._services.is_closing:
            raise ServerError(ENDING)
        self._services.recorder.check()
        # It may become the name of a file.
        if not is_id(request.session_id):
            raise UsageError(f"session_id: {ID_HAS}")

    async def _answered_in_time(self, request: Ask) -> Asked:
        found = await self._find(request) or await self._arrive(request)
        if isinstance(found, Question):
            self._note(found.session_id)
            return self._told(found)
        await self._wait(found, min(max(request.wait_s, 0.0), LONGEST_WAIT))
        if found.failed is not None:
            raise found.failed
        question = found.question
        if question is not None and not found.task.done():
            return Asked(question=question)
        await asyncio.wait([found.task])
        return await self._settled(found)

    async def withdraw(self, question: Question, session: Session | None, because: str) -> None:
        """Close a question of such a CLI that wants no answer any more."""
        if not question.foreign:
            raise Refused(
                f"question {question.id} is asked by a CLI of the engine's, which takes it back",
                advice="answer it, or interrupt its session",
            )
        if session is not None and question.state == "open":
            await self._withdraw(session, question, because)

    async def _find(self, request: Ask) -> OpenAsk | Question | None:
        """The open ask that this one repeats, or its question as it was settled."""
        session = await self._sessions.find(request.session_id)
        name = request.session_id if session is None else session.session_id
        own_id = question_id(name, request.tool_use_id)
        ask = self._open.get(own_id)
        if ask is not None:
            _check_same(request, ask.request)
            return ask
        await self._services.recorder.kept()
        known = await self._services.journal.question(own_id)
        if known is None:
            return None
        _check_known(request, known)
        return None if known.state == "open" else known

    async def _arrive(self, request: Ask) -> OpenAsk | Question:
        # A disk may hang, and then only whoever asks from there waits for it.
        roots = self._services.settings.allowed_roots
        cwd = await asyncio.to_thread(permitted_directory, request.cwd, roots)
        # Two that ask the same at once must find one question.
        async with self._arriving:
            return await self._find(request) or await self._begin(request, cwd)

    async def _begin(self, request: Ask, cwd: str) -> OpenAsk:
        if self._services.is_closing:
            raise ServerError(ENDING)
        if len(self._open) >= MOST_ASKS:
            raise TooManySessions(
                f"{len(self._open)} questions of CLIs that are not the engine's are open",
                advice="answer some of them, or end the CLIs that ask",
            )
        session = await self._sessions.find(request.session_id) or self._new_session(request, cwd)
        if session.cli.is_held:
            # It asks us over its own line. Whoever asks in its name is somebody else: a person
            # would be shown, as the session's, a question that the session does not wait for.
            raise NotNow(
                f"the CLI of session {session.session_id} is the engine's own",
                advice="ask under an id of its own",
            )
        use = request.tool_use_id
        asked = CanUseTool(tool_name=request.tool_name, tool_use_id=use, input=request.input)
        name = question_id(session.session_id, use)
        return self._pose(session, name, as_request(use, asked), cwd=cwd, label=request.label)

    def _new_session(self, request: Ask, cwd: str) -> Session:
        session = self._sessions.add(self._sessions.new(request.session_id))
        # Committed with its question, or before it.
        session.write(SessionStarted(cwd=cwd, label=request.label, origin="foreign"))
        return session

    async def _settled(self, ask: OpenAsk) -> Asked:
        if self._services.is_closing:
            raise ServerError(ENDING)
        await self._services.recorder.kept()
        question = await self._services.journal.question(ask.question_id)
        if question is None or question.state == "open":
            raise ServerError(ENDING)
        return self._told(question)

    def _told(self, question: Question) -> Asked:
        """Return a settled question with the response for its CLI."""
        age_ms = self._services.recorder.clock() - (question.closed_at or 0)
        response = _response(question, is_late=age_ms > YES_LASTS_S * 1000)
        return Asked(question=question, response=response)

    # Questions that are open

    def restore(self, session: Session) -> None:
        """Go on with the questions that an engine before this one was asked."""
        for question in session.view.open_questions:
            if question.foreign:
                request = request_of(question)
                self._pose(session, question.id, request, cwd=question.cwd, label=question.label)

    def give(self, question: Question, answer: Answer) -> None:
        """Settle a question with an answer that is committed."""
        handler = self._handlers.get(question.session_id)
        if handler is not None:
            handler.give(question.id, answer)

    def leave(self) -> None:
        """Leave what is open as it is: the CLIs go on, and ask the next engine."""
        for handler in self._handlers.values():
            handler.leave()
        for ask in self._open.values():
            ask.stop_lease()
            ask.task.cancel()

    def _pose(
        self,
        session: Session,
        name: str,
        request: PermissionRequest,
        *,
        cwd: str | None,
        label: str | None,
    ) -> OpenAsk:
        """Pose a question. It is open until it is settled, or nobody waits any more."""
        ask = self._open[name] = OpenAsk(session, name, request)
        handler = self._handler_of(session)
        ask.task = self._services.tasks.spawn(_serve(ask, handler, cwd, label))
        # Also of one that is cancelled before it begins.
        ask.task.add_done_callback(lambda _: self._over(ask))
        self._start_lease(ask)
        return ask

    async def _wait(self, ask: OpenAsk, seconds: float) -> None:
        """Wait for the answer; the question stays open for as long as somebody waits."""
        ask.waiting += 1
        ask.stop_lease()
        try:
            await asyncio.wait([ask.task], timeout=seconds)
            await ask.shown.wait()
        finally:
            ask.waiting -= 1
            self._note(ask.session.session_id)
            if not ask.waiting and not ask.task.done():
                self._start_lease(ask)

    async def _withdraw(self, session: Session, question: Question, because: str) -> None:
        record = QuestionClosed(id=question.id, state="withdrawn", because=because)
        posted = session.write(record)
        ask = self._open.get(question.id)
        if ask is not None:
            ask.task.cancel()
        await posted.committed

    def _note(self, session_id: str) -> None:
        # Whoever asks beside a CLI of ours is none.
        session = self._sessions.all.get(session_id)
        if session is None or not session.cli.is_held:
            self._services.foreign.note(session_id)

    def _handler_of(self, session: Session) -> AskHandler:
        handler = self._handlers.get(session.session_id)
        if handler is None:
            handler = self._handlers[session.session_id] = session.cli.new_ask_handler(
                foreign=True,
                opened=self._opened,
                asked_before=self._services.journal.question,
            )
            self._services.foreign.waiting.add(session.session_id)
        return handler

    def _opened(self, name: str) -> None:
        self._open[name].shown.set()

    def _over(self, ask: OpenAsk) -> None:
        ask.shown.set()
        ask.stop_lease()
        del self._open[ask.question_id]
        if not any(each.session is ask.session for each in self._open.values()):
            self._handlers.pop(ask.session.session_id, None)
            self._services.foreign.waiting.discard(ask.session.session_id)

    def _start_lease(self, ask: OpenAsk) -> None:
        loop = asyncio.get_running_loop()
        ask.lease = loop.call_later(self._services.foreign.lease_s, self._lapse, ask)

    def _lapse(self, ask: OpenAsk) -> None:
        self._services.tasks.spawn(self._give_up(ask))

    async def _give_up(self, ask: OpenAsk) -> None:
        if ask.waiting or ask.task.done():
            return
        question = ask.question
        if question is None:
            # The policy still looks at it, or an answer is just being stored.
            self._start_lease(ask)
        else:
            await self._withdraw(ask.session, question, GONE)


async def _serve(ask: OpenAsk, handler: AskHandler, cwd: str | None, label: str | None) -> None:
    try:
        await handler.permission(ask.request, cwd=cwd, label=label)
    except PilothouseError as error:
        ask.failed = error


def request_of(question: Question) -> PermissionRequest:
    """What a foreign CLI asked, as the question has it."""
    name, use = question.tool_name or "", question.tool_use_id or ""
    return as_request(use, CanUseTool(tool_name=name, tool_use_id=use, input=question.input))


def _check_same(request: Ask, before: PermissionRequest) -> None:
    if (before.tool_name, before.input) != (request.tool_name, request.input):
        raise UsageError(
            f"tool use {request.tool_use_id} of session {request.session_id} was asked about with "
            "another tool or input before; ask about another one under another id"
        )


def _check_known(request: Ask, known: Question) -> None:
    if not known.foreign:
        raise UsageError(f"tool use {request.tool_use_id} was asked about by a CLI of the engine's")
    _check_same(request, request_of(known))


def _response(question: Question, *, is_late: bool) -> JsonObject:
    """Return the response for the CLI, in a form that every version takes: its own is unknown."""
    request = request_of(question)
    told = settled(request, question.answer or Deny(reason=_unanswered(question))).result
    if is_late and isinstance(told, PermissionAllow):
        # An id that comes again so late is another tool use, which nobody was asked about.
        told = settled(request, Deny(reason=LATE)).result
    return msgspec.json.decode(encode_json(told), type=JsonObject)


def _unanswered(question: Question) -> str:
    because = question.closed_because or "nobody answered"
    return because if question.state == "expired" else f"The question was withdrawn: {because}."


def _one_spelling(session_id: str) -> str:
    """The id as CLIs write it, since a UUID in another spelling would have the same questions."""
    try:
        return str(UUID(session_id))
    except ValueError:
        return session_id
