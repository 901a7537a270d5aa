"""The one thread that writes: it commits whatever was posted meanwhile as one group.

Jobs (removals) run between the groups, a bounded step at a time, so that no commit waits long.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from pilothouse.api.events import Event, Gap

from .contract import Changes

__all__ = ["Ears", "Job", "Post", "Removed", "Writer"]

LINGER: Final = 0.002
"""Seconds to let a group grow, while entries arrive faster than they are committed."""
MAX_GROUP: Final = 16_384


class Post(NamedTuple):
    """What was posted in one call."""

    events: list[Event]
    size: int
    """Bytes of all bodies."""
    changes: Changes | None
    committed: asyncio.Future[None]


class Removed(NamedTuple):
    """What one step of a job took away."""

    session_id: str
    seqs: list[int]
    gaps: list[Gap]


class Job(NamedTuple):
    """Work in steps, each its own transaction, and where the number of removed entries goes."""

    steps: Iterator[Removed]
    done: asyncio.Future[int]


class Ears(NamedTuple):
    """What is called on the event loop, when something was done."""

    committed: Callable[[Sequence[Post]], None]
    removed: Callable[[Removed], None]
    ended: Callable[[Exception | None], None]


class Writer:
    """Owns the thread. `put` may be called until `stop`."""

    def __init__(self, commit: Callable[[Sequence[Post]], None], ears: Ears) -> None:
        self._commit = commit
        self._ears = ears
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Post | Job | None] = SimpleQueue()
        self._jobs: deque[Job] = deque()
        self._counts: dict[int, int] = {}
        self._group: list[Post] = []
        self._stopping = False
        # A daemon: what is not committed is not acknowledged, so nobody has to wait for it.
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self.put = self._queue.put

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Commit what was put before, then end."""
        self._queue.put(None)

    def left_over(self) -> Iterator[Post | Job]:
        """What will never be done, once the thread has ended."""
        yield from self._group
        yield from self._jobs
        with suppress(Empty):
            while True:
                if (item := self._queue.get_nowait()) is not None:
                    yield item

    def _run(self) -> None:
        error: Exception | None = None
        try:
            while not self._stopping:
                self._turn()
        except Exception as caught:  # noqa: BLE001 - the boundary: whatever it is, all must know
            error = caught
        self._tell(self._ears.ended, error)

    def _turn(self) -> None:
        self._gather()
        if self._group:
            self._commit(self._group)
            self._tell(self._ears.committed, self._group)
            self._group = []
        if self._jobs and not self._stopping:
            self._step(self._jobs[0])

    def _gather(self) -> None:
        """Take all there is; wait for something if there is neither that nor a job."""
        lingering = not (self._queue.empty() or self._jobs)
        if lingering:
            time.sleep(LINGER)
        entries = 0
        with suppress(Empty):
            item = self._queue.get(block=not self._jobs)
            while True:
                entries += self._sort(item)
                if entries >= MAX_GROUP or self._stopping:
                    return
                item = self._queue.get_nowait()

    def _sort(self, item: Post | Job | None) -> int:
        match item:
            case None:
                self._stopping = True
            case Job():
                self._jobs.append(item)
            case _:
                self._group.append(item)
                return len(item.events)
        return 0

    def _step(self, job: Job) -> None:
        removed = next(job.steps, None)
        if removed is None:
            self._jobs.popleft()
            self._tell(_settle, job.done, self._counts.pop(id(job), 0))
            return
        self._counts[id(job)] = self._counts.get(id(job), 0) + len(removed.seqs)
        self._tell(self._ears.removed, removed)

    def _tell(self, ear: Callable[..., None], *what: Any) -> None:
        # A loop that was closed before us has nobody left to notify.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(ear, *what)


def _settle(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)
