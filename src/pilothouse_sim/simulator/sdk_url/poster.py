"""The hybrid way out: messages leave as HTTP POSTs while the WebSocket only brings them in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from pilothouse_sim.simulator.sdk_url.clock import within
from pilothouse_sim.simulator.sdk_url.dialect import doubled

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pilothouse_sim.simulator.sdk_url.clock import Clock
    from pilothouse_sim.simulator.sdk_url.dialect import Dialect

    Send = Callable[[bytes], Coroutine[object, object, int | None]]

__all__ = ["Poster", "post_url"]


def post_url(url: str) -> str:
    """Where the events of a WebSocket URL go: `wss://host/ws/x` → `https://host/session/x/events`."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    path = parts.path.replace("/ws/", "/session/", 1).removesuffix("/") + "/events"
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


class Poster:
    """Posts messages in order, one POST at a time.

    Stream events wait a moment for company. Any other message goes at once, takes the waiting
    ones along, and lets nothing be written after it before it is through: as the CLI does it.
    """

    def __init__(self, send: Send, dialect: Dialect, clock: Clock) -> None:
        self._send = send
        self._dialect = dialect
        self._clock = clock
        self._unwritten: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._gathering: list[bytes] = []
        self._window: asyncio.Task[None] | None = None
        self._pending: list[bytes] = []
        self._some_pending = asyncio.Event()
        self._none_pending = asyncio.Event()
        self._none_pending.set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to post."""
        self._tasks = [asyncio.create_task(work()) for work in (self._write, self._upload)]

    def write(self, kind: str, line: bytes) -> None:
        """Take one message of this type, without its newline."""
        self._unwritten.put_nowait((kind, line))

    async def flush(self) -> None:
        """Wait until everything written is through, or given up."""
        await self._unwritten.join()
        await self._release()

    async def aclose(self) -> None:
        """Stop posting."""
        tasks = [*self._tasks, self._window] if self._window else self._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            kind, line = await self._unwritten.get()
            self._gathering.append(line)
            if kind != "stream_event" or not self._dialect.post_window:
                await self._release()
            elif self._window is None:
                self._window = asyncio.create_task(self._release_later())
            self._unwritten.task_done()

    async def _release_later(self) -> None:
        await self._clock.sleep(self._dialect.post_window)
        self._window = None
        self._enqueue()

    async def _release(self) -> None:
        if self._window is not None:
            window, self._window = self._window, None
            window.cancel()
            await asyncio.gather(window, return_exceptions=True)
        self._enqueue()
        await self._none_pending.wait()

    def _enqueue(self) -> None:
        self._pending += self._gathering
        self._gathering.clear()
        if self._pending:
            self._none_pending.clear()
            self._some_pending.set()

    async def _upload(self) -> None:
        while True:
            await self._some_pending.wait()
            size = self._dialect.post_events
            batch, self._pending = self._pending[:size], self._pending[size:]
            await self._post(b'{"events":[' + b",".join(batch) + b"]}")
            if not self._pending:
                self._some_pending.clear()
                self._none_pending.set()

    async def _post(self, body: bytes) -> None:
        failures = 0
        while _is_worth_retrying(await self._try(body)):
            failures += 1
            if failures == self._dialect.post_attempts:
                return
            await self._clock.sleep(self._delay(failures))

    async def _try(self, body: bytes) -> int | None:
        if self._dialect.post_timeout is None:
            return await self._send(body)
        return await within(self._clock, self._dialect.post_timeout, self._send(body))

    def _delay(self, failures: int) -> float:
        delay = doubled(failures, self._dialect.post_delay, self._dialect.post_delay_most)
        return delay + self._clock.chance() * self._dialect.post_jitter


def _is_worth_retrying(status: int | None) -> bool:
    # Measured: a cut connection, 429 and 5xx are retried; events refused with 4xx are dropped.
    return status is None or status == 429 or status >= 500
