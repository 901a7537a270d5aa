"""Runs the CLI: reads its lines into the spool, ends it in order, notices its end."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, Protocol

from pilothouse.transport.base import SpawnFailed

from . import child as children
from . import orphans
from .door_frames import CLIExit
from .ladder import Ladder
from .poller import READ, WRITE
from .stdin_queue import StdinQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .child import Child
    from .pace import Pace
    from .poller import Poller
    from .spool import Spool
    from .timers import Timers

__all__ = ["ChildOwner", "ChildSupervisor"]

SIZE: Final = 120 * 1024
"""Below the size from which the allocator asks the kernel each time."""
TURN: Final = 1024 * 1024
"""Bytes read from the CLI before others have their turn."""
SWEEP: Final = 0.05
SWEEP_GRACE: Final = 1.0
SWEEP_LIMIT: Final = 10.0
LATE_READINGS: Final = 10
"""How often something is read after the CLI's end before its output counts as ended."""
NOT_STARTED: Final = 127


class ChildOwner(Protocol):
    """Who is notified of what a supervisor sees."""

    def cli_ended(self, exit_: CLIExit) -> None:
        """Note that the CLI is gone and its last line is in the spool: called once."""
        ...

    def is_awaited(self) -> bool:
        """Return whether somebody will still take what the CLI said."""
        ...

    def say(self, text: str) -> None:
        """Write a line to the log."""
        ...


class ChildSupervisor:
    """One CLI from its start to its end. Its lines go to the spool as they come."""

    def __init__(
        self, owner: ChildOwner, spool: Spool, poller: Poller, timers: Timers, pace: Pace
    ) -> None:
        self._owner = owner
        self._spool = spool
        self._poller = poller
        self._timers = timers
        self._pace = pace
        self._child: Child | None = None
        self._ladder: Ladder | None = None
        self.stdin = StdinQueue(-1, self._obey, self._close_stdin)
        self._has_read = False
        """Whether the last turn read all there was, and there was something."""
        self._taken = 0
        """Bytes of the CLI's output read so far."""
        self._late_readings = 0
        self._wanted: tuple[bool, bool] | None = None
        self._was_full = False
        self._output_ended = False
        self._gone = False
        self._exit: CLIExit | None = None
        self._guard_lost_at = 0.0

    @property
    def pids(self) -> tuple[int | None, int | None]:
        """The CLI's and the guard's."""
        return (self._child.pid, self._child.guard_pid) if self._child else (None, None)

    @property
    def ended(self) -> bool:
        return self._exit is not None

    # -- from the start ...

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        """Start the CLI; that it cannot be started is an end like another."""
        orphans.become_subreaper()
        try:
            self._child = child = children.start(argv, env, cwd)
        except SpawnFailed as failure:
            orphans.end_children()
            self._conclude(CLIExit(NOT_STARTED, None, str(failure)))
            return
        self.stdin = StdinQueue(child.stdin, self._obey, self._close_stdin)
        self._ladder = Ladder(child, self.stdin, self._timers, self._pace, self._cli_gone)
        self._poller.set(child.stderr, READ, self._stderr_ready)
        self._poller.set(child.status, READ, self._status_ready)

    def keep_watch(self) -> None:
        """Look at stdin only while there is something to write, at stdout while there is room."""
        if self._child is None or self.ended:
            return
        full, waiting = wanted = (self._spool.full, self.stdin.waiting)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._report_full(full=full)
        if not self._output_ended:
            self._poller.set(self._child.stdout, 0 if full else READ, self._stdout_ready)
        if not self.stdin.broken:
            self._poller.set(self._child.stdin, WRITE if waiting else 0, self._stdin_ready)

    def rest(self) -> None:
        """Pause after all there was has been read, so that what follows is read together.

        What costs is the waking up, not the bytes: a line after a silence has just been sent.
        """
        if self._has_read:
            self._has_read = False
            time.sleep(self._pace.pause)

    def _report_full(self, *, full: bool) -> None:
        if full and not self._was_full:
            why = self._spool.trouble or "its limit is reached"
            self._owner.say(
                f"the spool is full ({why}): not reading the CLI until the door takes some of it"
            )
        elif self._was_full and not full:
            self._owner.say("the spool has room again: reading on")
        self._was_full = full

    def _stdin_ready(self, _: int) -> None:
        self.stdin.flush()

    def _close_stdin(self) -> None:
        assert self._child is not None
        self._close(self._child.stdin)

    def _close(self, fd: int) -> None:
        self._poller.forget(fd)
        os.close(fd)

    def _stdout_ready(self, _: int) -> None:
        if self._child is None or self._output_ended:
            return
        before = self._taken
        while True:
            try:
                data = os.read(self._child.stdout, SIZE)
            except BlockingIOError:
                self._has_read = self._taken > before
                return
            if not data:
                self._end_output()
                return
            self._spool.append(data)
            self._taken += len(data)
            if len(data) < SIZE:
                self._has_read = True
                return
            if self._taken >= before + TURN or self._spool.full:
                return

    def _stderr_ready(self, _: int) -> None:
        assert self._child is not None
        if not self._child.read_stderr():
            self._poller.forget(self._child.stderr)

    # -- ... by way of orders ...

    def _obey(self, do: str) -> None:
        match do:
            case "terminate":
                self.terminate()
            case "kill":
                self.kill()
            case "end":
                self.end()
            case _:
                self._owner.say(f"an order that is not known: {do}")

    def end(self) -> None:
        """End the CLI in order."""
        if self._ladder is not None:
            self._ladder.interrupt()

    def terminate(self) -> None:
        """Send the CLI SIGTERM, and kill it if that is not enough."""
        if self._ladder is not None:
            self._ladder.terminate()

    def kill(self) -> None:
        """Kill the CLI and all it started."""
        if self._ladder is not None:
            self._ladder.kill()

    # -- ... to the end

    def _end_output(self) -> None:
        assert self._child is not None
        if not self._output_ended:
            self._output_ended = True
            self._close(self._child.stdout)
            if not self._gone and self._ladder is not None:
                # It can say nothing more, so there is no reason left to run.
                self._ladder.close_input()
            self._settle()

    def _status_ready(self, _: int) -> None:
        assert self._child is not None
        more = self._child.read_status()
        if self._child.wait_status is not None:
            self._poller.forget(self._child.status)
            self._cli_gone()
        elif not more:
            self._poller.forget(self._child.status)
            self._lose_guard()

    def _lose_guard(self) -> None:
        self._owner.say("the guard was killed: ending the CLI and all it started")
        self._guard_lost_at = time.monotonic()
        self._sweep()

    def _sweep(self) -> None:
        """Give the CLI, which the kernel has told to end, its grace; leave nothing after it."""
        assert self._child is not None
        status = orphans.reap().get(self._child.pid)
        if status is not None:
            self._child.wait_status = status
        waited = time.monotonic() - self._guard_lost_at
        has_left = self._child.wait_status is not None
        left = has_left or waited < SWEEP_GRACE
        if not has_left and waited >= SWEEP_GRACE:
            # Not once it is reaped: its number may be another's then.
            self._child.kill_group()
        if has_left or waited >= SWEEP_GRACE:
            left = orphans.kill_children()
        else:
            # Tools that it had left to the guard need no grace, and if we are killed meanwhile
            # nobody ends them.
            orphans.kill_children(but=self._child.pid)
        if left and waited < SWEEP_LIMIT:
            self._timers.set("sweep", SWEEP, self._sweep)
        else:
            self._cli_gone()

    def _cli_gone(self) -> None:
        self._gone = True
        if self._ladder is not None:
            self._ladder.stop()
        self._timers.set("output", self._pace.end_of_output, self._end_silent_output)
        self._settle()

    def _end_silent_output(self) -> None:
        """Something out of reach holds the CLI's output open, or we had no room to read it."""
        before, self._has_read = self._taken, False
        if not self._spool.full:
            self._stdout_ready(READ)
        # Only what was emptied and is not at its end has another writer.
        self._late_readings += self._has_read
        more = self._spool.full or self._taken > before
        if more and self._late_readings < LATE_READINGS and self._owner.is_awaited():
            self._timers.set("output", self._pace.end_of_output, self._end_silent_output)
        else:
            self._end_output()

    def _settle(self) -> None:
        if self._gone and self._output_ended and not self.ended:
            assert self._child is not None
            self._timers.cancel("output")
            self._finish_stderr(self._child)
            self.stdin.close()
            self._spool.finish()
            reason = "its guard was killed" if self._guard_lost_at else ""
            self._conclude(_exit(self._child)._replace(reason=reason))

    def _finish_stderr(self, child: Child) -> None:
        # Bounded: something out of reach may still be writing.
        for _ in range(16):
            if not child.read_stderr():
                break
        self._close(child.stderr)
        self._close(child.status)

    def _conclude(self, exit_: CLIExit) -> None:
        self._exit = exit_
        self._owner.cli_ended(exit_)


def _exit(child: Child) -> CLIExit:
    if child.wait_status is None:
        return CLIExit(None, None, child.stderr_tail)
    code = os.waitstatus_to_exitcode(child.wait_status)
    if code < 0:
        return CLIExit(None, -code, child.stderr_tail)
    return CLIExit(code, None, child.stderr_tail)
