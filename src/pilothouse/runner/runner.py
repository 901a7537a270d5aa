"""A runner: does on this machine what the server asks for, and tells what becomes of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

from pilothouse import __version__
from pilothouse.relay.pace import Pace
from pilothouse.relay.registry import RunningRelay
from pilothouse.transport.base import SpawnFailed

from .control import Control, Gate
from .messages import (
    Drain,
    Draining,
    EndRun,
    FindTranscript,
    FoundTranscript,
    FromServer,
    Hello,
    RunGone,
    RunTold,
    StartedRun,
    StartRun,
    Welcome,
)
from .relays import Door, Relays
from .workplace import NotHere, Workplace, is_plain

__all__ = ["Runner", "counted"]

Say = Callable[[str], None]


class Runner:
    """Starts relays and looks after them; they go on when it ends. For a running event loop."""

    def __init__(
        self,
        gate: Gate,
        door: Door,
        folder: Path,
        workplace: Workplace,
        pace: Pace,
        say: Say,
        *,
        name: str = "",
        draining: bool = False,
    ) -> None:
        self._workplace = workplace
        self._say = say
        self._name = name
        self._drains_itself = draining
        self._drained_by_server = False
        self._control = Control(gate, self, pace)
        self._relays = Relays(folder, door, self._gone)
        self._starting: set[str] = set()
        self._said = ""
        """Why there is no server; not to be said again and again."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> str:
        """Serve until the server refuses us for good; why, in words. Cancelling it ends it."""
        self._relays.adopt()
        if self.sessions:
            self._say(f"found {counted(self.sessions)} again")
        try:
            async with asyncio.TaskGroup() as self._tasks:
                return await self._control.run()
        finally:
            self._relays.close()

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self._relays.running())

    @property
    def _draining(self) -> bool:
        return self._drains_itself or self._drained_by_server

    # -- what the connection tells

    async def hello(self) -> Callable[[], Hello]:
        cli, version = await asyncio.to_thread(self._workplace.cli_told)
        return partial(self._hello, cli, version)

    def _hello(self, cli: str | None, version: str | None) -> Hello:
        return Hello(
            host=socket.gethostname(),
            program=__version__,
            name=self._name,
            cli=cli,
            cli_version=version,
            runs=tuple(map(_told, self._relays.running())),
            # What the server wants it knows better, and may have changed its mind.
            draining=self._drains_itself,
        )

    def welcomed(self, welcome: Welcome) -> None:
        # It says so behind its welcome if it still wants that.
        self._drained_by_server = False
        self._said = ""
        self._say(f"connected as {welcome.name}, with {counted(self.sessions)}")
        if welcome.program not in ("", __version__):
            told = f"the server is Pilothouse {welcome.program}, this runner {__version__}"
            self._say(f"{told}: bring the older one up to date if something does not work")

    def unserved(self, reason: str) -> None:
        if reason != self._said:
            self._said = reason
            self._say(f"no server: {reason}; trying again until there is one")

    def received(self, message: FromServer) -> None:
        asked_by = self._control.current
        match message:
            case StartRun():
                self._own(self._start(message, asked_by))
            case FindTranscript():
                self._own(self._find(message, asked_by))
            case EndRun(run=run):
                self._relays.end(run)
            case Drain(on=on):
                self._drain(on=on)
            case Welcome():
                return

    def _own(self, work: Coroutine[None, None, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)

    # -- draining

    def _drain(self, *, on: bool) -> None:
        self._drained_by_server = on
        self._control.tell(Draining(self._drains_itself))
        if self._draining:
            self._say(f"takes no new sessions; {counted(self.sessions)} here")
        else:
            self._say("takes new sessions")

    # -- runs

    async def _start(self, order: StartRun, asked_by: int) -> None:
        """Start a relay and answer; ids are those of the connection that asked."""
        try:
            self._check(order)
            self._starting.add(order.run)
            try:
                found = await asyncio.to_thread(self._begin, order)
            finally:
                self._starting.discard(order.run)
        except (NotHere, SpawnFailed, OSError, ValueError) as error:
            reason = error.reason if isinstance(error, SpawnFailed) else str(error)
            self._say(f"cannot start a session: {reason}")
            self._answer(StartedRun(order.id, ok=False, reason=reason), asked_by)
            return
        self._relays.keep(found)
        if not self._answer(StartedRun(order.id, ok=True), asked_by):
            # The server takes it for failed by now.
            self._relays.end(order.run)

    def _answer(self, answer: StartedRun | FoundTranscript, asked_by: int) -> bool:
        if asked_by != self._control.current:
            return False
        self._control.tell(answer)
        return True

    def _check(self, order: StartRun) -> None:
        if self._draining:
            raise NotHere("this runner takes no new sessions")
        if not is_plain(order.run) or not is_plain(order.session_id) or not order.argv:
            raise NotHere("the order names no session, no run or no program")
        if order.run in self._starting or self._relays.has(order.run):
            raise NotHere("this run was started before")

    def _begin(self, order: StartRun) -> RunningRelay:
        directory = self._workplace.directory(order.cwd)
        env = self._workplace.environment({**order.env, "PWD": str(directory)})
        self._workplace.check(order.argv[1:], directory, env, order.files)
        return self._relays.start(
            [*self._workplace.command(), *order.argv[1:]],
            env,
            directory,
            session_id=order.session_id,
            run=order.run,
            token=order.token,
            last_will=order.last_will,
            files=order.files,
        )

    async def _find(self, order: FindTranscript, asked_by: int) -> None:
        found = await asyncio.to_thread(self._workplace.has_transcript, order.session_id)
        self._answer(FoundTranscript(order.id, found), asked_by)

    def _gone(self, run: str, reason: str) -> None:
        self._say(f"a session's relay is gone: {reason}")
        self._control.tell(RunGone(run, reason))
        if self._draining and not self._relays.running():
            self._say("no session is left, and no new ones are taken: this runner can be ended")


def _told(found: RunningRelay) -> RunTold:
    return RunTold(found.session_id, found.run, found.relay_pid, found.cli_pid)


def counted(count: int) -> str:
    """So many sessions, in words."""
    return f"{count} session{'' if count == 1 else 's'}"
