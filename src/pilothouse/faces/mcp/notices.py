"""Notices of changes for one client, for as long as it wants them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Final

from pilothouse.api.events import Batch, Event
from pilothouse.errors import PilothouseError

from .addresses import SESSIONS, address_of, session_of
from .engine_handle import EngineHandle

__all__ = ["EVERY_S", "LIST", "Notices", "Tell"]

log = logging.getLogger(__name__)

LIST: Final = "the list of resources"
"""Stands among the addresses for the list itself."""
EVERY_S: Final = 0.5
"""The least time between two notices on the same resource."""
UNSEEN: Final = "noise"
"""The kind that changes nothing a resource tells."""
PIECE: Final = "partial"
"""A piece of a text that is being written: it changes the transcript alone."""

Tell = Callable[[str], Awaitable[None]]


class Notices:
    """Watches the engine while a client wants notices, and reports each change once.

    A change that comes soon after another one is reported with the next. When the engine is gone
    it rests, so as not to start a server that somebody has stopped; `wake` continues from there.
    """

    def __init__(
        self,
        handle: EngineHandle,
        tell: Tell,
        *,
        every_s: float = EVERY_S,
        rested: Callable[[], None] = lambda: None,
    ) -> None:
        self._handle = handle
        self._tell = tell
        self._every_s = every_s
        self._rested = rested
        self._wanted: dict[str, str] = {}
        """What somebody asked for -> the address under which its changes come."""
        self._changed: dict[str, None] = {}
        self._stirred = asyncio.Event()
        self._cursor: int | None = None
        self._watch: asyncio.Task[None] | None = None
        self._teller: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def count(self) -> int:
        """Return how many addresses are wanted."""
        return len(self._wanted)

    async def want(self, addresses: Mapping[str, str]) -> None:
        """Report changes of these as well from now on, under the names they were asked for by."""
        scope = self._scope()
        more = {asked: each for asked, each in addresses.items() if asked not in self._wanted}
        self._wanted |= more
        try:
            await self.wake(anew=self._scope() != scope)
        except PilothouseError:
            for asked in more:
                self._wanted.pop(asked, None)
            raise

    async def forget(self, address: str) -> None:
        """Report changes of this one no more."""
        self._wanted.pop(address, None)
        self._changed.pop(address, None)
        if not self._wanted:
            await self._rest()
            self._cursor = None

    async def wake(self, *, anew: bool = False) -> None:
        """Watch, if something is wanted and nobody does; `anew` where what is wanted differs."""
        if self._watch is not None and (anew or self._watch.done()):
            await self._rest()
        if self._watch is not None or self._closed or not self._wanted:
            return
        if self._cursor is None:
            cursor = (await self._handle.ask(lambda engine: engine.health())).cursor
            self._cursor = cursor if self._cursor is None else self._cursor
        if self._watch is None and not self._closed:
            self._watch = asyncio.create_task(self._watching(), name="notices: watch")
            self._teller = self._teller or asyncio.create_task(self._telling(), name="notices")

    async def aclose(self) -> None:
        """Report nothing any more."""
        self._closed = True
        self._wanted.clear()
        await self._rest()
        teller, self._teller = self._teller, None
        await _ended(teller)

    async def _rest(self) -> None:
        watch, self._watch = self._watch, None
        await _ended(watch)

    # Watching

    async def _watching(self) -> None:
        try:
            await self._watch_engines()
        except PilothouseError as error:
            log.info("nothing is watched for a client any more: %s", error)
        self._rested()

    async def _watch_engines(self) -> None:
        last = None
        # One that was lost by whoever asked it something ends without an error, and has a follower.
        while (engine := await self._handle.engine()) is not last:
            last = engine
            watched = engine.watch(self._cursor, session_id=self._scope())
            async with aclosing(watched) as batches:
                async for batch in batches:
                    self._cursor = batch.cursor
                    self._take(batch)

    def _scope(self) -> str | None:
        """The one session that all of it is about, if there is one."""
        sessions = {session_of(each) for each in self._wanted.values()}
        return sessions.pop() if len(sessions) == 1 else None

    def _take(self, batch: Batch) -> None:
        if any(gap.reason != "partials" for gap in batch.gaps):
            self._mark({*self._wanted.values()})
        else:
            self._mark({each for event in batch.events for each in _changed_by(event)})

    # Telling

    def _mark(self, changed: set[str]) -> None:
        for asked, address in self._wanted.items():
            if address in changed:
                self._changed[asked] = None
                self._stirred.set()

    async def _telling(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            changed, self._changed = self._changed, {}
            for each in changed:
                await self._tell(each)
            # What changes meanwhile is told once.
            await asyncio.sleep(self._every_s)


def _changed_by(event: Event) -> Iterator[str]:
    if event.kind == UNSEEN:
        return
    yield address_of(event.session_id, "transcript")
    if event.kind == PIECE:
        return
    yield address_of(event.session_id)
    if event.kind != "cli":
        yield SESSIONS
    if event.kind == "session.started":
        yield LIST


async def _ended(task: asyncio.Task[None] | None) -> None:
    """End a task of ours, and let nothing it died of pass unseen."""
    if task is None:
        return
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("notices have failed: %s", error, exc_info=error)
