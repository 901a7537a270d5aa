"""Waits for the next event of a session that its caller must know, and reports progress."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

import anyio
from msgspec import DecodeError, Struct, json

from pilothouse.api.events import Batch, Event
from pilothouse.api.statuses import Status
from pilothouse.api.waits import PASSING, Wanted
from pilothouse.errors import PilothouseError, ServerError

from .engine_handle import EngineHandle

__all__ = ["ASKING", "Progress", "telling", "wait"]

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""How long it has waited, how long it will at most, and what goes on."""

TICK_S: Final = 5.0
AGAIN_S: Final = 0.1
ASKING: Final = "waits for an answer"
LINE: Final = 200
"""Characters of what is told of the work."""


async def wait(
    handle: EngineHandle,
    status: Status,
    seconds: float,
    progress: Progress,
    *,
    after: int | None = None,
    at_rest: bool = False,
) -> Status | None:
    """Wait for the next thing that matters; one that has happened since `after` ends it at once.

    Without `after` it is that the session no longer works by itself, or, with `at_rest`, that it
    neither works nor asks. `status` is the session as it is now. Return the status that ended the
    wait; None: an event did, or the time ran out.
    """
    wanted = Wanted(after, at_rest=at_rest)
    if wanted.is_it(status):
        return status
    lost: PilothouseError | None = None
    found: Status | None = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            telling = _Telling(progress, seconds, _doing(status))
            tasks.start_soon(telling.run)
            try:
                found = await _Watch(handle, status, wanted, telling).run()
            except PilothouseError as error:
                # Out of a task group it would come in a group of errors.
                lost = error
            tasks.cancel_scope.cancel()
    if lost is not None:
        raise lost
    return found


class _Watch:
    """One session, watched until something matters: on one engine, and on the next one."""

    def __init__(
        self, handle: EngineHandle, status: Status, wanted: Wanted, telling: _Telling
    ) -> None:
        self._handle = handle
        self._session_id = status.session_id
        self._wanted = wanted
        self._cursor = status.cursor if wanted.after is None else wanted.after
        self._telling = telling
        self._last: Status | None = None

    async def run(self) -> Status | None:
        """Return the status that ended it; None: an event did."""
        while not await self._saw_it():
            # Asking reaches the next engine, or tells that there is none.
            await anyio.sleep(AGAIN_S)
            self._last = await self._status()
            if self._wanted.is_it(self._last):
                break
        return self._last

    async def _saw_it(self) -> bool:
        """Whether it happened; if not, the engine has gone."""
        watching = self._handle.watch(self._cursor, session_id=self._session_id)
        try:
            async with aclosing(watching) as batches:
                async for batch in batches:
                    self._cursor = batch.cursor
                    if await self._is_it(batch):
                        return True
        except ServerError:
            pass
        return False

    async def _is_it(self, batch: Batch) -> bool:
        if self._wanted.has_it(batch):
            self._last = None
            return True
        if all(event.kind in PASSING for event in batch.events) and not batch.gaps:
            return False
        self._last = now = await self._status()
        self._telling.changed(_latest(batch) or _doing(now))
        return self._wanted.is_it(now)

    async def _status(self) -> Status:
        return await self._handle.ask(lambda engine: engine.status(self._session_id))


@asynccontextmanager
async def telling(progress: Progress, total: float, doing: str) -> AsyncGenerator[None]:
    """Report this at once, and again from time to time while the context lasts."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_Telling(progress, total, doing).run)
        yield
        tasks.cancel_scope.cancel()


class _Telling:
    """Reports progress to the caller: at once, at every change, and from time to time."""

    def __init__(self, progress: Progress, total: float, doing: str) -> None:
        self._progress = progress
        self._total = total
        self._doing = doing
        self._began = time.monotonic()
        self._changed = anyio.Event()

    def changed(self, doing: str) -> None:
        if doing and doing != self._doing:
            self._doing = doing
            self._changed.set()

    async def run(self) -> None:
        while True:
            passed = min(time.monotonic() - self._began, self._total)
            await self._progress(passed, self._total, self._doing)
            with anyio.move_on_after(TICK_S):
                await self._changed.wait()
            self._changed = anyio.Event()


def _doing(status: Status) -> str:
    if status.state == "awaiting_input":
        return ASKING
    if status.running_tools:
        tool = status.running_tools[-1]
        return f"{tool.name}: {tool.detail}"[:LINE] if tool.detail else tool.name
    return f"waits for {status.waiting_on.what}" if status.waiting_on else "works"


def _latest(batch: Batch) -> str:
    """Return the last line of the model's text among these events."""
    said = [line for event in batch.events if event.kind == "cli" for line in _lines(event)]
    return said[-1][:LINE] if said else ""


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Message(Struct, frozen=True):
    content: tuple[_Block, ...] = ()


class _Line(Struct, frozen=True):
    """The part of a CLI's line that is needed here."""

    type: str = ""
    message: _Message = _Message()


_read = json.Decoder(_Line).decode


def _lines(event: Event) -> list[str]:
    if b'"assistant"' not in bytes(event.body):
        return []
    try:
        line = _read(event.body)
    except (DecodeError, UnicodeError):
        return []
    if line.type != "assistant":
        return []
    texts = [block.text for block in line.message.content if block.type == "text"]
    return [each for text in texts for each in text.splitlines() if each.strip()]
