"""A watcher over HTTP whose server comes back with an older journal."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from pilothouse.api.requests import Start
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
