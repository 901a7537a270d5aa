"""One engine after the other, as this face reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch
from pilothouse.errors import ServerError, UnknownSession
from pilothouse.faces.mcp.engine_handle import EngineHandle
from tests.support.waiting import DEADLINE


class Standin:
    """An engine that can be lost."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = asyncio.Event()
        self.lost = asyncio.Event()

    async def health(self) -> int:
        if self.lost.is_set():
            raise ServerError("gone")
        return self.number

    async def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        yield Batch(events=[], cursor=(after or 0) + self.number)
        ends = [asyncio.create_task(each.wait()) for each in (self.closed, self.lost)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        if self.lost.is_set() and not self.closed.is_set():
            raise ServerError("gone")

    async def aclose(self) -> None:
        self.closed.set()


class Stable:
    """Where the engines come from."""

    def __init__(self) -> None:
        self.made: list[Standin] = []

    async def connect(self) -> Engine:
        self.made.append(Standin(len(self.made) + 1))
        return cast("Engine", self.made[-1])


@pytest.fixture
def stable() -> Stable:
    return Stable()


def health(engine: Engine) -> Any:
    return engine.health()


async def test_nothing_is_connected_before_it_is_needed(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    assert stable.made == []
    assert await handle.ask(health) == 1
    assert await handle.ask(health) == 1
    assert len(stable.made) == 1


async def test_what_a_lost_engine_cannot_be_asked_the_next_one_is(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    await handle.ask(health)
    stable.made[0].lost.set()
    assert await handle.ask(health) == 2
    assert stable.made[0].closed.is_set()


async def test_many_that_lose_an_engine_at_once_share_the_next_one(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    await handle.ask(health)
    stable.made[0].lost.set()
    assert await asyncio.gather(*(handle.ask(health) for _ in range(5))) == [2] * 5


async def test_a_refusal_is_no_reason_to_look_for_another_engine(stable: Stable) -> None:
    async def refused(_: Engine) -> None:
        raise UnknownSession("there is no session x")

    handle = EngineHandle(stable.connect)
    with pytest.raises(UnknownSession):
        await handle.ask(refused)
    assert len(stable.made) == 1


async def test_a_watch_goes_on_with_the_engine_that_somebody_asked_next(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    async with aclosing(handle.watch(10)) as batches:
        assert (await anext(batches)).cursor == 11
        following = asyncio.create_task(anext(batches))
        await asyncio.sleep(0)  # the watch waits now
        stable.made[0].lost.set()
        assert await handle.ask(health) == 2
        assert (await asyncio.wait_for(following, DEADLINE)).cursor == 13


async def test_who_only_watches_starts_no_engine(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    async with aclosing(handle.watch()) as batches:
        await anext(batches)
        stable.made[0].lost.set()
        with pytest.raises(ServerError):
            await asyncio.wait_for(anext(batches), DEADLINE)
    assert len(stable.made) == 1


async def test_a_watch_ends_with_the_face(stable: Stable) -> None:
    handle = EngineHandle(stable.connect)
    async with aclosing(handle.watch()) as batches:
        await anext(batches)
        await handle.aclose()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(batches), DEADLINE)
    with pytest.raises(ServerError):
        await handle.engine()
