"""Forms that a client shows as soon as a question opens, in versions with a handshake.

A form is withdrawn when its question is answered elsewhere.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any, Final, NamedTuple, assert_never

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, RequestId

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch
from pilothouse.api.questions import Question
from pilothouse.errors import PilothouseError, ServerError

from .elicitation import can_open_pages, give
from .engine_handle import EngineHandle
from .forms import Form, form_of

__all__ = ["ClientStream", "FormPush"]

log = logging.getLogger("pilothouse")

MOST_OPEN: Final = 1000
"""Questions of a session that are shown at once; more than any session has."""
ATTEMPTS: Final = 3
"""How often a client is asked the same question, whatever came of it."""
FOLLOWED: Final = 64
"""Sessions that a client's forms are about at the same time: those it dealt with last."""
SWEPT_WITHIN: Final = 2.0
"""Seconds after a call in which a form that is cancelled went with the call, seen by nobody."""
TITLED: Final = "2025-11-25"
"""The first version of MCP whose choices have titles."""
REACHES: Final = "pilothouse.mcp.reaches"
"""In the scope of an HTTP request: tells of a session and a call whether a stream is open for it;
without a call, one beside all calls."""
LOOK_S: Final = 1.0
"""How often it is looked whether there is a way to the client again."""


def _always() -> bool:
    return True


class ClientStream(NamedTuple):
    """A stream to the client: beside its calls, or, with the id of a call, with its answer."""

    session: ServerSession
    call: RequestId | None = None
    is_open: Callable[[], bool] = _always
    """Over HTTP what is sent is lost while no stream is there to carry it."""


class FormPush:
    """The forms on one client: one at a time, the oldest question first.

    `standing` is the stream to it beside its calls.
    """

    def __init__(self, handle: EngineHandle, standing: ClientStream, name: str) -> None:
        self._desk = _Desk(handle, standing, name)
        self._followed: dict[str, _Followed] = {}
        self._closed = False

    def follow(self, session_id: str) -> None:
        """Show the questions of this session, open ones and new ones, to the client."""
        if self._closed:
            return
        followed = self._followed.pop(session_id, None) or _Followed(self._desk, session_id)
        self._followed[session_id] = followed
        followed.touch()
        if len(self._followed) > FOLLOWED:
            self._followed.pop(next(iter(self._followed))).close()

    async def settled(self, session_id: str, questions: Sequence[Question]) -> None:
        """Wait until none of these is before a person: each was answered, or its form closed.

        Return at once if nobody follows the session any more.
        """
        followed = self._followed.get(session_id)
        if followed is not None:
            await followed.settled({each.id for each in questions})

    @contextmanager
    def calling(self, stream: ClientStream) -> Generator[dict[str, bool]]:
        """Note what happens during a call of the client. Yield the forms that a person dealt with
        meanwhile: by the question's id, whether it was answered.

        Claude Code cancels a form that came during a call once the call ends, perhaps unseen: it
        is shown again then.
        """
        call = self._desk.begin_call(stream)
        try:
            yield call.dealt_with
        finally:
            self._desk.end_call(call)

    async def aclose(self) -> None:
        """Withdraw every form. The questions stay open; an answer on its way is still delivered."""
        self._closed = True
        for followed in self._followed.values():
            followed.close()
        self._followed.clear()
        await asyncio.gather(*self._desk.tasks, return_exceptions=True)


class _Call(NamedTuple):
    stream: ClientStream
    dealt_with: dict[str, bool]


class _Desk:
    """What the forms on one client share."""

    def __init__(self, handle: EngineHandle, standing: ClientStream, name: str) -> None:
        self.handle = handle
        self.name = name
        self.tasks: set[asyncio.Task[None]] = set()
        self._times_asked: dict[str, int] = {}
        self._calls = 0
        self._last_call = -math.inf
        self._session = standing.session
        self._standing = standing
        self._in_flight: list[_Call] = []
        self._called = asyncio.Event()
        self._turns = _Turns()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that `FormPush.aclose` waits for."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def form(self, question: Question, again: str) -> Form | None:
        """Return the form, if this client can show it and may be asked once more."""
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
        """Forget a question that is not open any more."""
        self._times_asked.pop(question_id, None)

    def begin_call(self, stream: ClientStream) -> _Call:
        call = _Call(stream, {})
        self._in_flight.append(call)
        self._called.set()
        self._called = asyncio.Event()
        return call

    def end_call(self, call: _Call) -> None:
        # By identity: of two calls at once both may be empty.
        self._in_flight = [each for each in self._in_flight if each is not call]
        self._calls += 1
        self._last_call = asyncio.get_running_loop().time()

    def note(self, question: Question, *, answered: bool) -> None:
        """Note for every waiting call what a person did with a form."""
        for call in self._in_flight:
            call.dealt_with[question.id] = answered

    def call_that_ended(self) -> int | None:
        """Return the number of the call that has just ended, if one has."""
        since = asyncio.get_running_loop().time() - self._last_call
        return self._calls if since < SWEPT_WITHIN else None

    async def show(self, question: Question, form: Form) -> ElicitResult | None:
        """Show the form in its turn; return what a person did with it, None if nobody saw it."""
        async with self._turns.turn(question.opened_at):
            return await self._elicit(question, form, await self._open_stream())

    async def _open_stream(self) -> ClientStream:
        """Wait for an open stream to the client: without one a form would be lost."""
        while True:
            calls = [each.stream for each in reversed(self._in_flight)]
            for stream in (self._standing, *calls):
                if stream.is_open():
                    return stream
            with suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), LOOK_S)

    async def _elicit(
        self, question: Question, form: Form, stream: ClientStream
    ) -> ElicitResult | None:
        # Whoever cancels this sends `notifications/cancelled`: the client closes the form.
        session, call = stream.session, stream.call
        try:
            if form.url is not None and can_open_pages(session):
                return await session.elicit_url(form.message, form.url, question.id, call)
            return await session.elicit_form(form.message, form.schema, call)
        except (MCPError, TimeoutError, ValueError) as error:
            # It cannot show it, answered with something else, or is gone.
            log.info("question %s was not shown over MCP: %s", question.id, error)
            return None


class _Turns:
    """A lock that goes to the waiter with the lowest rank."""

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
    """One session, whose open questions are on the client or wait for their turn.

    So is a question whose CLI has died: its answer resumes the session.
    """

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
        """Note a call about this session: a form that was closed unanswered may be shown again."""
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
        """Note that the forms on the client have changed."""
        self._moved.set()
        self._moved = asyncio.Event()

    def watch(self) -> None:
        """Watch the session's questions, unless that is done already."""
        if not self._closed and (self._watching is None or self._watching.done()):
            self._watching = self._desk.spawn(self._watch())
            self._watching.add_done_callback(lambda _: self.moved())

    def close(self) -> None:
        """Withdraw its forms, and show no more."""
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
        handle, session_id = self._desk.handle, self._session_id
        status = await handle.ask(lambda engine: engine.status(session_id))
        # It may have been named by the id that the CLI knows its conversation by.
        self._session_id = session_id = status.session_id
        self._show(status.questions)
        async with aclosing(handle.watch(status.cursor, session_id=session_id)) as batches:
            async for batch in batches:
                if _is_about_questions(batch):
                    self._show(await handle.ask(self._open_ones))

    async def _open_ones(self, engine: Engine) -> Sequence[Question]:
        return await engine.questions(session_id=self._session_id, limit=MOST_OPEN)

    def _show(self, questions: Sequence[Question]) -> None:
        open_ones = {each.id: each for each in questions}
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
    """One question, shown to the client as often as that is allowed."""

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
        """Withdraw the form, unless its answer is on its way."""
        self._is_withdrawn = True
        # The answer itself closes the question, with more to be done for it perhaps.
        if not self._is_answering:
            self._task.cancel()

    async def _ask(self) -> None:
        again = ""
        while (form := self._desk.form(self._question, again)) is not None:
            result = await self._desk.show(self._question, form)
            if result is None:
                self._desk.give_up(self._question)
                continue
            match result.action:
                case "accept":
                    # First, because that it was answered is known elsewhere before it is here.
                    self._desk.note(self._question, answered=True)
                    again = await self._answer(result.content or {})
                    if not again or self._is_withdrawn:
                        return
                case "decline":
                    self._desk.note(self._question, answered=False)
                    self._desk.give_up(self._question)
                case "cancel":
                    self._desk.note(self._question, answered=False)
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
            return await give(self._desk.handle, self._question, content, self._desk.name)
        finally:
            self._is_answering = False
            self._session.watch()
