"""Questions on the client's screen: as forms that a person fills in there.

Versions of MCP with a handshake let a server ask whenever it wants to: `Pushing` puts a question
before the client as soon as it opens, and takes it back once it was answered elsewhere. From
2026-07-28 on a server asks only in the result of a call: `required` makes what such a result asks,
`take` applies what came back. A form that was declined or closed leaves its question open for
everybody else: that is no "no".
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final, assert_never

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputResponse,
)

from pilothouse.errors import (
    AnswerRefused,
    BypassNotAllowed,
    PilothouseError,
    QuestionSettled,
    ServerError,
    UnknownQuestion,
)
from pilothouse.sessions.contract import Batch, Engine, Question

from .forms import Form, answer_in, form_of
from .reaching import Reach

__all__ = ["Pushing", "can_elicit", "can_open_pages", "required", "take"]

log = logging.getLogger("pilothouse")

ATTEMPTS: Final = 3
"""How often a client is asked the same question, whatever came of it."""
FOLLOWED: Final = 64
"""Sessions that a client's forms are about at the same time: those it dealt with last."""
SWEPT_WITHIN: Final = 2.0
"""Seconds after a call in which a form that is cancelled went with the call, seen by nobody."""
TITLED: Final = "2025-11-25"
"""The first version of MCP whose choices have titles."""
AGAIN: Final = " "
"""Stands between a question's id and why its answer was not taken. No id has it."""


def can_elicit(session: ServerSession) -> bool:
    """Whether the client shows forms."""
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    # Before there was anything else to show, forms had no name of their own.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def can_open_pages(session: ServerSession) -> bool:
    """Whether the client itself sends a person to a page."""
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and elicitation.url is not None


async def _give(reach: Reach, question: Question, content: Mapping[str, Any], name: str) -> str:
    """Answer with what was filled in; tells why that was not taken, if it was not."""
    try:
        answer = answer_in(question, content)
        by = f"person via mcp:{name}"
        await reach.ask(lambda engine: engine.answer(question.id, answer, by=by))
    except AnswerRefused as error:
        return error.message
    except BypassNotAllowed as error:
        return str(error)
    except (QuestionSettled, UnknownQuestion):
        # Somebody else was first: the session goes on, and the person sees that it does.
        return ""
    return ""


# 2026-07-28: in the result of a call


def required(
    questions: Sequence[Question], dismissed: Collection[str], *, pages: bool = False
) -> dict[str, ElicitRequest]:
    """What a result asks of the client: a form for each open question that it may be asked.

    `dismissed` is what `take` has told in this call so far; `pages`: the client opens them itself.
    """
    refused = dict(each.split(AGAIN, 1) for each in dismissed if AGAIN in each)
    found: dict[str, ElicitRequest] = {}
    for question in questions:
        if question.state != "open" or question.id in dismissed:
            continue
        form = form_of(question, again=refused.get(question.id, ""))
        if form is not None:
            key = f"{question.id}{AGAIN}again" if question.id in refused else question.id
            found[key] = _request(form, pages=pages)
    return found


def _request(form: Form, *, pages: bool) -> ElicitRequest:
    if pages and form.url is not None:
        return ElicitRequest(params=ElicitRequestURLParams(message=form.message, url=form.url))
    return ElicitRequest(
        params=ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    )


async def take(reach: Reach, responses: Mapping[str, InputResponse] | None, name: str) -> set[str]:
    """Apply what came back. Tells what `required` must know of it in the same call.

    That is the id of each question which is not to be asked again; and, of an answer that did not
    fit, the id with the reason: it is asked once more.
    """
    noted: set[str] = set()
    for key, response in (responses or {}).items():
        question_id, _, again = key.partition(AGAIN)
        if not isinstance(response, ElicitResult) or response.action != "accept":
            noted.add(question_id)
            continue
        why = await _take(reach, question_id, response, name)
        if why:
            noted.add(question_id if again else f"{question_id}{AGAIN}{why}")
    return noted


async def _take(reach: Reach, question_id: str, response: ElicitResult, name: str) -> str:
    try:
        question = await reach.ask(lambda engine: engine.question(question_id))
    except UnknownQuestion:
        return ""
    return await _give(reach, question, response.content or {}, name)


# Versions with a handshake: at once


class Pushing:
    """The forms on one client: one at a time, the oldest question first."""

    def __init__(self, reach: Reach, session: ServerSession, name: str) -> None:
        self._desk = _Desk(reach, session, name)
        self._followed: dict[str, _Followed] = {}
        self._closed = False

    def follow(self, session_id: str) -> None:
        """The client deals with this session: what it asks, and has asked, becomes forms there."""
        if self._closed:
            return
        followed = self._followed.pop(session_id, None) or _Followed(self._desk, session_id)
        self._followed[session_id] = followed
        followed.touch()
        if len(self._followed) > FOLLOWED:
            self._followed.pop(next(iter(self._followed))).close()

    async def settled(self, session_id: str, questions: Sequence[Question]) -> None:
        """Wait until a person has none of these before them: each was answered, or its form closed.

        Returns at once where nobody follows the session any more.
        """
        followed = self._followed.get(session_id)
        if followed is not None:
            await followed.settled({each.id for each in questions})

    @contextmanager
    def calling(self) -> Generator[None]:
        """While a call of the client's is answered.

        Claude Code cancels a form that came during a call once the call ends, perhaps unseen: it
        is shown again then.
        """
        try:
            yield
        finally:
            self._desk.note_end_of_call()

    async def aclose(self) -> None:
        """Take back every form. The questions stay open; an answer that was given is passed on."""
        self._closed = True
        for followed in self._followed.values():
            followed.close()
        self._followed.clear()
        await asyncio.gather(*self._desk.tasks, return_exceptions=True)


class _Desk:
    """What the forms on one client share."""

    def __init__(self, reach: Reach, session: ServerSession, name: str) -> None:
        self.reach = reach
        self.name = name
        self.tasks: set[asyncio.Task[None]] = set()
        self._times_asked: dict[str, int] = {}
        self._calls = 0
        self._last_call = -math.inf
        self._session = session
        self._turns = _Turns()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that `Pushing.aclose` waits for."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def form(self, question: Question, again: str) -> Form | None:
        """The form, if there is one for this client and it may be asked that once more."""
        times = self._times_asked.get(question.id, 0)
        if times >= ATTEMPTS:
            return None
        self._times_asked[question.id] = times + 1
        is_titled = self._session.protocol_version >= TITLED
        return form_of(question, titled=is_titled, again=again)

    def give_up(self, question: Question) -> None:
        """Do not ask this client again, whatever happens."""
        self._times_asked[question.id] = ATTEMPTS

    def forget(self, question_id: str) -> None:
        """The question is not open any more."""
        self._times_asked.pop(question_id, None)

    def note_end_of_call(self) -> None:
        self._calls += 1
        self._last_call = asyncio.get_running_loop().time()

    def call_that_ended(self) -> int | None:
        """The number of the call that has ended just now, if one has."""
        since = asyncio.get_running_loop().time() - self._last_call
        return self._calls if since < SWEPT_WITHIN else None

    async def show(self, question: Question, form: Form) -> ElicitResult:
        """What the client did with the form, when its turn came."""
        async with self._turns.turn(question.opened_at):
            return await self._elicit(question, form)

    async def _elicit(self, question: Question, form: Form) -> ElicitResult:
        # Whoever cancels this sends `notifications/cancelled`: the client closes the form.
        try:
            if form.url is not None and can_open_pages(self._session):
                return await self._session.elicit_url(form.message, form.url, question.id)
            return await self._session.elicit_form(form.message, form.schema)
        except (MCPError, TimeoutError, ValueError) as error:
            # It cannot show it, answered with something else, or is gone.
            log.info("question %s was not shown over MCP: %s", question.id, error)
            return ElicitResult(action="decline")


class _Turns:
    """Lets one in at a time; of those who wait the one who has the right to be first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncGenerator[None]:
        mine = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), mine))
        self._let_in()
        try:
            await mine
            yield
        finally:
            # Whoever was cancelled while waiting has cancelled this too, and was never let in.
            if not mine.cancelled():
                self._is_taken = False
                self._let_in()

    def _let_in(self) -> None:
        while self._waiting and not self._is_taken:
            _, _, first = heapq.heappop(self._waiting)
            if not first.done():
                self._is_taken = True
                first.set_result(None)


class _Followed:
    """One session: each of its open questions is on the client, or waits for its turn there."""

    def __init__(self, desk: _Desk, session_id: str) -> None:
        self._desk = desk
        self._session_id = session_id
        self._forms: dict[str, _Asking] = {}
        self._seen: set[str] = set()
        self._touched = asyncio.Event()
        self._moved = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    def touch(self) -> None:
        """A call was about this session: what was closed unanswered may be shown again."""
        self._touched.set()
        self._touched = asyncio.Event()
        self.watch()

    async def touched(self) -> None:
        """Wait for the next call about this session."""
        await self._touched.wait()

    async def settled(self, questions: Collection[str]) -> None:
        """Wait until none of these questions is on the client, or about to be."""
        while self._is_followed() and any(map(self._is_on_client, questions)):
            await self._moved.wait()

    def _is_followed(self) -> bool:
        return self._watching is not None and not self._watching.done()

    def _is_on_client(self, question_id: str) -> bool:
        form = self._forms.get(question_id)
        return question_id not in self._seen if form is None else not form.is_resting

    def moved(self) -> None:
        """What is on the client is another than before."""
        self._moved.set()
        self._moved = asyncio.Event()

    def watch(self) -> None:
        """See what opens and what closes from now on, if that is not so already."""
        if not self._closed and (self._watching is None or self._watching.done()):
            self._watching = self._desk.spawn(self._watch())
            self._watching.add_done_callback(lambda _: self.moved())

    def close(self) -> None:
        """Take back its forms, and show no more."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        self._withdraw_all()

    async def _watch(self) -> None:
        try:
            await self._keep_up()
            self._withdraw_all()
        except ServerError as error:
            # What is shown stays: who answers it reaches the next engine, as the next call does.
            log.info("session %s is not followed over MCP for now: %s", self._session_id, error)
        except PilothouseError as error:
            log.info("session %s is not followed over MCP any more: %s", self._session_id, error)
            self._withdraw_all()

    async def _keep_up(self) -> None:
        reach, session_id = self._desk.reach, self._session_id
        status = await reach.ask(lambda engine: engine.status(session_id))
        self._show(status.questions)
        async with aclosing(reach.watch(status.cursor, session_id=session_id)) as batches:
            async for batch in batches:
                if _is_about_questions(batch):
                    self._show(await reach.ask(self._open_ones))

    async def _open_ones(self, engine: Engine) -> Sequence[Question]:
        return await engine.questions(session_id=self._session_id, state="open")

    def _show(self, questions: Sequence[Question]) -> None:
        open_ones = {each.id: each for each in questions if each.state == "open"}
        for question_id in [each for each in self._forms if each not in open_ones]:
            self._forms.pop(question_id).withdraw()
            self._desk.forget(question_id)
        for question_id, question in open_ones.items():
            if question_id not in self._forms:
                self._seen.add(question_id)
                self._forms[question_id] = _Asking(self._desk, self, question)
        self.moved()

    def _withdraw_all(self) -> None:
        while self._forms:
            self._forms.popitem()[1].withdraw()


def _is_about_questions(batch: Batch) -> bool:
    return bool(batch.gaps) or any(each.kind.startswith("question.") for each in batch.events)


class _Asking:
    """One question as it is put to the client, as often as that may be."""

    def __init__(self, desk: _Desk, session: _Followed, question: Question) -> None:
        self._desk = desk
        self._session = session
        self._question = question
        self.is_resting = False
        """The client does not have it, and does not get it by itself."""
        self._swept_by: int | None = None
        self._is_answering = False
        self._is_withdrawn = False
        self._task = desk.spawn(self._ask())
        self._task.add_done_callback(lambda _: self._rest())

    def _rest(self) -> None:
        self.is_resting = True
        self._session.moved()

    def withdraw(self) -> None:
        """It is not to be answered here any more."""
        self._is_withdrawn = True
        # The answer itself closes the question, with more to be done for it perhaps.
        if not self._is_answering:
            self._task.cancel()

    async def _ask(self) -> None:
        again = ""
        while (form := self._desk.form(self._question, again)) is not None:
            result = await self._desk.show(self._question, form)
            match result.action:
                case "accept":
                    again = await self._answer(result.content or {})
                    if not again or self._is_withdrawn:
                        return
                case "decline":
                    self._desk.give_up(self._question)
                case "cancel":
                    await self._may_ask_again()
                case _:
                    assert_never(result.action)

    async def _may_ask_again(self) -> None:
        """Wait until the client deals with the session again, unless nobody closed the form."""
        swept_by = self._desk.call_that_ended()
        if swept_by is None or swept_by == self._swept_by:
            self._rest()
            await self._session.touched()
            self.is_resting = False
        self._swept_by = swept_by

    async def _answer(self, content: Mapping[str, Any]) -> str:
        self._is_answering = True
        try:
            return await _give(self._desk.reach, self._question, content, self._desk.name)
        except PilothouseError as error:
            return str(error)
        finally:
            self._is_answering = False
            self._session.watch()
