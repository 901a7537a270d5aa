"""One machine with one server, and the official MCP client with a `pilothouse mcp` of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

T = TypeVar("T")
COMMAND = [sys.executable, "-m", "pilothouse", "mcp"]
LONGEST_WAIT = 50
TOOLS = {
    *("claude_start", "claude_say", "claude_status"),
    *("claude_respond", "claude_interrupt", "claude_control", "claude_list"),
}
AT_REST = ("done", "error", "interrupted")


class ToolFailed(AssertionError):
    """A tool answered with an error, and the test did not expect one."""


class FormFiller:
    """Sits at the client, and fills in the forms that it shows."""

    def __init__(self) -> None:
        self.forms: list[types.ElicitRequestFormParams] = []
        self.left = 0
        """How many of them are filled in, or were withdrawn."""
        self._fillings: asyncio.Queue[types.ElicitResult] = asyncio.Queue()
        self._changed = asyncio.Condition()

    def will(self, action: str = "accept", /, **content: str | list[str]) -> None:
        """How the next form is left, whether it is shown already or not yet."""
        told: dict[str, Any] = {"action": action, "content": content or None}
        self._fillings.put_nowait(types.ElicitResult(**told))

    async def shown(self, number: int) -> types.ElicitRequestFormParams:
        """Wait for the form of this number, counted from 1."""
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(lambda: len(self.forms) >= number)
        return self.forms[number - 1]

    async def at_rest(self) -> None:
        """Wait until no form is open."""
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(lambda: self.left == len(self.forms))

    async def fill(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.forms.append(params)
        await self._tell()
        try:
            return await self._fillings.get()
        finally:
            self.left += 1
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class ConnectedClient:
    """A client that is connected; with a person where it can show forms."""

    def __init__(self, client: Client, person: FormFiller | None) -> None:
        self.client = client
        self.person = person

    @property
    def is_modern(self) -> bool:
        return self.client.protocol_version >= "2026-07-28"

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a tool returns; the SDK has checked it against the tool's output schema."""
        result = await self._called(name, arguments)
        if result.is_error:
            raise ToolFailed(_text(result))
        assert result.structured_content is not None
        return result.structured_content

    async def refused(self, name: str, **arguments: Any) -> str:
        """The words with which a tool refuses."""
        result = await self._called(name, arguments)
        assert result.is_error, result.structured_content
        return _text(result)

    async def settled(self, session_id: str) -> dict[str, Any]:
        """The session's status once it is at rest, whoever answers what it asks."""
        return await self._status(session_id, AT_REST)

    async def asked(self, session_id: str) -> dict[str, Any]:
        """The oldest question of a session that waits for an answer."""
        status = await self._status(session_id, ("awaiting_input",))
        assert status["pendingQuestion"] == status["pendingQuestions"][0]
        return status["pendingQuestion"]

    async def answer(self, session_id: str, type_: str, answer: str) -> None:
        """Answer what the session asks: in the form that the client shows, or else by the tool."""
        if self.person is not None:
            await self._fill_in(self.person, "q1" if type_ == "question" else "answer", answer)
            return
        question = await self.asked(session_id)
        assert question["type"] == type_
        await self.call("claude_respond", sessionId=session_id, id=question["id"], answers=[answer])

    async def _fill_in(self, person: FormFiller, name: str, answer: str) -> None:
        # In the later era a form is shown only while a call waits.
        if not self.is_modern:
            await person.shown(person.left + 1)
        person.will(**{name: answer})

    async def _status(self, session_id: str, states: tuple[str, ...]) -> dict[str, Any]:
        after: dict[str, Any] = {}
        async with asyncio.timeout(DEADLINE):
            while True:
                status = await self.call(
                    "claude_status", sessionId=session_id, waitSeconds=LONGEST_WAIT, **after
                )
                if status["status"] in states:
                    break
                assert status["status"] not in AT_REST, status
                after = {"after": status["cursor"]}
            # With a cursor only what is new was told.
            return await self.call("claude_status", sessionId=session_id) if after else status

    async def _called(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        async with asyncio.timeout(DEADLINE):
            return await self.client.call_tool(name, arguments)


@asynccontextmanager
async def connected(
    machine: Machine, *, mode: str = "auto", elicits: bool = False
) -> AsyncIterator[ConnectedClient]:
    """The official client over the standard streams of a process that it starts itself."""
    person = FormFiller() if elicits else None
    program, *arguments = COMMAND
    server = StdioServerParameters(
        command=program, args=arguments, env=machine.env, cwd=machine.folder
    )
    with (machine.folder / "mcp-stderr").open("a") as errors:
        client = Client(
            stdio_client(server, errlog=errors),
            mode=mode,
            elicitation_callback=person.fill if person else None,
        )
        async with held(client):
            yield ConnectedClient(client, person)


@asynccontextmanager
async def held(manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enters and leaves it in one task, as anyio wants it: a fixture begins and ends in two."""
    entered = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()
    task = asyncio.create_task(_hold(manager, entered, leave))
    await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
    if not entered.done():
        await task
    try:
        yield entered.result()
    finally:
        leave.set()
        await task


async def _hold(
    manager: AbstractAsyncContextManager[T], entered: asyncio.Future[T], leave: asyncio.Event
) -> None:
    async with asyncio.timeout(DEADLINE) as connecting, manager as value:
        connecting.reschedule(None)
        entered.set_result(value)
        await leave.wait()


def simulating(folder: Path) -> Machine:
    """A machine whose sessions run on the simulator."""
    folder.mkdir(exist_ok=True)
    machine = Machine(folder)
    machine.env |= {"PILOTHOUSE_SIMULATE": "always"}
    return machine


async def end_sessions(machine: Machine) -> None:
    """End its CLIs by its server: without one they take their time."""
    if machine.found() is not None:
        async with http(machine) as direct:
            (await direct.post("/api/sessions/stop")).raise_for_status()


def http(machine: Machine) -> httpx.AsyncClient:
    """The way to its server that has nothing to do with MCP."""
    running = machine.found()
    assert running is not None
    headers = {"Authorization": f"Bearer {running.token}"}
    return httpx.AsyncClient(
        base_url=running.address, headers=headers, timeout=DEADLINE, trust_env=False
    )


def _text(result: types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))
