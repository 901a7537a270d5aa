"""What the sessions of one engine share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.history import History
from pilothouse.journal.contract import Journal
from pilothouse.settings import Settings

from .foreign import ForeignCLIs
from .gate import OperatorGate
from .limits import Slots, Spending
from .policy import PolicyFile
from .recorder import Recorder
from .routes import Routes
from .scratch import Scratch
from .writers import Writers

__all__ = ["ClientMaker", "Services", "SlowDisk", "Tasks"]

log = logging.getLogger("pilothouse")

P = ParamSpec("P")
T = TypeVar("T")


class ClientMaker(Protocol):
    """Makes the client of one CLI: the seam where tests and relays come in."""

    def __call__(self, options: Options, *, sink: Sink, **parts: Any) -> Client: ...


class Tasks:
    """Work an engine started and awaits before it ends."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it to its end; what goes wrong in it is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end, whether or not the caller waits for that."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._returned)
        return await asyncio.shield(task)

    def _returned(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # A refusal that nobody waits for any more is none of ours.
            task.exception()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("work of the engine failed: %s", error, exc_info=error)

    async def settle(self) -> None:
        """Wait until nothing runs any more."""
        while self._running:
            await asyncio.wait(set(self._running))


class SlowDisk:
    """Threads for what somebody looks up on any disk. One that hangs holds up no other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "slow-disk")

    async def run(self, look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do it in one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: look(*args, **named))

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Services:
    """The parts every session uses and none of them owns."""

    settings: Settings
    journal: Journal
    recorder: Recorder
    policy: PolicyFile
    history: History
    writers: Writers
    gate: OperatorGate
    make_client: ClientMaker
    routes: Routes
    slots: Slots
    spending: Spending
    foreign: ForeignCLIs
    cli_path: str | Path | None = None
    simulated: bool = False
    scratch: Scratch | None = None
    """Where simulated sessions work; None: in their own directories."""
    lack: str | None = None
    """Why sessions run on the simulator although nobody wanted that."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    inherit_env: bool = True
    tasks: Tasks = field(default_factory=Tasks)
    slow_disk: SlowDisk = field(default_factory=SlowDisk)
    is_closing: bool = False
    """The engine ends: no CLI starts any more."""

    @property
    def around(self) -> dict[str, str]:
        """The environment of a CLI to which no caller has added anything."""
        return {**(os.environ if self.inherit_env else {}), **self.env}
