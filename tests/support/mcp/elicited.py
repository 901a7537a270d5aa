"""An engine with questions, a face before it, and the person that its client shows forms to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
from mcp import Client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from msgspec import Raw
from msgspec.structs import replace

from pilothouse import errors
from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch, Event
from pilothouse.api.questions import Answered, Question
from pilothouse.api.statuses import Status
from pilothouse.engine.questions import check
from pilothouse.faces.mcp.elicitation import required, take
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.form_push import ClientStream, FormPush
from tests.support.asks import posed, tool_request
from tests.support.waiting import DEADLINE

ACCEPT = types.ElicitResult(action="accept", content={"answer": "allow"})
DECLINE = types.ElicitResult(action="decline")
CANCEL = types.ElicitResult(action="cancel")
BY = "person via mcp:tests"
Context = ServerRequestContext[Any, Any]


class AskingEngine:
    """Questions, and a journal that tells of each when it opens and when it closes."""

    def __init__(self) -> None:
        self.all: dict[str, Question] = {}
        self.names: dict[str, str] = {}
        """Other names of sessions, which a status alone is found by."""
        self.journal: list[Event] = []
        self.given: list[tuple[str, Answer, str]] = []
        self.fails: list[errors.PilothouseError] = []
        """What the next answers come to."""
        self._lost: errors.PilothouseError | None = None
        self.watchers = 0
        self.finished = 0
        """Answers that nobody has interrupted on their way."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answering = asyncio.Event()
        self._grown = asyncio.Event()

    # What tests do to it

    def ask(self, session_id: str = "one", question: Question | None = None) -> Question:
        number = len(self.all) + 1
        made = posed(tool_request("Bash", {"command": f"command {number}"}))
        named: Any = {"id": f"q-{number}", "session_id": session_id, "opened_at": number}
        question = replace(question or made, **named)
        self.all[question.id] = question
        self.tell(session_id, "question.opened")
        return question

    def close(self, question: Question, **members: Any) -> None:
        members = {"state": "withdrawn", "decidable": False} | members
        self.all[question.id] = replace(question, **members)
        self.tell(question.session_id, "question.closed")

    def tell(self, session_id: str, kind: str) -> None:
        body = Raw(b"{}")
        self.journal.append(Event(len(self.journal) + 1, session_id, kind, 0, body))
        self.wake()

    def lose(self, error: errors.PilothouseError) -> None:
        """Let whoever watches learn of an error."""
        self._lost = error
        self.wake()

    def wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, which is looked at whenever something has happened."""
        async with asyncio.timeout(DEADLINE):
            while not holds():
                await self._grown.wait()

    # The contract

    async def status(self, session_id: str) -> Status:
        if session_id == "unknown":
            raise errors.UnknownSession("no session has this id")
        session_id = self.names.get(session_id, session_id)
        return Status(
            session_id=session_id,
            state="active",
            cwd="/srv/boat",
            live=True,
            started_at=0,
            updated_at=0,
            cursor=len(self.journal),
            questions=list(await self.questions(session_id=session_id, state="decidable")),
        )

    async def questions(
        self, *, session_id: str, state: str = "decidable", limit: int = 500
    ) -> Sequence[Question]:
        return [
            each
            for each in self.all.values()
            if each.session_id == session_id
            and (each.decidable if state == "decidable" else each.state == state)
        ][-limit:]

    async def question(self, question_id: str) -> Question:
        if question_id not in self.all:
            raise errors.UnknownQuestion("no question has this id")
        return self.all[question_id]

    async def answer(self, question_id: str, answer: Answer, *, by: str) -> Answered:
        self.answering.set()
        await self.may_answer.wait()
        question = await self.question(question_id)
        if self.fails:
            self.wake()
            raise self.fails.pop(0)
        if question.state == "answered" or not question.decidable:
            raise errors.QuestionSettled("it was answered before")
        check(question, answer, bypass_allowed=False)
        self.given.append((question_id, answer, by))
        self.close(question, state="answered", answer=answer, answered_by=by)
        # Whoever watches learns of it before whoever answers.
        await settled()
        self.finished += 1
        return Answered(question=question, state="active", session_id=question.session_id)

    async def watch(self, after: int, *, session_id: str) -> AsyncGenerator[Batch]:
        self.watchers += 1
        try:
            while True:
                grown = self._grown
                if self._lost is not None:
                    lost, self._lost = self._lost, None
                    raise lost
                new = [each for each in self.journal if each.seq > after]
                if new:
                    after = new[-1].seq
                    mine = [each for each in new if each.session_id == session_id]
                    yield Batch(events=mine, cursor=after)
                else:
                    await grown.wait()
        finally:
            self.watchers -= 1

    async def aclose(self) -> None:
        return


class FormPerson:
    """Sits before the client: sees each form, and does with it what was said beforehand."""

    def __init__(self, *does: Any) -> None:
        self.seen: list[Any] = []
        self.withdrawn = 0
        self._does = list(does)
        self._changed = asyncio.Condition()

    async def __call__(self, context: Any, params: Any) -> Any:
        await self._change(lambda: self.seen.append(params))
        try:
            done = self._does.pop(0) if self._does else await asyncio.Event().wait()
            return await cast("Any", done)(params) if callable(done) else done
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        finally:
            await asyncio.shield(self._change(lambda: None))

    async def _change(self, change: Callable[[], Any]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()

    async def sees(self, number: int) -> Any:
        """Wait for the so many-th form."""
        await self.until(lambda: len(self.seen) >= number)
        return self.seen[number - 1]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(holds)


class ElicitingFace:
    """A server with two tools: `touch` follows a session, `wait` asks as results can."""

    def __init__(self, engine: AskingEngine) -> None:
        self.engine = engine
        self.connects: list[Any] = []
        self.handle = EngineHandle(self._connect)
        self.pushing: dict[int, FormPush] = {}
        self.ended = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.sessions: list[Any] = []
        self.server = Server("face", on_call_tool=self.call, on_list_tools=self.tools)

    async def _connect(self) -> Any:
        if self.connects and isinstance(found := self.connects.pop(0), Exception):
            raise found
        return self.engine

    async def tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        schema = {"type": "object"}
        tools = [types.Tool(name=name, input_schema=schema) for name in ("touch", "wait")]
        return types.ListToolsResult(tools=tools)

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        self.sessions.append(ctx.session)
        if params.name == "wait":
            return await self._wait(params)
        pushing = self._pushing(ctx)
        with pushing.calling(ClientStream(ctx.session)):
            pushing.follow((params.arguments or {})["session"])
            await self.may_end.wait()
        return types.CallToolResult(content=[])

    def _pushing(self, ctx: Context) -> FormPush:
        connection = ctx.session._connection
        if id(connection) not in self.pushing:
            made = FormPush(self.handle, ClientStream(ctx.session), "tests")
            self.pushing[id(connection)] = made
            connection.exit_stack.push_async_callback(self._close, made)
        return self.pushing[id(connection)]

    async def _close(self, pushing: FormPush) -> None:
        await pushing.aclose()
        assert not pushing._desk.tasks
        self.ended.set()

    async def _wait(self, params: types.CallToolRequestParams) -> Any:
        dismissed, asked = json.loads(params.request_state or "[[], []]")
        taken = await take(
            self.handle, params.input_responses, "tests", asked=asked, session_id="one"
        )
        dismissed = [*dismissed, *taken.noted]
        questions = await self.engine.questions(session_id="one", state="decidable")
        requests = required(questions, dismissed)
        if requests:
            state = json.dumps([dismissed, list(requests)])
            return types.InputRequiredResult(input_requests={**requests}, request_state=state)
        text = ",".join(each.id for each in questions)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    @asynccontextmanager
    async def client(self, person: Any, mode: str = "legacy") -> AsyncIterator[Client]:
        async with Client(self.server, mode=mode, elicitation_callback=person) as client:
            yield client


async def touch(client: Client, session_id: str = "one") -> None:
    await client.call_tool("touch", {"session": session_id})


async def settled() -> None:
    """Let everything that can go on without anybody's doing go on."""
    for _ in range(50):
        await asyncio.sleep(0)
