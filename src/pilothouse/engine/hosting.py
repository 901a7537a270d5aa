"""The engine's verbs for CLIs that are not its own: what they ask becomes a question of a session.

`ask` may be repeated for as long as somebody waits: a question that was asked before is the same
one, also after a restart, and one that is settled is told as it was settled.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from pilothouse.api.answers import Answer, Deny
from pilothouse.api.contract import (
    ENDING,
    ID_HAS,
    LONGEST_WAIT,
    Ask,
    Asked,
    JsonObject,
    Question,
    is_id,
)
from pilothouse.api.records import SessionStarted
from pilothouse.client.permissions import PermissionRequest, as_request, settle
from pilothouse.errors import JournalError, NotNow, Refused, ServerError, UsageError
from pilothouse.protocol import CanUseTool, PermissionAllow, PermissionDeny
from pilothouse.protocol.wire import encode_json

from .guests import Visit, request_of
from .launch_options import permitted_directory
from .questions import settled
from .questions.posing import question_id
from .registry import Registry
from .session import Session
from .view import View

__all__ = ["Hosting"]

YES_LASTS_S: Final = 600
"""As long a yes is told again: who was cut off asks again sooner."""
LATE: Final = (
    "This was allowed more than 10 minutes ago, for what was asked then; it is not told again. "
    "Ask under another id."
)


class Hosting(Registry):
    """Answers CLIs that somebody else has started."""

    async def ask(self, request: Ask) -> Asked:
        """Wait a while for the answer to what such a CLI asks."""
        self._check_hosting(request)
        request = replace(request, session_id=_one_spelling(request.session_id))
        try:
            return await self._answered_in_time(request)
        except JournalError:
            if not self.services.is_closing:
                raise
            # It was closed while this was looked up.
            raise ServerError(ENDING) from None

    async def _answered_in_time(self, request: Ask) -> Asked:
        arrived = await self._arrived(request) or await self._arrive(request)
        if isinstance(arrived, Question):
            self._note(arrived)
            return self._told(arrived)
        await self.guests.wait(arrived, min(max(request.wait_s, 0.0), LONGEST_WAIT))
        if arrived.failed is not None:
            raise arrived.failed
        question = arrived.question
        if question is not None and not arrived.task.done():
            return Asked(question=question)
        await asyncio.wait([arrived.task])
        return await self._settled(arrived)

    async def withdraw(self, question_id: str, because: str) -> Question:
        """Close a question of such a CLI that wants no answer any more."""
        question, session = await self.asked(question_id)
        if not question.foreign:
            raise Refused(
                f"question {question_id} is asked by a CLI of the engine's, which takes it back",
                advice="answer it, or interrupt its session",
            )
        if session is None or question.state != "open":
            return question
        await self.guests.withdraw(session, question, because)
        return (await self.asked(question_id))[0]

    def _check_hosting(self, request: Ask) -> None:
        if self.services.is_closing:
            raise ServerError(ENDING)
        self.recorder.check()
        # It may become the name of a file.
        if not is_id(request.session_id):
            raise UsageError(f"session_id: {ID_HAS}")

    def _note(self, question: Question) -> None:
        session = self.sessions.get(question.session_id)
        if session is not None:
            self.guests.note(session)

    async def _arrived(self, request: Ask) -> Visit | Question | None:
        """The visit that this ask belongs to, or its question as it was settled."""
        session = self.held(request.session_id)
        name = request.session_id if session is None else session.session_id
        own_id = question_id(name, request.tool_use_id)
        visit = self.guests.visit(own_id)
        if visit is not None:
            _check_same(request, visit.request)
            return visit
        await self.recorder.kept()
        known = await self.journal.question(own_id)
        if known is None:
            return None
        _check_known(request, known)
        return None if known.state == "open" else known

    async def _arrive(self, request: Ask) -> Visit | Question:
        # A disk may hang, and then only whoever asks from there waits for it.
        roots = self.services.settings.allowed_roots
        cwd = await asyncio.to_thread(permitted_directory, request.cwd, roots)
        # Two that ask the same at once must find one question.
        async with self.guests.arriving:
            return await self._arrived(request) or self._begin_visit(request, cwd)

    def _begin_visit(self, request: Ask, cwd: str) -> Visit:
        if self.services.is_closing:
            raise ServerError(ENDING)
        self.guests.check_room()
        session = self.held(request.session_id) or self._new_guest(request, cwd)
        if session.is_held:
            # It asks us over its own line. Whoever asks in its name is somebody else: a person
            # would be shown, as the session's, a question that the session does not wait for.
            raise NotNow(
                f"the CLI of session {session.session_id} is the engine's own",
                advice="ask under an id of its own",
            )
        use = request.tool_use_id
        asked = CanUseTool(tool_name=request.tool_name, tool_use_id=use, input=request.input)
        return self.guests.receive(
            session,
            question_id(session.session_id, use),
            as_request(use, asked),
            cwd=cwd,
            label=request.label,
        )

    def _new_guest(self, request: Ask, cwd: str) -> Session:
        session = Session(self.services, View(session_id=request.session_id))
        self.sessions[session.session_id] = session
        # Committed with its question, or before it.
        session.write(SessionStarted(cwd=cwd, label=request.label, origin="foreign"))
        return session

    async def _settled(self, visit: Visit) -> Asked:
        if self.services.is_closing:
            raise ServerError(ENDING)
        await self.recorder.kept()
        question = await self.journal.question(visit.question_id)
        if question is None or question.state == "open":
            raise ServerError(ENDING)
        return self._told(question)

    def _told(self, question: Question) -> Asked:
        """A settled question with what its CLI is told."""
        age_ms = self.recorder.clock() - (question.closed_at or 0)
        response = _response(question, is_late=age_ms > YES_LASTS_S * 1000)
        return Asked(question=question, response=response)


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
    """What the CLI is told, in a form that every version takes: this one is not known."""
    request = request_of(question)
    told = _settle(request, question.answer or Deny(reason=_unanswered(question)))
    if is_late and isinstance(told, PermissionAllow):
        # An id that comes again so late is another tool use, which nobody was asked about.
        told = _settle(request, Deny(reason=LATE))
    return msgspec.json.decode(encode_json(told), type=JsonObject)


def _settle(request: PermissionRequest, answer: Answer) -> PermissionAllow | PermissionDeny:
    return settle(request, settled(request, answer), edits_plans=False, passes_notes=False)


def _unanswered(question: Question) -> str:
    because = question.closed_because or "nobody answered"
    return because if question.state == "expired" else f"The question was withdrawn: {because}."


def _one_spelling(session_id: str) -> str:
    """The id as CLIs write it, since a UUID in another spelling would have the same questions."""
    try:
        return str(UUID(session_id))
    except ValueError:
        return session_id
