"""Both ends of a CLI's pipes, and its life between them.

ChildSupervisor   starts it, reads its lines into the spool, ends it in order, notices its end
StdinQueue        what waits for its stdin: numbered lines and orders, each once and in order
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from pilothouse.transport.base import SpawnFailed

from . import child as children
from . import orphans
from .door_frames import CLIExit
from .ladder import Ladder
from .poller import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .child import Child
    from .pace import Pace
    from .poller import Poller
    from .spool import Spool
    from .timers import Timers

__all__ = ["ChildOwner", "ChildSupervisor", "OutOfOrder", "StdinQueue"]

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
AT_ONCE: Final = ("terminate", "kill", "end")
"""Orders that do not wait behind lines which the CLI does not read."""


class OutOfOrder(Exception):
    """Something that should have come before is missing."""


class Item:
    """Lines, or an order, or the end of the input, waiting to be passed on."""

    __slots__ = ("data", "do", "first", "offset")

    def __init__(self, first: int, data: bytes = b"", do: str = "") -> None:
        self.first = first
        """Its number; 0 for what the relay itself writes."""
        self.data = data
        self.offset = 0
        self.do = do


class StdinQueue:
    """Writes to a CLI's stdin. Nothing is written twice, and nothing is written after a gap."""

    def __init__(self, fd: int, obey: Callable[[str], None], close: Callable[[], None]) -> None:
        self._fd = fd
        self._obey = obey
        self._close = close
        self._queue: deque[Item] = deque()
        self.taken = 0
        """The last number that was received."""
        self.written = 0
        """The last number that was written to the CLI, or carried out."""
        self.broken = fd < 0
        """Whether the input is closed, by us or by the CLI."""
        self._lost = False
        """Whether a line could not be written: no number counts after it."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to write and somebody who may read it."""
        return bool(self._queue) and not self.broken

    # -- in

    def take_lines(self, first: int, data: bytes) -> bool:
        """Queue lines that begin with this number, except those that were queued before."""
        lines = data.count(b"\n")
        if not data.endswith(b"\n"):
            raise OutOfOrder("lines without an end")
        known = self._known(first)
        if known >= lines:
            return False
        for _ in range(known):
            data = data[data.index(b"\n") + 1 :]
        self.taken += lines - known
        self._put(Item(first + known, data))
        return True

    def take_order(self, number: int, do: str) -> bool:
        """Queue an order, unless it was queued before."""
        if self._known(number):
            return False
        self.taken = number
        item = Item(number, do=do)
        self._put(item)
        if item.do in AT_ONCE:
            self._do(item)
        return True

    def say(self, line: bytes) -> None:
        """Queue a line of the relay's own, which has no number."""
        self._put(Item(0, line))

    def end(self) -> None:
        """Close stdin after everything that is queued."""
        self._put(Item(0, do="close_input"))

    def _known(self, first: int) -> int:
        if first > self.taken + 1:
            raise OutOfOrder(f"{first} came after {self.taken}")
        return self.taken + 1 - first

    def _put(self, item: Item) -> None:
        self._queue.append(item)
        self.flush()

    # -- out

    def flush(self) -> None:
        """Write as much as the CLI takes now, and carry out the orders in between."""
        while self._queue:
            item = self._queue[0]
            if item.data and not self._write(item):
                return
            # Before it is done: an order may put a line of our own into the queue.
            self._queue.popleft()
            if not item.data:
                self._done(item.first)
                self._do(item)

    def _do(self, item: Item) -> None:
        do, item.do = item.do, ""
        if do == "close_input":
            self.close()
        elif do:
            self._obey(do)

    def _write(self, item: Item) -> bool:
        """Write as much as the pipe takes; False if the rest has to wait."""
        while not self.broken and item.offset < len(item.data):
            try:
                size = os.write(self._fd, memoryview(item.data)[item.offset :])
            except BlockingIOError:
                return False
            except OSError:
                self.close()
            else:
                self._count(item, size)
        self._lost |= item.offset < len(item.data)
        return True

    def _count(self, item: Item, size: int) -> None:
        end = item.offset + size
        lines = item.data.count(b"\n", item.offset, end)
        item.offset = end
        if item.first:
            item.first += lines
            self._done(item.first - 1)

    def _done(self, number: int) -> None:
        if number and not self._lost:
            self.written = number

    def close(self) -> None:
        """Close stdin now; what is queued is not written any more."""
        if not self.broken:
            self.broken = True
            self._close()


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
        self._ladder = Ladder(
            child, self.stdin.say, self.stdin.end, self._timers, self._pace, self._cli_gone
        )
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
