"""How often each tool asks the engine: no round trip is made for what was returned before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from msgspec.structs import replace

from pilothouse.api.questions import Question
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.server import create_server
from pilothouse.faces.mcp.tool_handlers import ToolHandlers
from tests.support.http.fake_engine import FakeEngine

ERAS = ["legacy", "2026-07-28"]
DEADLINE = 20

pytestmark = pytest.mark.parametrize("era", ERAS)


class Counted:
    """An engine that notes the name of every verb it is asked for."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.engine, name)

    async def aclose(self) -> None:
        return

    def pose(self, session_id: str) -> Question:
        """Let the session ask something."""
        question = self.engine.pose(session_id)
        self.set(session_id, state="awaiting_input", questions=[question])
        return question

    def set(self, session_id: str, **members: Any) -> None:
        self.engine.sessions[session_id] = replace(self.engine.sessions[session_id], **members)


class Stdio:
    """A client as of `pilothouse mcp`: the server works beside it, in a folder."""

    def __init__(self, client: Client, engine: Counted) -> None:
        self.client = client
        self.engine = engine

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result; `engine.asked` is what was asked for it."""
        self.engine.asked.clear()
        result = await asyncio.wait_for(self.client.call_tool(tool, arguments), DEADLINE)
        assert not result.is_error, result.content
        return result.structured_content

    async def start(self) -> str:
        return (await self.call("claude_start", prompt="go"))["sessionId"]


@asynccontextmanager
async def stdio(era: str) -> AsyncIterator[Stdio]:
    engine = Counted(FakeEngine())

    async def connect() -> Any:
        return engine

    handle = EngineHandle(connect)
    handlers = ToolHandlers(handle, answers="anyone")
    server = create_server(handlers, handle, default_cwd="/srv/boat")
    async with Client(server, mode=era) as client:
        yield Stdio(client, engine)
    await handle.aclose()


async def test_claude_start_asks_three_times(era: str) -> None:
    async with stdio(era) as client:
        await client.start()
        assert client.engine.asked == ["health", "start", "status"]


async def test_claude_start_in_a_mode_that_approves_asks_once_more_who_may(era: str) -> None:
    async with stdio(era) as client:
        given = {"permissionMode": "acceptEdits", "allowedTools": ["Read"]}
        await client.call("claude_start", prompt="go", **given)
        assert client.engine.asked == ["settings", "health", "start", "status"]


async def test_claude_say_asks_three_times(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        await client.call("claude_say", sessionId=session_id, message="on")
        assert client.engine.asked == ["health", "say", "status"]


async def test_claude_respond_asks_for_each_thing_once_and_answers_once(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        question = client.engine.pose(session_id)
        # The question stands in the status; who may approve is known when the result tells of it.
        await client.call("claude_respond", sessionId=session_id, id=question.id, answers=["allow"])
        assert client.engine.asked == ["settings", "status", "answer", "status"]


async def test_claude_respond_that_waits_asks_no_more_where_the_session_rests(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        question = client.engine.pose(session_id)
        client.engine.set(session_id, state="done")
        given = {"sessionId": session_id, "id": question.id, "answers": ["allow"]}
        await client.call("claude_respond", **given, waitSeconds=50)
        assert client.engine.asked == ["settings", "status", "answer", "status"]


@pytest.mark.parametrize("wait", [0, 50])
async def test_claude_status_asks_once_where_there_is_nothing_to_wait_for(
    era: str, wait: int
) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        client.engine.set(session_id, state="done")
        status = await client.call("claude_status", sessionId=session_id, waitSeconds=wait)
        assert status["recentOutput"] == ["line"] * 3
        assert client.engine.asked == ["status"]


async def test_claude_status_of_a_session_that_asks_also_asks_who_may_answer(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        client.engine.pose(session_id)
        await client.call("claude_status", sessionId=session_id, waitSeconds=50)
        assert client.engine.asked == ["status", "settings"]


async def test_claude_status_that_waits_asks_again_when_something_has_happened(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        waiting = asyncio.create_task(
            client.call("claude_status", sessionId=session_id, waitSeconds=50)
        )
        await client.engine.engine.watched()
        client.engine.set(session_id, state="done")
        client.engine.engine.append(session_id, "turn.ended", b"{}")
        assert (await waiting)["status"] == "done"
        # The last one brings the output, which the one before is not asked for.
        assert client.engine.asked == ["status", "watch", "status", "status"]


async def test_claude_interrupt_asks_twice(era: str) -> None:
    async with stdio(era) as client:
        session_id = await client.start()
        await client.call("claude_interrupt", sessionId=session_id)
        assert client.engine.asked == ["interrupt", "status"]


async def test_claude_list_asks_once(era: str) -> None:
    async with stdio(era) as client:
        await client.start()
        await client.call("claude_list")
        assert client.engine.asked == ["list"]
