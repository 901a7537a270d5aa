"""One prompt to a real CLI: `query` for async code, `run` for scripts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from pilothouse import ResultMessage, SessionEnded, query, run
from pilothouse_sim.scenario import ApiError, Branch, Scenario, When, gate, reply, tool
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.processes import gone, with_variable
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.turns import HeldCommand, allow
from tests.support.versions import Since, can
from tests.support.waiting import DEADLINE


async def results(it: Desk, content: str, **options: object) -> list[str | None]:
    async with aclosing(query(content, it.options(**options))) as events:
        return [event.result async for event in events if isinstance(event, ResultMessage)]


async def test_a_query_gives_everything_to_the_end(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    async with asyncio.timeout(DEADLINE):
        assert await results(it, "hi") == ["hello"]


async def test_a_query_that_failed_ends_with_its_result(desk: OpenDesk) -> None:
    it = await desk(*[ApiError(status=400, message="No such luck.")] * 10)
    async with asyncio.timeout(DEADLINE):
        [said] = await results(it, "hi")
    assert said is not None
    assert "No such luck." in said


async def test_a_query_left_early_ends_its_cli(desk: OpenDesk) -> None:
    it = await desk(reply("one ", gate("held")))
    clis: list[int] = []
    async with asyncio.timeout(DEADLINE):
        async with aclosing(query("hi", it.options(include_partial_messages=True))) as events:
            async for event in events:
                if getattr(event, "text", None) == "one ":
                    clis = with_variable("HOME", str(it.home))
                    assert clis
                    break
        # It would wait for the rest of the reply for ever.
        await gone(*clis)


async def test_a_query_waits_for_a_sub_agent_to_report(desk: OpenDesk) -> None:
    child = Branch(when=When(prompt_contains="count the files"), replies=(reply("seven"),))
    call = tool("Task", description="count", prompt="count the files", subagent_type="Explore")
    it = await desk(reply(call), reply("asked"), reply("it says seven"), branches=[child])
    async with asyncio.timeout(DEADLINE):
        told = await results(it, "how many?", on_permission=allow)
    later = ["it says seven"] if can(it.version, Since.AGENTS_IN_BACKGROUND) else []
    assert told == ["asked", *later]


async def test_a_query_does_not_wait_for_a_background_shell(desk: OpenDesk) -> None:
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.background_call), reply("it runs"), reply("over"))
        async with asyncio.timeout(DEADLINE):
            told = await results(it, "start it", on_permission=allow, close_grace=0.5)
        assert not held.released
    assert told == ["it runs"]


@contextmanager
def model_in_a_thread(scenario: Scenario) -> Iterator[ScriptedModel]:
    """A scripted model with an event loop of its own."""
    model, ready, stop = ScriptedModel(scenario), threading.Event(), threading.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with model:
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(DEADLINE)
        yield model
    finally:
        stop.set()
        thread.join(DEADLINE)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def folders(tmp_path: Path) -> tuple[Path, Path]:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return home, cwd


def test_run_needs_no_event_loop(version: str, tmp_path: Path) -> None:
    with model_in_a_thread(Scenario(replies=[reply("hello")])) as model:
        it = Desk(version, model, *folders(tmp_path), None)  # pyright: ignore[reportArgumentType]
        turn = run("hi", it.options())
    assert (turn.outcome, turn.text) == ("finished", "hello")


def test_run_raises_what_ended_the_cli(version: str, tmp_path: Path) -> None:
    with model_in_a_thread(Scenario()) as model:
        it = Desk(version, model, *folders(tmp_path), None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(SessionEnded, match="no-such-flag"):
            run("hi", it.options(extra_args={"no-such-flag": None}))
