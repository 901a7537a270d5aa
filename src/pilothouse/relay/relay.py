"""A relay: one CLI, its lines carried to a door and kept until the door has them.

It passes bytes through: it counts newlines and decodes nothing of the CLI's. One loop, in which
nothing waits but the loop itself.
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

from . import leaving, registry
from .courier import Courier, Door
from .framing import Exit, Hello
from .keeper import Keeper
from .pace import LAST_WILL, PACE, Pace
from .refusals import Refusal
from .spool import DEFAULT_LIMIT, Spool
from .timers import Timers
from .watching import READ, Watch

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

    def __init__(self, assignment: Assignment, door: Door, pace: Pace = PACE) -> None:
        self._assignment = assignment
        self._pace = pace
        self._watch = Watch()
        self._timers = Timers()
        self._spool = Spool(assignment.folder, assignment.limit)
        self._keeper = Keeper(self, self._spool, self._watch, self._timers, pace)
        self._door = door
        self._courier: Courier | None = None
        self._exit: Exit | None = None
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
        self._keeper.start(about.argv, about.env, about.cwd)
        self._record()
        courier = self._begin()
        try:
            while self._result is None:
                self._turn(courier)
        except BaseException as error:
            self._fail(error)
            raise
        self._close(courier)
        return self._result

    def _begin(self) -> Courier:
        intake, timers = self._keeper.intake, self._timers
        courier = Courier(self._door, self, self._spool, intake, self._watch, timers, self._pace)
        if self._exit is not None:
            courier.finish(self._exit)
        self._courier = courier
        timers.set("will", self._assignment.last_will, self._execute_will)
        courier.connect()
        return courier

    def _turn(self, courier: Courier) -> None:
        self._keeper.keep_watch()
        self._watch.wait(self._timers.patience())
        # Only now: what came while we were stopped or asleep counts before its deadline does.
        self._timers.run_due()
        courier.pump()
        if self._keeper.has_read:
            self._keeper.has_read = False
            # What costs is the waking up, not the bytes: a line after a silence has just been
            # sent, and what follows it goes together.
            time.sleep(self._pace.pause)

    def _record(self) -> None:
        cli, guard = self._keeper.pids
        about, pid = self._assignment, os.getpid()
        started = registry.started_at(pid) or 0
        found = registry.Found(about.session_id, about.run, pid, started, guard, cli)
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

    def _close(self, courier: Courier) -> None:
        courier.close()
        if self._result and self._exit is not None:
            self._leave_rest(self._exit)
        self._spool.close()
        registry.clear(self._assignment.folder)

    def _leave_rest(self, exit_: Exit) -> None:
        """Keep for a later server what no door has, while it can still be seen that we run."""
        if self._refused in UNWANTED:
            return
        about = self._assignment
        try:
            trouble = leaving.leave(about.folder, self._spool, about.session_id, about.run, exit_)
        except OSError as error:
            self.say(f"what no door has is lost: {error}")
        else:
            self.say(f"some of what no door has is lost: {trouble}" if trouble else "left the rest")

    def _fail(self, error: BaseException) -> None:
        """Leave what there is. The log stays for whoever wants to know why."""
        try:
            reason = f"its relay failed: {type(error).__name__}: {error}"
            self._leave_rest(self._exit or Exit(None, None, "", reason))
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
        self._watch.set(readable, READ, lambda _: self._signalled(os.read(readable, 64)))

    def _signalled(self, numbers: bytes) -> None:
        if not any(number in SIGNALS for number in numbers):
            return
        if self._leaving:
            self._keeper.kill()
        else:
            self.say("told to end: ending the CLI in order")
            self._leave()

    # -- what the courier tells

    def hello(self) -> Hello:
        cli, guard = self._keeper.pids
        return Hello(
            session_id=self._assignment.session_id,
            run=self._assignment.run,
            first=self._spool.first,
            written=self._keeper.intake.written,
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
        return not self._leaving or (self._courier is not None and self._courier.is_greeted)

    def cli_ended(self, exit_: Exit) -> None:
        how = f"signal {exit_.signal}" if exit_.signal else f"code {exit_.code}"
        self.say(f"the CLI ended: {how}")
        self._exit = exit_
        # Before anybody hears of its end: whoever does may want to start the next one.
        for fd in self._assignment.held:
            os.close(fd)
        if self._courier is not None:
            self._courier.finish(exit_)
        if self._leaving:
            self._say_farewell()

    def _execute_will(self) -> None:
        self.say(f"no server for {self._assignment.last_will:g} s: ending the CLI in order")
        self._leave()

    def _leave(self) -> None:
        self._leaving = True
        self._timers.cancel("will")
        if self._keeper.ended:
            self._say_farewell()
        else:
            self._keeper.end()

    def _say_farewell(self) -> None:
        """Wait a little for a door to take the end; for one that refused us, not at all."""
        self._timers.set("farewell", 0 if self._refused else self._pace.farewell, self._go)

    def _go(self) -> None:
        # In the same turn the door may have acknowledged the end.
        if self._result is None:
            self._result = 1
