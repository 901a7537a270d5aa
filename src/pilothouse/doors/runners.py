"""The runners of other machines: who is there, what runs there, and what they are asked to do.

    away ──hello──> connected <──undrain── draining
      ^                │  └────drain────────^  │
      │<──left─────────┴──────left─────────────┘
      └──silence──> lost ──hello──> connected or draining

A runner proves itself with a token of its own and speaks for its own runs alone. Of two connections
with one name the newest counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from pilothouse import __version__
from pilothouse.errors import ServerError
from pilothouse.relay.refusals import Refusal
from pilothouse.runner import messages
from pilothouse.runner.messages import (
    Drain,
    Draining,
    EndRun,
    FindTranscript,
    FoundTranscript,
    FromRunner,
    Hello,
    RunGone,
    StartedRun,
    StartRun,
    Welcome,
)

from .roster import Roster
from .runner_link import RunnerLink, read, start_failed
from .sockets import Socket

__all__ = ["RunnerTold", "Runners"]

GREETING: Final = 15.0
"""Seconds a connection has to say who it is."""
LONGEST_NAME: Final = 128
LONGEST_REASON: Final = 2000

State: TypeAlias = Literal["connected", "draining", "away", "lost", "revoked"]

log = logging.getLogger("pilothouse.doors.runners")


class RunnerTold(msgspec.Struct, frozen=True):
    """What is known of one runner."""

    name: str
    state: State
    """`away`: it never came, or is not gone for long."""
    host: str
    program: str
    cli_version: str | None
    since: int
    """When that state began, in milliseconds since the epoch."""
    runs: int


class Runners:
    """The server's side of all control connections. To be made in a running event loop."""

    def __init__(self, file: Path, *, lost_after: float = 30.0) -> None:
        self.changed: Callable[[str], None] | None = None
        self.gone: Callable[[str, str, str], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._lost_after = lost_after
        self._roster = Roster(file)
        self._links: dict[str, RunnerLink] = {}
        self._believed: dict[str, str] = {}
        """Which runner has a run, by run."""
        self._to_end: dict[str, str] = {}
        """Likewise those that are to end, until their runner says that they did."""
        self._lost: set[str] = set()
        self._since: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        for name in self._roster.names():
            self._miss(name)
            if name in self._timers:
                self._since[name] = _now()

    # -- who there is

    def add(self, name: str) -> str:
        """Let a runner of this name come; its token is told this once. Raises `ValueError`."""
        token = self._roster.add(name)
        self._since[name] = _now()
        self._tell_changed(name)
        return token

    def revoke(self, name: str) -> None:
        """Send a runner away for good; its runs are told to be gone. Raises `ValueError`."""
        self._roster.revoke(name)
        self._cancel_timer(name)
        self._lost.discard(name)
        self._since[name] = _now()
        if (link := self._links.pop(name, None)) is not None:
            link.dismiss(Refusal.TOKEN_REFUSED, "this runner was revoked")
        self._tell_changed(name)
        for run in self._runs_of(name):
            self._tell_gone(name, run, f"its runner {name} was revoked")

    def drain(self, name: str, on: bool) -> None:
        """Give a runner no new sessions, or give it some again. Raises `ValueError`."""
        self._roster.drain(name, on=on)
        if (link := self._links.get(name)) is not None:
            link.tell(Drain(on))
            self._since[name] = _now()
        self._tell_changed(name)

    def is_trusted(self, machine: str) -> bool:
        """Whether sessions of that machine may come in; empty is this machine."""
        return machine == "" or self._roster.trusts(machine)

    def listed(self) -> list[RunnerTold]:
        """Every runner that is not revoked, by name."""
        return [told for name in self._roster.names() if (told := self.state(name)) is not None]

    def state(self, name: str) -> RunnerTold | None:
        """What is known of a runner, a revoked one included; None if there was never one."""
        entry = self._roster.entry(name)
        if entry is None:
            return None
        link = self._links.get(name)
        return RunnerTold(
            name=name,
            state=self._state(name),
            host=link.hello.host if link else entry.host,
            program=link.hello.program if link else "",
            cli_version=link.hello.cli_version if link else None,
            since=self._since.get(name) or entry.revoked_at or entry.created_at,
            runs=len(link.runs if link else self._runs_of(name)),
        )

    def _state(self, name: str) -> State:
        if not self._roster.trusts(name):
            return "revoked"
        if name in self._links:
            return "draining" if self._is_draining(name) else "connected"
        return "lost" if name in self._lost else "away"

    def _is_draining(self, name: str) -> bool:
        entry, link = self._roster.entry(name), self._links.get(name)
        return (entry is not None and entry.draining) or (link is not None and link.draining)

    # -- what runs where

    def believe(self, name: str, run: str) -> None:
        """Expect a run on that machine: `gone` is told when its runner comes without it.

        `start` does so by itself; it is for runs of before a restart, and those are to be told
        before runners can come in. Of a runner that is here, `has` says whether it has the run.
        """
        self._believed[run] = name

    def forget(self, run: str) -> None:
        """Nothing more is to be told about this run."""
        self._believed.pop(run, None)

    def has(self, name: str, run: str) -> bool | None:
        """Whether a runner has that run; None if it cannot be asked now."""
        link = self._links.get(name)
        return None if link is None else run in link.runs

    def _runs_of(self, name: str) -> list[str]:
        return [run for run, owner in self._believed.items() if owner == name]

    # -- what they are asked

    async def start(
        self,
        name: str,
        *,
        session_id: str,
        run: str,
        token: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        last_will: float,
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Have a relay started there; raises `SpawnFailed`, which says what to do."""
        link = self._reach(name)
        if self._is_draining(name):
            raise start_failed(
                name, f"it takes no new sessions now (let it: pilothouse runners undrain {name})"
            )
        order = StartRun(
            id=link.next_id(),
            session_id=session_id,
            run=run,
            token=token,
            argv=tuple(argv),
            env=dict(env),
            cwd=cwd,
            last_will=last_will,
            files=dict(files),
        )
        link.starting[order.id] = run
        self._believed[run] = name
        try:
            answer = await link.ask(order, order.id)
            if isinstance(answer, StartedRun) and not answer.ok:
                reason = _shown(answer.reason, LONGEST_REASON)
                raise start_failed(name, reason or "its runner says no more")
        except BaseException:
            # If it comes up yet, `_started` has it ended.
            self.forget(run)
            raise

    async def find(self, name: str, session_id: str) -> bool:
        """Whether that machine has the conversation's transcript; `SpawnFailed` as in `start`."""
        link = self._reach(name)
        order = FindTranscript(link.next_id(), session_id)
        answer = await link.ask(order, order.id)
        return isinstance(answer, FoundTranscript) and answer.found

    def end(self, name: str, run: str) -> None:
        """Have a run ended in order; if its runner is not here, as soon as it is."""
        self._to_end[run] = name
        if (link := self._links.get(name)) is not None:
            link.tell(EndRun(run))

    def _reach(self, name: str) -> RunnerLink:
        """The runner's connection; raises `SpawnFailed` with what to do if there is none."""
        if (link := self._links.get(name)) is not None:
            return link
        state = self.state(name)
        if state is None:
            raise start_failed(name, "no runner has that name (see: pilothouse runners)")
        if state.state == "revoked":
            raise start_failed(name, f"it was revoked (let it back: pilothouse runners add {name})")
        where = f" on {state.host}" if state.host else ""
        raise start_failed(name, f"its runner is {state.state}; start it{where}: pilothouse runner")

    # -- connections

    def knows(self, token: str) -> bool:
        """Whether a runner has this token, and was not revoked."""
        return self._roster.name_of(token) is not None

    async def visited(self, socket: Socket) -> None:
        """Speak with a runner until its connection ends."""
        if not self.knows(socket.bearer):
            await socket.close(Refusal.TOKEN_REFUSED, "no runner has this token, or it was revoked")
            return
        hello = await _greeting(socket)
        # Asked again: it may have been revoked since.
        name = self._roster.name_of(socket.bearer)
        if hello is None:
            await socket.close(Refusal.FRAME_REFUSED, "a runner says hello first")
        elif name is None:
            await socket.close(Refusal.TOKEN_REFUSED, "this runner was revoked")
        elif hello.name not in ("", name):
            reason = f"this token is that of the runner {name}, not {hello.name}"
            await socket.close(Refusal.SESSION_UNKNOWN, reason)
        else:
            await self._serve(RunnerLink(name, socket, hello))

    async def aclose(self) -> None:
        """Leave all runners, which come back when there is a server again."""
        for name in list(self._timers):
            self._cancel_timer(name)
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            link.dismiss(1001, "the server ends")
        await asyncio.gather(*(link.ended.wait() for link in links))

    async def _serve(self, link: RunnerLink) -> None:
        try:
            self._arrive(link)
            await link.serve(self._received)
        finally:
            link.end()
            self._leave(link)

    def _arrive(self, link: RunnerLink) -> None:
        name, hello = link.name, link.hello
        if (older := self._links.get(name)) is not None:
            older.dismiss(Refusal.REPLACED, "another runner came with this token")
        self._links[name] = link
        self._cancel_timer(name)
        self._lost.discard(name)
        self._since[name] = _now()
        self._note(name, hello.host)
        link.runs = {told.run for told in hello.runs if not self._is_foreign(name, told.run)}
        link.tell(Welcome(name, __version__))
        if self._is_draining(name):
            link.tell(Drain(on=True))
        log.info("a runner came", extra={"runner": name, "host": hello.host})
        self._tell_changed(name)
        self._reconcile(link)

    def _note(self, name: str, host: str) -> None:
        try:
            self._roster.note(name, host)
        except ServerError as error:
            # All it costs: after a restart this runner would not be missed.
            log.warning(
                "a runner's visit cannot be kept", extra={"runner": name, "why": str(error)}
            )

    def _reconcile(self, link: RunnerLink) -> None:
        for run in self._runs_of(link.name):
            if not link.knows(run):
                reason = f"the runner {link.name} came back without it"
                self._tell_gone(link.name, run, reason)
        for run, owner in list(self._to_end.items()):
            if owner == link.name and run in link.runs:
                link.tell(EndRun(run))
            elif owner == link.name:
                del self._to_end[run]

    def _leave(self, link: RunnerLink) -> None:
        if self._links.get(link.name) is not link:
            return
        del self._links[link.name]
        self._since[link.name] = _now()
        log.info("a runner left", extra={"runner": link.name})
        self._miss(link.name)
        self._tell_changed(link.name)

    def _miss(self, name: str) -> None:
        """Wait for a runner that has been here; one that never was is not missed."""
        entry = self._roster.entry(name)
        if entry is None or entry.seen_at is None or name in self._timers or name in self._lost:
            return
        self._timers[name] = self._loop.call_later(self._lost_after, self._lose, name)

    def _lose(self, name: str) -> None:
        self._cancel_timer(name)
        self._lost.add(name)
        self._since[name] = _now()
        log.warning("a runner is lost", extra={"runner": name})
        self._tell_changed(name)

    def _cancel_timer(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    # -- what they say

    def _received(self, link: RunnerLink, message: FromRunner) -> None:
        match message:
            case StartedRun():
                self._started(link, message)
            case FoundTranscript():
                link.answered(message.id, message)
            case RunGone(run=run, reason=reason):
                self._run_gone(link, run, reason)
            case Draining(on=on):
                link.draining = on
                self._since[link.name] = _now()
                self._tell_changed(link.name)
            case Hello():
                log.warning("a runner said hello twice", extra={"runner": link.name})

    def _started(self, link: RunnerLink, answer: StartedRun) -> None:
        run = link.starting.pop(answer.id, None)
        if run is not None and answer.ok:
            link.runs.add(run)
            if not link.is_awaited(answer.id):
                self.end(link.name, run)
        link.answered(answer.id, answer)

    def _run_gone(self, link: RunnerLink, run: str, reason: str) -> None:
        if self._is_foreign(link.name, run):
            return
        link.runs.discard(run)
        self._to_end.pop(run, None)
        # One that ended in order was forgotten before.
        if self._believed.get(run) == link.name:
            told = _shown(reason, LONGEST_REASON)
            self._tell_gone(link.name, run, told or "its relay is gone")

    def _is_foreign(self, name: str, run: str) -> bool:
        owner = self._believed.get(run, name)
        if owner != name:
            about = {"runner": name, "run": run, "owner": owner}
            log.warning("a runner spoke of a run that is not its own", extra=about)
        return owner != name

    # -- telling

    def _tell_changed(self, name: str) -> None:
        if self.changed is not None:
            self.changed(name)

    def _tell_gone(self, name: str, run: str, reason: str) -> None:
        self.forget(run)
        if self.gone is not None:
            self.gone(name, run, reason)


async def _greeting(socket: Socket) -> Hello | None:
    """The first message, if it is what it has to be and comes in time."""
    try:
        async with asyncio.timeout(GREETING):
            data = await socket.receive()
        message = None if data is None else read(data)
    except (TimeoutError, messages.MessageError):
        return None
    return _plain(message) if isinstance(message, Hello) else None


def _plain(hello: Hello) -> Hello:
    """With names that can be shown wherever they go: on a terminal, in a log, on one line."""
    cli_version = None if hello.cli_version is None else _shown(hello.cli_version)
    host, program = _shown(hello.host), _shown(hello.program)
    return msgspec.structs.replace(hello, host=host, program=program, cli_version=cli_version)


def _shown(text: str, longest: int = LONGEST_NAME) -> str:
    return "".join(filter(str.isprintable, " ".join(text[:longest].split())))


def _now() -> int:
    return int(time.time() * 1000)
