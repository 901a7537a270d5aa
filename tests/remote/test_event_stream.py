"""A watcher over HTTP whose server comes back with an older journal."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing

import pytest

from pilothouse.api.requests import Start
from pilothouse.errors import UnknownSession
from pilothouse.remote import RemoteEngine
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import TOKEN, make_app, served


async def test_a_cursor_beyond_the_end_is_told_once_and_set_back() -> None:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    async with asyncio.timeout(20), served(make_app(engine)) as address:
        remote = RemoteEngine(address, TOKEN)
        async with aclosing(remote.watch(900)) as watching:
            told = await anext(watching)
            assert ([gap.reason for gap in told.gaps], told.cursor) == (["reset"], 1)
            engine.append("session-1")
            batch = await anext(watching)
            assert ([each.seq for each in batch.events], batch.gaps) == ([2], [])
        await remote.aclose()


async def test_changes_of_a_conversation_go_on_when_the_server_comes_back() -> None:
    engine = FakeEngine()
    session_id = (await engine.start(Start(prompt="hello", cwd="/"))).session_id
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        async with served(make_app(engine)) as address:
            remote = RemoteEngine(address, TOKEN)
            changes = await stack.enter_async_context(aclosing(remote.follow(session_id, 0)))
            told = await anext(changes)
            assert (told.cursor, told.patches[0].append) == (1, " 1")
            assert told.unfinished == ["t"]
        engine.append(session_id)
        async with served(make_app(engine), port=int(address.rpartition(":")[2])):
            told = await anext(changes)
            assert (told.cursor, told.patches[0].append) == (2, " 2")
        await remote.aclose()


async def test_nobody_can_follow_a_session_that_is_unknown() -> None:
    async with asyncio.timeout(20), served(make_app(FakeEngine())) as address:
        remote = RemoteEngine(address, TOKEN)
        with pytest.raises(UnknownSession):
            await anext(remote.follow("nobody", 0))
        await remote.aclose()


async def test_rows_of_the_list_go_on_when_the_server_comes_back() -> None:
    engine = FakeEngine()
    session_id = (await engine.start(Start(prompt="hello", cwd="/"))).session_id
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        async with served(make_app(engine)) as address:
            remote = RemoteEngine(address, TOKEN)
            changes = await stack.enter_async_context(aclosing(remote.follow_sessions(0)))
            told = await anext(changes)
            assert ([each.session_id for each in told.changed], told.cursor) == ([session_id], 1)
        question = engine.pose(session_id)
        async with served(make_app(engine), port=int(address.rpartition(":")[2])):
            told = await anext(changes)
            assert (told.questions, told.cursor) == ([question], 2)
        await remote.aclose()


async def test_a_list_of_another_journal_is_told_once_and_followed_from_its_end() -> None:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    async with asyncio.timeout(20), served(make_app(engine)) as address:
        remote = RemoteEngine(address, TOKEN)
        async with aclosing(remote.follow_sessions(900)) as changes:
            told = await anext(changes)
            assert (told.reset, told.cursor) == (True, 1)
            engine.append("session-1")
            told = await anext(changes)
            assert (told.reset, told.cursor, len(told.changed)) == (False, 2, 1)
        await remote.aclose()
