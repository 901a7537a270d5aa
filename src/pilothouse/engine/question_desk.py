"""Questions: which there are, and what follows from the answer to one. The first answer wins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from pilothouse.api.answers import (
    AddOwnDirectories,
    Allow,
    Answer,
    ApprovePlan,
    ClearContext,
    RevisePlan,
)
from pilothouse.api.questions import Answered, FileChange, Question, QuestionFilter
from pilothouse.api.records import (
    AnyRecord,
    OptionsChanged,
    QuestionClosed,
    QuestionDecided,
    SessionLinked,
    SessionStarted,
)
from pilothouse.api.requests import Say
from pilothouse.api.values import Content
from pilothouse.errors import QuestionSettled, Refused, UnknownQuestion, UsageError

from .file_changes import change_asked_for
from .foreign_asks import ForeignAsks
from .kept_rules import kept_after
from .launch_options import permitted_directory
from .questions import check, same, statement
from .questions.plan import implementation_prompt
from .questions.plan import rules as plan_rules
from .services import Services
from .session import Session
from .session_verbs import SessionVerbs
from .sessions import Sessions

__all__ = ["QuestionDesk"]

log = logging.getLogger("pilothouse")

COMPACT: Final = "/compact"
POLICY: Final = "policy"
"""Whose answers those of a rule are; nobody else answers by this name."""


class QuestionDesk:
    """Finds, lists and settles questions."""

    def __init__(
        self, services: Services, sessions: Sessions, verbs: SessionVerbs, asks: ForeignAsks
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._verbs = verbs
        self._asks = asks

    # Which there are

    async def find(self, question_id: str) -> tuple[Question, Session | None]:
        """The question, and the session that still takes an answer to it."""
        services = self._services
        services.recorder.check()
        question = await services.journal.question(question_id)
        if question is None:
            # Asked a moment ago, perhaps: it is not committed yet.
            await services.recorder.kept()
            question = await services.journal.question(question_id)
        if question is not None and question.decidable:
            session = self._sessions.all.get(question.session_id)
            held = None if session is None else session.view.questions.get(question_id)
            if held is not None:
                return held, session
            # Settled a moment ago: what it came to is not committed yet.
            await services.recorder.kept()
            question = await services.journal.question(question_id)
        if question is None:
            raise UnknownQuestion(
                f"there is no question {question_id}", advice="list the open questions"
            )
        return question, None

    async def list(
        self,
        *,
        session_id: str | None = None,
        state: QuestionFilter = "decidable",
        limit: int = 500,
        before: str | None = None,
    ) -> Sequence[Question]:
        """Return questions in the order they were asked: those that take an answer, or by state.

        They are the last `limit` of them, or the last that were asked before another question.
        """
        self._services.recorder.check()
        cursor = None if before is None else (await self.find(before))[0]
        if state == "decidable":
            every = self._decidable(session_id)
            # Nobody may know of a question that a crash undoes.
            await self._services.recorder.kept()
            if cursor is not None:
                every = [each for each in every if _place(each) < _place(cursor)]
            return every[-limit:]
        return await self._services.journal.questions(
            session_id=session_id,
            state=None if state == "any" else state,
            limit=limit,
            before=before,
        )

    def _decidable(self, session_id: str | None) -> list[Question]:
        # Whatever has a question is in memory.
        sessions = self._sessions.all
        chosen = sessions if session_id is None else sessions.keys() & {session_id}
        views = [sessions[name].view for name in chosen]
        every = [question for view in views for question in view.questions.values()]
        return sorted(every, key=_place)

    async def file_change(self, question_id: str) -> FileChange:
        """What the call that is asked about would change in its file; nothing once it is settled,
        and of files that are, or may be, on another machine."""
        question, session = await self.find(question_id)
        if session is None or question.foreign:
            return FileChange()
        view = session.view
        if view.machine or view.options.machine:
            return FileChange(because="The file is on another machine.")
        place = view.scratch or view.cwd
        return await self._services.slow_disk.run(change_asked_for, question, place)

    async def withdraw(self, question_id: str, because: str) -> Question:
        """Close a question of a foreign CLI that wants no answer any more."""
        question, session = await self.find(question_id)
        await self._asks.withdraw(question, session, because)
        return (await self.find(question_id))[0]

    # Their answers

    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered:
        """Settle a question. The first answer wins; the same one again is no second one."""
        if by == POLICY:
            raise UsageError(f"`{POLICY}` is the name of the rules: answer by another name")
        # A caller that leaves meanwhile must not leave the CLI without its answer.
        return await self._services.tasks.finish(self._answer(question_id, answer, by))

    async def _answer(self, question_id: str, answer: Answer, by: str) -> Answered:
        # Before the question is looked up: nothing may be awaited between that and its end.
        await self._check_directories(answer)
        question, session = await self.find(question_id)
        if session is None:
            return await self._settled_before(question, answer)
        check(question, answer, bypass_allowed=self._services.gate.allowed)
        if isinstance(answer, ClearContext):
            return await self._clear_context(session, question, answer, by)
        if question.state == "open":
            return await self._answer_open(session, question, answer, by)
        if await session.cli.gone():
            # Somebody else may have decided meanwhile.
            return await self.answer(question_id, answer, by=by)
        return await self._decide(session, question, answer, by)

    async def _check_directories(self, answer: Answer) -> None:
        """Refuse directories of a caller's own that no session may be started in either."""
        roots = self._services.settings.allowed_roots
        if not isinstance(answer, Allow) or not roots:
            return
        for update in answer.updates or ():
            if isinstance(update, AddOwnDirectories):
                for each in update.directories:
                    await asyncio.to_thread(permitted_directory, each, roots)

    async def _settled_before(self, question: Question, answer: Answer) -> Answered:
        session = await self._sessions.get(question.session_id)
        if session is None:
            raise UnknownQuestion(
                f"the session of question {question.id} is no longer kept",
                advice="list the open questions",
            )
        if question.answer is not None and same(question.answer, answer):
            return Answered(
                question=question,
                state=session.view.state,
                session_id=question.session_id,
                repeated=True,
                new_session_id=session.view.successor,
            )
        by = f" by {question.answered_by}" if question.answered_by else ""
        because = f": {question.closed_because}" if question.closed_because else ""
        raise QuestionSettled(
            f"the question was {question.state}{by} before{because}",
            advice="say something to the session instead",
            question=question,
        )

    async def _answer_open(
        self, session: Session, question: Question, answer: Answer, by: str
    ) -> Answered:
        asked_by = session.cli.asks
        await session.write(_settling(question, answer, by)).committed
        self._give(session, question, answer)
        if session.cli.asks is not asked_by and session.view.ending.signal == "died":
            return await self._restate(session, question, answer)
        if isinstance(answer, RevisePlan) and answer.images:
            content = _with_images("The images that belong to the feedback:", answer)
            await self._verbs.send(session, Say(content=content), by="engine")
        await self._compact(session, answer)
        return await self._answered(session, question)

    async def _compact(self, session: Session, answer: Answer) -> None:
        """Queue the summing up that goes with an approval: the CLI does it after its turn."""
        if isinstance(answer, ApprovePlan) and answer.compact:
            await self._verbs.send(session, Say(content=COMPACT), by="engine")

    def _give(self, session: Session, question: Question, answer: Answer) -> None:
        """Let whoever asked have an answer that is committed."""
        if question.foreign:
            self._asks.give(question, answer)
        else:
            session.answer(question.id, answer)

    async def _decide(
        self, session: Session, question: Question, answer: Answer, by: str
    ) -> Answered:
        """Resume the session with a message that states the decision: its CLI is gone."""
        self._services.spending.check(session.view)
        await session.cli.reserve()
        if session.view.questions.get(question.id) is not question:
            # Somebody else has decided while the disk was looked at.
            session.cli.release()
            return await self._answer(question.id, answer, by)
        return await self._tell_decision(session, question, answer, _settling(question, answer, by))

    async def _restate(self, session: Session, question: Question, answer: Answer) -> Answered:
        """State the answer in a message: the CLI died while it was being stored."""
        try:
            self._services.spending.check(session.view)
            return await self._tell_decision(session, question, answer)
        except Refused as refused:
            # The answer counts; the state shows that the session could not go on.
            log.warning("session %s was not told an answer: %s", session.session_id, refused)
            return await self._answered(session, question)

    async def _tell_decision(
        self, session: Session, question: Question, answer: Answer, *settling: AnyRecord
    ) -> Answered:
        request = Say(content=_with_images(statement(question, answer), answer))
        before = list(settling)
        updates = answer.updates if isinstance(answer, Allow) else None
        if kept := kept_after(session.view, updates or ()):
            # The CLI that would have taken them is gone: the next one begins with them.
            before.append(kept)
        if question.kind == "plan" and isinstance(answer, ApprovePlan | Allow):
            # The plan is approved, so the session must not come back in plan mode.
            mode = (answer.mode if isinstance(answer, ApprovePlan) else None) or "default"
            options = replace(session.view.options, mode=mode)
            before.append(OptionsChanged(options=options, mode=mode))
        await self._verbs.send(session, request, by="engine", before=before)
        await self._compact(session, answer)
        return await self._answered(session, question, resumed=True)

    async def _clear_context(
        self, session: Session, question: Question, answer: ClearContext, by: str
    ) -> Answered:
        """End this session; a new one, linked to it, implements the plan."""
        view = session.view
        new = self._sessions.new()
        record = SessionStarted(
            cwd=view.cwd,
            options=replace(view.options, mode=answer.mode),
            label=view.label,
            caps=view.caps,
            origin="plan",
            parent=view.session_id,
            simulated=self._services.simulated,
            scratch=view.scratch,
        )
        await self._verbs.check_start(record)
        self._services.spending.check(view)
        await new.cli.reserve(leaving=session.session_id)
        # The disk was looked at, or a CLI asked for its version: somebody else may have settled it.
        if view.questions.get(question.id) is not question:
            new.cli.release()
            return await self._answer(question.id, answer, by)
        said = new.prompt(implementation_prompt(answer.plan or question.plan), by="engine")
        settled = _settling(question, answer, by)
        # What the plan asks leave for is approved with it, for whichever session implements it.
        kept = kept_after(new.view, plan_rules(question.allowed_prompts))
        linked = SessionLinked(successor=new.session_id)
        await self._sessions.write_new(
            new, [record, *([kept] if kept else []), said], before=[(view, settled), (view, linked)]
        )
        self._give(session, question, answer)
        try:
            await session.stop()
        finally:
            new.deliver()
        return await self._answered(session, question, new_session_id=new.session_id)

    async def _answered(self, session: Session, question: Question, **told: Any) -> Answered:
        settled = await self._services.journal.question(question.id)
        return Answered(
            question=settled or question,
            state=session.view.state,
            session_id=session.session_id,
            **told,
        )


def _with_images(text: str, answer: Answer) -> Content:
    if not isinstance(answer, RevisePlan) or not answer.images:
        return text
    return [{"type": "text", "text": text}, *answer.images]


def _settling(question: Question, answer: Answer, by: str) -> AnyRecord:
    if question.state == "open":
        return QuestionClosed(id=question.id, state="answered", answer=answer, by=by)
    return QuestionDecided(id=question.id, answer=answer, by=by)


def _place(question: Question) -> tuple[int, str]:
    """Where it stands among all questions."""
    return question.opened_at, question.id
