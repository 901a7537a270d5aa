"""One connection of a runner: carries messages, and matches answers to what was asked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from pilothouse.relay.refusals import Refusal
from pilothouse.runner import messages
from pilothouse.runner.messages import FromRunner, FromServer, Hello
from pilothouse.transport.base import SpawnFailed

from .sockets import Socket

__all__ = ["RunnerLink", "read", "start_failed"]

ANSWER: Final = 45.0
"""Seconds a runner has to answer; it gives a relay 30 to come up."""
LONGEST: Final = 4 * 1024 * 1024
"""What a runner has to say is much shorter; the door itself lets through what relays need."""
FAREWELL: Final = 5.0
"""Seconds for a connection that is sent away to hear why."""


def read(data: str | bytes) -> FromRunner | None:
    """A runner's message, as `from_runner` reads it; raises `MessageError`, also for its length."""
    if len(data) > LONGEST:
        raise messages.MessageError("this message is too long for a runner's")
    return messages.from_runner(data)


def start_failed(name: str, reason: str) -> SpawnFailed:
    return SpawnFailed(f"a session on {name}", reason)


class RunnerLink:
    """One connection of a runner that has proved itself."""

    def __init__(self, name: str, socket: Socket, hello: Hello) -> None:
        self.name = name
        self.hello = hello
        self.draining = hello.draining
        self.runs: set[str] = set()
        self.starting: dict[int, str] = {}
        self.ended = asyncio.Event()
        self._socket = socket
        self._ids = itertools.count(1)
        self._outbox: asyncio.Queue[FromServer] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[FromRunner]] = {}
        self._dismissal: asyncio.Future[tuple[int, str]] = asyncio.Future()

    def knows(self, run: str) -> bool:
        """Whether it has the run, or is about to."""
        return run in self.runs or run in self.starting.values()

    def next_id(self) -> int:
        return next(self._ids)

    def tell(self, message: FromServer) -> None:
        self._outbox.put_nowait(message)

    async def ask(self, order: FromServer, number: int) -> FromRunner:
        """Send an order and wait for its answer; raises `SpawnFailed` if there is none."""
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.tell(order)
        try:
            async with asyncio.timeout(ANSWER):
                return await waiting
        except TimeoutError:
            raise start_failed(self.name, f"its runner has not answered for {ANSWER:g} s") from None
        finally:
            del self._waiting[number]

    def is_awaited(self, number: int) -> bool:
        waiting = self._waiting.get(number)
        return waiting is not None and not waiting.done()

    def answered(self, number: int, answer: FromRunner) -> None:
        if self.is_awaited(number):
            self._waiting[number].set_result(answer)

    def dismiss(self, code: int, reason: str) -> None:
        """Send it away: nothing it says counts from now on."""
        if not self._dismissal.done():
            self._dismissal.set_result((code, reason))
        self._fail("its runner's connection was closed meanwhile")

    def end(self) -> None:
        self._fail("its runner's connection broke meanwhile; try again")
        self.ended.set()

    def _fail(self, reason: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(start_failed(self.name, reason))

    async def serve(self, received: Callable[[RunnerLink, FromRunner], None]) -> None:
        """Carry messages until either side leaves, or it is sent away."""
        sending = asyncio.create_task(self._send())
        listening = asyncio.create_task(self._listen(received))
        try:
            await asyncio.wait(
                {sending, listening, self._dismissal}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (sending, listening):
                task.cancel()
            results = await asyncio.gather(sending, listening, return_exceptions=True)
        for result in results:
            if isinstance(result, messages.MessageError):
                self.dismiss(Refusal.FRAME_REFUSED, str(result))
            elif isinstance(result, Exception):
                raise result
        if self._dismissal.done():
            await _close(self._socket, *self._dismissal.result())

    async def _send(self) -> None:
        while True:
            await self._socket.send(messages.encode(await self._outbox.get()))

    async def _listen(self, received: Callable[[RunnerLink, FromRunner], None]) -> None:
        while (data := await self._socket.receive()) is not None:
            message = read(data)
            if self._dismissal.done():
                return
            if message is not None:
                received(self, message)


async def _close(socket: Socket, code: int, reason: str) -> None:
    """Close; a peer that takes nothing any more is not waited for."""
    try:
        async with asyncio.timeout(FAREWELL):
            await socket.close(code, reason)
    except TimeoutError:
        return
