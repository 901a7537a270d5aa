"""The tasks in which the CLI's requests are answered.

Each handler has a task of its own, so that none waits for another. What a task costs is mostly its
start in a later round of the event loop, and many handlers decide without waiting for anything.
So once a handler has returned in its first step, the next ones take that step in the very call
that brought their requests. The rules for this:

- The step is taken as the task that the handler goes on in if it does wait: a spare one, which is
  parked until then. `asyncio.current_task()`, timeouts and task groups work as in any task.
- Every handler runs in a copy of the context, as it does in a task of its own.
- It begins after everything that came with its request was delivered. What all handlers of one
  call answer is written together.
- A handler that waits after all goes on in the spare task, and the next ones start in tasks of
  their own until one returns in its first step again. So it is handlers that never wait which run
  in the reader's call, and those hold up the event loop for as long wherever they run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from types import coroutine
from typing import Any, Final

from pilothouse.protocol import RequestReceived

__all__ = ["Answering", "HandlerTasks"]

log = logging.getLogger("pilothouse")

END_WITHIN: Final = 5.0
"""Seconds that a cancelled task gets to end."""

Work = Coroutine[Any, Any, Any]
Run = Callable[..., Any]
"""Takes a step of a handler with a value; what the handler waits for then."""


@dataclass(frozen=True, slots=True)
class Answering:
    """How a request is answered."""

    begin: Callable[[RequestReceived], Work]
    """Makes the handler's coroutine, which returns the answer."""
    respond: Callable[[RequestReceived, Any], None]
    """Takes the answer."""
    refuse: Callable[[RequestReceived, BaseException], None]
    """Takes what a handler raised; raises it again where the task is being cancelled."""
    flush: Callable[[], None]
    """Sends what a handler in a task of its own has answered."""


class HandlerTasks:
    """Starts handlers by the requests they answer, and owns every task until its end."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._spare: _Spare | None = None
        self._ended = False

    def __len__(self) -> int:
        """How many requests are being answered in tasks."""
        return len(self._serving)

    def start(self, asked: Iterable[RequestReceived]) -> None:
        """Answer requests; those that need no waiting may be answered when this returns."""
        events = iter(asked)
        spare = self._spare
        if spare is not None and spare.is_parked:
            self._begin_as(spare, events)
        for event in events:
            task = asyncio.get_running_loop().create_task(self._run(event))
            self._serving[event.request_id] = task

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something else, to its end or to ours."""
        task = asyncio.get_running_loop().create_task(work)
        self._own(task)
        return task

    def cancel(self, request_id: str) -> None:
        """Stop answering a request."""
        # Taken out here: a task that is cancelled before its first step never does it itself.
        task = self._serving.pop(request_id, None)
        if task is not None:
            self._own(task)
            task.cancel()

    def cancel_all(self) -> None:
        """Stop answering: the CLI is gone."""
        self._ended = True
        for task in self._serving.values():
            task.cancel()
        if self._spare is not None:
            self._spare.task.cancel()
            self._spare = None

    async def aclose(self) -> None:
        """End every task, within bounds."""
        self.cancel_all()
        tasks = [*self._serving.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=END_WITHIN)
            for task in stuck:
                log.error("a handler ignores its cancellation and is left behind: %r", task)

    def _own(self, task: asyncio.Task[None]) -> None:
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    # In a task of its own

    async def _run(self, event: RequestReceived) -> None:
        await self._conclude(event, self._every_step(event))

    async def _every_step(self, event: RequestReceived) -> Any:
        work = self._answering.begin(event)
        try:
            awaited = work.send(None)
        except StopIteration as returned:
            self._prepare_spare()
            return returned.value
        return await _further_steps(work, _directly, awaited)

    async def _conclude(self, event: RequestReceived, work: Awaitable[Any]) -> None:
        try:
            response = await work
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - told to the CLI
            self._answering.refuse(event, error)
        else:
            self._answering.respond(event, response)
        finally:
            self._forget(event.request_id)
        self._answering.flush()

    def _forget(self, request_id: str) -> None:
        # An id that was withdrawn may be asked anew, and then stands for another task.
        if self._serving.get(request_id) is asyncio.current_task():
            del self._serving[request_id]

    # In the call that brought the requests

    def _prepare_spare(self) -> None:
        if self._spare is None and not self._ended:
            self._spare = spare = _Spare(asyncio.get_running_loop(), self._conclude)
            self._own(spare.task)

    def _begin_as(self, spare: _Spare, events: Iterator[RequestReceived]) -> None:
        """Take the first steps of handlers as this task, up to one that waits."""
        # Not to be found by what a handler itself may cause.
        self._spare = None
        loop, task = spare.loop, spare.task
        # A transport of another kind may deliver from within a task.
        reader = asyncio.current_task(loop)
        if reader is not None:
            asyncio._leave_task(loop, reader)
        asyncio._enter_task(loop, task)
        try:
            if self._are_answered(spare, events):
                self._spare = spare
        finally:
            asyncio._leave_task(loop, task)
            if reader is not None:
                asyncio._enter_task(loop, reader)
            if self._spare is None and not spare.is_used:
                task.cancel()

    def _are_answered(self, spare: _Spare, events: Iterator[RequestReceived]) -> bool:
        """Whether none of them waits, and the task is as good as new."""
        begin, respond = self._answering.begin, self._answering.respond
        for event in events:
            run: Run = copy_context().run
            try:
                work = begin(event)
                awaited = run(work.send, None)
            except StopIteration as returned:
                respond(event, returned.value)
            except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - told to the CLI
                with suppress(asyncio.CancelledError):
                    self._answering.refuse(event, error)
            else:
                self._serving[event.request_id] = spare.task
                spare.take(event, work, run, awaited)
                return False
            if spare.task.cancelling():
                return False
        return not self._ended


class _Spare:
    """A task that is there before the handler which goes on in it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        conclude: Callable[[RequestReceived, Awaitable[Any]], Coroutine[Any, Any, None]],
    ) -> None:
        self.loop = loop
        self.is_parked = False
        """Whether the task has begun: one that is cancelled before that does nothing at all."""
        self.is_used = False
        self._conclude = conclude
        self._taken: asyncio.Future[tuple[RequestReceived, Work, Run, Any]] = loop.create_future()
        self.task = loop.create_task(self._park())

    def take(self, event: RequestReceived, work: Work, run: Run, awaited: Any) -> None:
        """Let a handler that waits for this go on in the task."""
        self.is_used = True
        self._taken.set_result((event, work, run, awaited))

    async def _park(self) -> None:
        self.is_parked = True
        cancelled: asyncio.CancelledError | None = None
        try:
            await self._taken
        except asyncio.CancelledError as error:
            if not self.is_used:
                raise
            # Between the handler's first step and now.
            cancelled = error
        event, work, run, awaited = self._taken.result()
        await self._conclude(event, _further_steps(work, run, awaited, cancelled))


def _directly(step: Callable[..., Any], value: Any) -> Any:
    return step(value)


@coroutine
def _further_steps(
    work: Work, run: Run, awaited: Any, cancelled: BaseException | None = None
) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that waits for this: what `await` does, from the second step on."""
    try:
        # As with any task: what it waits for is cancelled, or itself where that is over.
        if cancelled is not None and (awaited is None or not awaited.cancel()):
            awaited = run(work.throw, cancelled)
        while True:
            step: Callable[..., Any] = work.send
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 - it is thrown into the handler
                step, value = work.throw, error
            try:
                awaited = run(step, value)
            finally:
                # An exception holds the frames it came by, and this one would hold it.
                value = None
    except StopIteration as returned:
        return returned.value
