"""A relay: one CLI, its lines carried to a door and kept until the door has them.

It passes bytes through: it counts newlines and decodes nothing of the CLI's. It has one loop, the
poller's, in which nothing else waits.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from pilothouse import __version__

from . import leftovers, registry
from .child_supervisor import ChildSupervisor
from .door_frames import CLIExit, RelayHello
from .door_session import DoorAccess, DoorSession
from .pace import LAST_WILL, PACE, Pace
from .poller import READ, Poller
from .refusals import Refusal
from .spool import DEFAULT_LIMIT, Spool
from .timers import Timers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Assignment", "Relay"]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
UNWANTED: Final = frozenset({Refusal.TOKEN_REFUSED, Refusal.SESSION_ENDED})
"""A door that refuses with one of these wants nothing more of this run, now or later."""


class Assignment(NamedTuple):
    """What a relay is started for."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    session_id: str
    run: str
    folder: Path
    limit: int = DEFAULT_LIMIT
    last_will: float = LAST_WILL
    held: Sequence[int] = ()
    """Descriptors that are open for as long as the CLI lives: locks on what it writes."""


class Relay:
    """Runs until the door has the CLI's end, or until there is nobody left to have it."""

    def __init__(self, assignment: Assignment, door: DoorAccess, pace: Pace = PACE) -> None:
        self._assignment = assignment
        self._pace = pace
        self._poller = Poller()
        self._timers = Timers()
        self._spool = Spool(assignment.folder, assignment.limit)
        self._supervisor = ChildSupervisor(self, self._spool, self._poller, self._timers, pace)
        self._door = door
        self._session: DoorSession | None = None
        self._exit: CLIExit | None = None
        self._leaving = False
        """Whether nobody is waited for any more once the CLI is gone."""
        self._refused = 0
        """The code with which a door refused us for good."""
        self._said = ""
        self._result: int | None = None

    def run(self) -> int:
        """Carry lines; the result is 0 if the door has all of them and the CLI's end."""
        self._catch_signals()
        about = self._assignment
        self._sign_locks()
        self._supervisor.start(about.argv, about.env, about.cwd)
        self._record()
        session = self._begin()
        try:
            self._poller.run(
                self._timers,
                is_over=lambda: self._result is not None,
                before=self._supervisor.keep_watch,
                after=(session.pump, self._supervisor.rest),
            )
        except BaseException as error:
            self._fail(error)
            raise
        self._close(session)
        return self._result or 0

    def _begin(self) -> DoorSession:
        stdin, poller, timers = self._supervisor.stdin, self._poller, self._timers
        session = DoorSession(self._door, self, self._spool, stdin, poller, timers, self._pace)
        if self._exit is not None:
            session.finish(self._exit)
        self._session = session
        timers.set("will", self._assignment.last_will, self._execute_will)
        session.connect()
        return session

    def _record(self) -> None:
        cli, guard = self._supervisor.pids
        about, pid = self._assignment, os.getpid()
        started = registry.started_at(pid) or 0
        found = registry.RunningRelay(about.session_id, about.run, pid, started, guard, cli)
        try:
            registry.record(about.folder, found)
        except OSError as error:
            self.say(f"no registry file, so that a server cannot find this relay: {error}")

    def _sign_locks(self) -> None:
        """Have whoever finds the session locked told by whom."""
        for fd in self._assignment.held:
            with suppress(OSError):
                os.ftruncate(fd, 0)
                os.pwrite(fd, str(os.getpid()).encode(), 0)

    def _close(self, session: DoorSession) -> None:
        session.close()
        if self._result and self._exit is not None:
            self._leave_rest(self._exit)
        self._spool.close()
        registry.clear(self._assignment.folder)

    def _leave_rest(self, exit_: CLIExit) -> None:
        """Keep for a later server what no door has, while it can still be seen that we run."""
        if self._refused in UNWANTED:
            return
        about = self._assignment
        try:
            trouble = leftovers.leave(about.folder, self._spool, about.session_id, about.run, exit_)
        except OSError as error:
            self.say(f"what no door has is lost: {error}")
        else:
            self.say(f"some of what no door has is lost: {trouble}" if trouble else "left the rest")

    def _fail(self, error: BaseException) -> None:
        """Leave what there is. The log stays for whoever wants to know why."""
        try:
            reason = f"its relay failed: {type(error).__name__}: {error}"
            self._leave_rest(self._exit or CLIExit(None, None, "", reason))
        finally:
            registry.forget(self._assignment.folder)

    def say(self, text: str) -> None:
        """Write a line to stderr, but not the same again and again."""
        if text != self._said:
            self._said = text
            # Some of it may be the door's words.
            text = "".join(each if each.isprintable() else "?" for each in text)
            moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            with suppress(OSError):
                sys.stderr.write(f"{moment} pilothouse relay: {text}\n")
                sys.stderr.flush()

    # -- signals

    def _catch_signals(self) -> None:
        readable, writable = os.pipe()
        os.set_blocking(readable, False)
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, frame: None)
        self._poller.set(readable, READ, lambda _: self._signalled(os.read(readable, 64)))

    def _signalled(self, numbers: bytes) -> None:
        if not any(number in SIGNALS for number in numbers):
            return
        if self._leaving:
            self._supervisor.kill()
        else:
            self.say("told to end: ending the CLI in order")
            self._leave()

    # -- what the session with the door reports

    def hello(self) -> RelayHello:
        cli, guard = self._supervisor.pids
        return RelayHello(
            session_id=self._assignment.session_id,
            run=self._assignment.run,
            first=self._spool.first,
            written=self._supervisor.stdin.written,
            pid=cli,
            relay_pid=os.getpid(),
            guard_pid=guard,
            host=socket.gethostname(),
            program=__version__,
            full=self._spool.full,
        )

    def served(self) -> None:
        self.say("connected")
        self._timers.cancel("will")

    def unserved(self, reason: str) -> None:
        self.say(f"no door: {reason}")
        if "will" not in self._timers and not self._leaving:
            self._timers.set("will", self._assignment.last_will, self._execute_will)

    def refused(self, code: int) -> None:
        self.say(f"refused for good ({Refusal(code).name}): ending the CLI in order")
        self._refused = code
        self._leave()

    def all_acknowledged(self) -> None:
        self._result = 0

    # -- the end

    def is_awaited(self) -> bool:
        return not self._leaving or (self._session is not None and self._session.is_greeted)

    def cli_ended(self, exit_: CLIExit) -> None:
        how = f"signal {exit_.signal}" if exit_.signal else f"code {exit_.code}"
        self.say(f"the CLI ended: {how}")
        self._exit = exit_
        # Before anybody hears of its end: whoever does may want to start the next one.
        for fd in self._assignment.held:
            os.close(fd)
        if self._session is not None:
            self._session.finish(exit_)
        if self._leaving:
            self._say_farewell()

    def _execute_will(self) -> None:
        self.say(f"no server for {self._assignment.last_will:g} s: ending the CLI in order")
        self._leave()

    def _leave(self) -> None:
        self._leaving = True
        self._timers.cancel("will")
        if self._supervisor.ended:
            self._say_farewell()
        else:
            self._supervisor.end()

    def _say_farewell(self) -> None:
        """Wait a little for a door to take the end; for one that refused us, not at all."""
        self._timers.set("farewell", 0 if self._refused else self._pace.farewell, self._go)

    def _go(self) -> None:
        # In the same turn the door may have acknowledged the end.
        if self._result is None:
            self._result = 1
