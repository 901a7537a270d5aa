"""The connection to the engine: made on first use, and again after the engine was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch
from pilothouse.errors import PilothouseError, ServerError

__all__ = ["Connect", "EngineHandle"]

T = TypeVar("T")
Connect = Callable[[], Awaitable[Engine]]


class EngineHandle:
    """A connection to an engine, and to the next one when that one is gone.

    It may repeat a request: every verb used here is idempotent, by a key or by its nature.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def engine(self) -> Engine:
        """Return the engine; connect to it if there is no connection."""
        async with self._connecting:
            if self._closed:
                raise ServerError("this client has left")
            if self._engine is None:
                self._engine = await self._connect()
            return self._engine

    async def ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """Ask the engine; if it cannot be reached any more, ask the next one."""
        engine = await self.engine()
        try:
            return await verb(engine)
        except ServerError:
            await self._lose(engine)
            return await verb(await self.engine())

    async def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        """Yield events after a cursor, from one engine after the other.

        It continues with the next engine if somebody asks that one; a watcher starts none.
        """
        while not self._closed:
            engine = await self.engine()
            try:
                async with aclosing(engine.watch(after, session_id=session_id)) as batches:
                    async for batch in batches:
                        after = batch.cursor
                        yield batch
            except ServerError:
                await self._lose(engine)
                if self._engine is None:
                    raise
            if self._engine is engine:
                return

    async def _lose(self, engine: Engine) -> None:
        async with self._connecting:
            if self._engine is not engine:
                return
            self._engine = None
        with suppress(PilothouseError):
            await engine.aclose()

    async def aclose(self) -> None:
        """Close the connection; an engine in this process ends with it."""
        self._closed = True
        async with self._connecting:
            engine, self._engine = self._engine, None
        if engine is not None:
            await engine.aclose()
