"""CLIs that are not the engine's: who of them is there, and waits for an answer.

A guest is known by its questions alone. As long as somebody waits for the answer to one, and
`LEASE_S` more, the guest is there; then its question is withdrawn. Nothing else tells that such a
CLI has ended. So an engine that comes back keeps its open questions for as long, and its journal
tells it which guests had asked just before.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pilothouse.api.answers import Answer
from pilothouse.api.contract import Question
from pilothouse.api.records import QuestionClosed
from pilothouse.client.permissions import PermissionRequest, as_request
from pilothouse.errors import NotNow, PilothouseError, TooManySessions
from pilothouse.protocol import CanUseTool

from .ask_handler import AskHandler
from .services import Services
from .session import Session
from .view import View

__all__ = ["Guests", "Visit", "request_of"]

LEASE_S: Final = 45.0
"""As long a question waits for whoever asked it to come again."""
MOST_VISITS: Final = 1000
"""As many questions of guests may be open at once."""
GONE: Final = "the CLI that asked has gone"


class Visit:
    """One open question of a guest's, and how many wait for its answer."""

    def __init__(self, session: Session, question_id: str, request: PermissionRequest) -> None:
        self.session = session
        self.question_id = question_id
        self.request = request
        self.waiting = 0
        self.shown = asyncio.Event()
        """The question is kept, or there is none any more."""
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


class Guests:
    """The visits of one engine."""

    def __init__(self, services: Services) -> None:
        self.arriving = asyncio.Lock()
        """Held while it is looked up whether a question is there already."""
        self._services = services
        self._visits: dict[str, Visit] = {}
        self._asks: dict[str, AskHandler] = {}
        """By session, of those in which somebody waits for an answer."""
        self._seen: dict[str, float] = {}
        """When each session's guest was there last."""

    def visit(self, question_id: str) -> Visit | None:
        return self._visits.get(question_id)

    def note(self, session: Session) -> None:
        """The session's guest was there just now; whoever asks beside a CLI of ours is none."""
        if not session.is_held:
            self._seen[session.session_id] = asyncio.get_running_loop().time()

    def hosts(self, session_id: str) -> bool:
        """Whether a guest waits for an answer in this session."""
        return session_id in self._asks

    def check_absent(self, view: View) -> None:
        """Refuse to work in a session beside a CLI that is not ours: both would write to it."""
        if self._is_present(view):
            raise NotNow(
                f"the CLI of session {view.session_id} is not the engine's, which cannot talk "
                "to it",
                advice="answer what it asks, and talk to it where it was started; once it has "
                f"ended and {LEASE_S:g} s have passed, the session can be resumed here",
            )

    def check_silent(self, view: View, written_at: int) -> None:
        """Refuse to work in a session whose transcript was written only just now: a guest that
        asks nothing may be at work."""
        if self._is_recent(written_at):
            raise NotNow(
                f"the transcript of session {view.session_id} was written within the last "
                f"{LEASE_S:g} s, so a CLI that is not the engine's may be at work",
                advice=f"try again once it has ended and {LEASE_S:g} s have passed",
            )

    def check_room(self) -> None:
        """Refuse more open questions than anybody could answer."""
        if len(self._visits) >= MOST_VISITS:
            raise TooManySessions(
                f"{len(self._visits)} questions of CLIs that are not the engine's are open",
                advice="answer some of them, or end the CLIs that ask",
            )

    def _is_present(self, view: View) -> bool:
        now = asyncio.get_running_loop().time()
        self._seen = {name: at for name, at in self._seen.items() if now - at < LEASE_S}
        known = view.session_id in self._seen or self.hosts(view.session_id)
        # What is in the journal counts after a restart as well.
        return known or self._is_recent(view.guest_at)

    def _is_recent(self, at: int) -> bool:
        # A clock that was set back must not shut a session for long.
        return abs(self._services.recorder.clock() - at) < LEASE_S * 1000

    def receive(
        self,
        session: Session,
        question_id: str,
        request: PermissionRequest,
        *,
        cwd: str | None,
        label: str | None,
    ) -> Visit:
        """Ask for a guest. Its question is open until it is settled, or nobody waits any more."""
        visit = self._visits[question_id] = Visit(session, question_id, request)
        asks = self._asking_of(session)
        visit.task = self._services.tasks.spawn(_host(visit, asks, cwd, label))
        # Also of one that is cancelled before it begins.
        visit.task.add_done_callback(lambda _: self._over(visit))
        self._start_lease(visit)
        return visit

    def expect(self, session: Session) -> None:
        """Go on with the questions that guests asked an engine before this one."""
        for question in session.view.open_questions:
            if question.foreign:
                self.receive(
                    session,
                    question.id,
                    request_of(question),
                    cwd=question.cwd,
                    label=question.label,
                )

    def give(self, question: Question, answer: Answer) -> None:
        """Settle a question with an answer that is committed."""
        asks = self._asks.get(question.session_id)
        if asks is not None:
            asks.give(question.id, answer)

    async def wait(self, visit: Visit, seconds: float) -> None:
        """Wait for the answer. Whoever waits keeps the question open."""
        visit.waiting += 1
        visit.stop_lease()
        try:
            await asyncio.wait([visit.task], timeout=seconds)
            await visit.shown.wait()
        finally:
            visit.waiting -= 1
            self.note(visit.session)
            if not visit.waiting and not visit.task.done():
                self._start_lease(visit)

    async def withdraw(self, session: Session, question: Question, because: str) -> None:
        """Close an open question that nobody waits for any more."""
        record = QuestionClosed(id=question.id, state="withdrawn", because=because)
        posted = session.write(record)
        visit = self._visits.get(question.id)
        if visit is not None:
            visit.task.cancel()
        await posted.committed

    def leave(self) -> None:
        """Leave what is open as it is: the CLIs go on, and ask the next engine."""
        for asks in self._asks.values():
            asks.leave()
        for visit in self._visits.values():
            visit.stop_lease()
            visit.task.cancel()

    def _asking_of(self, session: Session) -> AskHandler:
        asks = self._asks.get(session.session_id)
        if asks is None:
            asks = self._asks[session.session_id] = session.new_ask_handler(
                foreign=True,
                opened=self._opened,
                asked_before=self._services.journal.question,
            )
        return asks

    def _opened(self, question_id: str) -> None:
        self._visits[question_id].shown.set()

    def _over(self, visit: Visit) -> None:
        visit.shown.set()
        visit.stop_lease()
        del self._visits[visit.question_id]
        if not any(each.session is visit.session for each in self._visits.values()):
            self._asks.pop(visit.session.session_id, None)

    def _start_lease(self, visit: Visit) -> None:
        loop = asyncio.get_running_loop()
        visit.lease = loop.call_later(LEASE_S, self._lapse, visit)

    def _lapse(self, visit: Visit) -> None:
        self._services.tasks.spawn(self._give_up(visit))

    async def _give_up(self, visit: Visit) -> None:
        if visit.waiting or visit.task.done():
            return
        question = visit.question
        if question is None:
            # The policy still looks at it, or an answer is just being kept.
            self._start_lease(visit)
        else:
            await self.withdraw(visit.session, question, GONE)


async def _host(visit: Visit, asks: AskHandler, cwd: str | None, label: str | None) -> None:
    try:
        await asks.permission(visit.request, cwd=cwd, label=label)
    except PilothouseError as error:
        visit.failed = error


def request_of(question: Question) -> PermissionRequest:
    """What a guest asked, as the question has it."""
    name, use = question.tool_name or "", question.tool_use_id or ""
    return as_request(use, CanUseTool(tool_name=name, tool_use_id=use, input=question.input))
