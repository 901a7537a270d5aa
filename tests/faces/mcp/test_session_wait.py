"""What ends a wait, and what is told meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from pilothouse.api.events import Gap
from pilothouse.api.requests import Start
from pilothouse.api.statuses import ToolRun
from pilothouse.errors import ServerError
from pilothouse.faces.mcp import session_wait
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.session_wait import wait
from tests.support.http.fake_engine import NOW, FakeEngine

DEADLINE = 20


class Watch:
    """One session of a fake engine, and somebody who waits for it."""

    def __init__(self, session_id: str, engine: FakeEngine) -> None:
        self.engine = engine
        self.session_id = session_id
        self.told: list[tuple[float, float | None, str]] = []
        self.heard = asyncio.Event()
        self.handle = EngineHandle(self._connect)

    async def _connect(self) -> Any:
        return self.engine

    async def progress(self, done: float, total: float | None, message: str) -> None:
        self.told.append((done, total, message))
        self.heard.set()

    def set(self, **members: Any) -> None:
        status = self.engine.sessions[self.session_id]
        self.engine.sessions[self.session_id] = replace(status, **members)

    def happens(self, kind: str, body: Any = None) -> None:
        self.engine.append(self.session_id, kind, json.dumps(body or {}).encode())

    async def wait(self, *, after: int | None = None, seconds: float = 50) -> None:
        async with asyncio.timeout(DEADLINE):
            status = await self.engine.status(self.session_id)
            await wait(self.handle, status, seconds, self.progress, after=after)

    async def waiting(self, **more: Any) -> asyncio.Task[None]:
        """Somebody who waits, and is told that the session works."""
        task = asyncio.create_task(self.wait(**more))
        async with asyncio.timeout(DEADLINE):
            await self.heard.wait()
        await self.engine.watched()
        return task

    async def says(self, *lines: str) -> None:
        """The model says something, and whoever waits is told."""
        self.heard.clear()
        content = [{"type": "text", "text": "\n".join(lines)}]
        self.happens("cli", {"type": "assistant", "message": {"content": content}})
        async with asyncio.timeout(DEADLINE):
            await self.heard.wait()


@pytest.fixture
async def watch() -> Watch:
    engine = FakeEngine()
    started = await engine.start(Start(prompt="go", cwd="/srv"))
    return Watch(started.session_id, engine)


@pytest.mark.parametrize("state", ["done", "error", "interrupted"])
@pytest.mark.parametrize("after", [None, 0, 10])
async def test_a_session_at_rest_is_not_waited_for(
    watch: Watch, state: str, after: int | None
) -> None:
    watch.set(state=state)
    await watch.wait(after=after)
    assert watch.told == []


async def test_a_session_that_asks_is_not_waited_for(watch: Watch) -> None:
    watch.set(state="awaiting_input")
    await watch.wait()
    assert watch.told == []


@pytest.mark.parametrize("state", ["awaiting_input", "done", "error", "interrupted"])
async def test_a_wait_ends_when_the_session_no_longer_works(watch: Watch, state: str) -> None:
    task = await watch.waiting()
    await watch.says("One.")
    assert not task.done()
    watch.set(state=state)
    watch.happens("cli.ended")
    await task


async def test_who_knows_of_a_question_waits_for_what_becomes_of_it(watch: Watch) -> None:
    watch.set(state="awaiting_input")
    watch.happens("question.opened")
    task = await watch.waiting(after=watch.engine.cursor)
    assert watch.told[0][2] == "waits for an answer"
    watch.happens("question.closed")
    await task


@pytest.mark.parametrize("kind", ["question.opened", "question.closed", "turn.ended"])
async def test_what_happened_since_the_cursor_is_not_waited_for(watch: Watch, kind: str) -> None:
    before = watch.engine.cursor
    watch.happens(kind)
    await watch.wait(after=before)


async def test_what_was_lost_since_the_cursor_may_have_mattered(watch: Watch) -> None:
    watch.engine.gaps = [Gap(first=1, last=1, count=1, reason="retention")]
    await watch.wait(after=0)
    await watch.wait(after=1_000)


async def test_a_session_that_asks_is_not_at_rest(watch: Watch) -> None:
    watch.set(state="awaiting_input")
    status = await watch.engine.status(watch.session_id)
    task = asyncio.create_task(wait(watch.handle, status, 50, watch.progress, at_rest=True))
    await watch.engine.watched()
    watch.happens("question.closed")
    watch.set(state="interrupted")
    watch.happens("turn.ended")
    await asyncio.wait_for(task, DEADLINE)


async def test_nobody_waits_longer_than_was_asked_for(watch: Watch) -> None:
    await watch.wait(seconds=0.01)
    assert [each[1:] for each in watch.told] == [(0.01, "works")]


async def test_every_change_is_told(watch: Watch) -> None:
    task = await watch.waiting()
    await watch.says("First line.", "", "Second line.")
    tool = ToolRun(id="t", name="Bash", state="running", detail="make test", since=NOW)
    watch.set(running_tools=[tool])
    watch.heard.clear()
    watch.happens("cli", {"type": "assistant", "message": {"content": [{"type": "tool_use"}]}})
    async with asyncio.timeout(DEADLINE):
        await watch.heard.wait()
    assert [each[2] for each in watch.told] == ["works", "Second line.", "Bash: make test"]
    watch.set(state="done")
    watch.happens("turn.ended")
    await task


async def test_it_is_told_now_and_then_that_the_wait_goes_on(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_wait, "TICK_S", 0.001)
    task = await watch.waiting()
    async with asyncio.timeout(DEADLINE):
        while len(watch.told) < 3:
            watch.heard.clear()
            await watch.heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    times = [each[0] for each in watch.told]
    assert times == sorted(set(times))


async def test_lines_that_are_no_messages_are_passed_over(watch: Watch) -> None:
    task = await watch.waiting()
    for body in (b'"assistant"', b'{"type":"assistant","message":null}', b'{"assistant":'):
        watch.engine.append(watch.session_id, "cli", body)
    watch.set(state="done")
    watch.happens("turn.ended")
    await task


async def test_a_wait_goes_on_with_the_next_engine(watch: Watch) -> None:
    task = await watch.waiting()
    watch.engine.fail(ServerError("it went away"))
    watch.set(state="done")
    watch.happens("turn.ended")
    await task


async def test_an_engine_that_stays_away_is_an_error(watch: Watch) -> None:
    task = await watch.waiting()

    async def nowhere() -> Any:
        raise ServerError("no server can be reached")

    watch.handle._connect = nowhere
    watch.engine.fail(ServerError("it went away"))
    with pytest.raises(ServerError, match="no server can be reached"):
        await task
