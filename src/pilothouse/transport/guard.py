"""The guard: a small process that starts our programs and sees that none of them outlives us.

Run as a script by `guard_client`, once per process that starts programs; its stdin is a socket.
It imports only what it needs, has one thread, and is the parent of every program it starts:

- When the owner dies, however it dies, every program gets SIGTERM, and after a grace SIGKILL goes
  to everything below the guard until nothing is left. A SIGTERM to the guard means the same.
- When one program ends, what it left running is killed too: its process group, and whatever
  escaped into a group or session of its own, recognised by a token in its environment.
- When the guard itself is killed, the kernel sends each program SIGTERM, and after the same grace
  a second process kills everything that is left.

On Linux the guard is a child subreaper: whatever loses its parent below it becomes its own child,
so killing its children over and over reaches everything. The process above it is one too, and does
nothing but wait for the guard's end; when that one is killed, the guard is told by the kernel and
ends everything. So both would have to be killed in the same moment for something to stay behind.
Elsewhere (macOS) there is no subreaper, no pidfd and no /proc: what left its program's process
group is not found, programs are not told when the guard is killed, and an owner's death is noticed
by the socket's end or within a second.

A program whose tool both starts a session of its own and clears its environment cannot be told
from another program's; such a stray ends with the last program of this guard.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    # `typing` would cost the guard a megabyte.
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

# A request on the socket: its length (these bytes carry the file descriptors), then marshal data.
LENGTH = struct.Struct("<I")
SPAWN, SIGNAL, END = range(3)
SPAWN_FDS = 4
MOST_FDS = 8

# A report on a program's status pipe: what happened, and a pid, an errno or a wait status.
REPORT = struct.Struct("<Bi")
STARTED, NO_FORK, NO_CWD, NO_EXEC, ENDED = range(5)

WATCHED = "watched"
"""The argument with which the guard goes below another process, where the system allows for it."""

MARKER = b"PILOTHOUSE_CHILD"
TERM_GRACE = 1.0
SWEEP_LIMIT = 1.0
ROUND = 0.05
OWNER_CHECK = 1.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


class Ward:
    """One program under guard, from its fork until its end was reported."""

    __slots__ = ("ended_at", "launch_fd", "pid", "status", "status_fd", "token")

    def __init__(self, pid: int, token: bytes, launch_fd: int, status_fd: int) -> None:
        self.pid = pid
        self.token = token
        self.launch_fd = launch_fd
        self.status_fd = status_fd
        self.status: int | None = None
        self.ended_at = 0.0


class Guard:
    """The guard's loop: requests, launches, deaths."""

    def __init__(self, channel: socket.socket, owner: int, owner_fd: int | None) -> None:
        self._channel = channel
        self._owner = owner
        self._owner_fd = owner_fd
        """Readable when the owner is gone; None where there is no such descriptor."""
        self._owner_lost = False
        self._unread = bytearray()
        self._fds: list[int] = []
        self._wards: dict[int, Ward] = {}
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._signals = _catch_signals()
        self._prctl = _prctl()
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1)
        channel.setblocking(False)
        self._watch(channel.fileno(), self._requests_ready)
        self._watch(self._signals, self._signals_ready)
        if owner_fd is not None:
            # The socket alone is not enough: a fork of the owner may hold its other end open.
            self._watch(owner_fd, self._lose_owner)

    def run(self) -> None:
        """Serve until the owner is gone, then end everything."""
        while not self._owner_lost:
            self._turn(self._patience())
            if self._owner_fd is None and os.getppid() != self._owner:
                self._owner_lost = True
        self._end_all()

    # -- the loop

    def _watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def _unwatch(self, fd: int) -> None:
        del self._handlers[fd]
        self._poll.unregister(fd)

    def _turn(self, timeout: float | None) -> None:
        # One event a turn: a handler may close a descriptor whose number the next one gets.
        ready = self._poll.poll(None if timeout is None else timeout * 1000)
        if ready:
            self._handlers[ready[0][0]]()
        self._sweep()

    def _patience(self) -> float | None:
        if any(ward.status is not None for ward in self._wards.values()):
            return ROUND
        return OWNER_CHECK if self._owner_fd is None else None

    def _lose_owner(self) -> None:
        self._owner_lost = True

    def _signals_ready(self) -> None:
        if signal.SIGTERM in os.read(self._signals, 4096):
            self._owner_lost = True
        self._reap()

    # -- requests

    def _requests_ready(self) -> None:
        try:
            data, fds = _receive(self._channel)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._owner_lost = True
            return
        self._unread += data
        self._fds += fds
        while (request := self._next_request()) is not None:
            self._serve(*request)

    def _next_request(self) -> tuple[int, int, Any] | None:
        if len(self._unread) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._unread)[0]
        if len(self._unread) < end:
            return None
        request = marshal.loads(self._unread[LENGTH.size : end])
        del self._unread[:end]
        return request

    def _serve(self, kind: int, ident: int, detail: Any) -> None:
        if kind == SPAWN:
            *launch, handed = detail
            count = SPAWN_FDS + len(handed)
            fds, self._fds = self._fds[:count], self._fds[count:]
            self._spawn(ident, fds, dict(zip(handed, fds[SPAWN_FDS:], strict=True)), *launch)
        elif kind == SIGNAL:
            self._signal(ident, detail)
        elif kind == END:
            self._signal(ident, signal.SIGKILL)

    def _signal(self, ident: int, number: int) -> None:
        ward = self._wards.get(ident)
        if ward is not None and ward.status is None:
            _kill_group(ward.pid, number)

    # -- launches

    def _spawn(
        self,
        ident: int,
        fds: list[int],
        handed: dict[bytes, int],
        program: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
    ) -> None:
        stdio, status_fd = fds[: SPAWN_FDS - 1], fds[SPAWN_FDS - 1]
        token = os.urandom(8).hex().encode()
        env[MARKER] = _nested(token)
        env.update({name: b"%d" % fd for name, fd in handed.items()})
        launch_fd, report_fd = os.pipe()
        guard = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _report(status_fd, NO_FORK, error.errno or errno.EAGAIN)
            _close(*fds, launch_fd, report_fd)
            return
        if pid == 0:
            self._become(guard, program, argv, env, cwd, stdio, [*handed.values()], report_fd)
        _close(*stdio, *handed.values(), report_fd)
        self._wards[ident] = ward = Ward(pid, token, launch_fd, status_fd)
        self._watch(launch_fd, lambda: self._launched(ward))
        # No events asked for: only POLLERR comes, when nobody holds the pipe's other end any more.
        self._watch(status_fd, lambda: self._abandoned(ward), 0)

    def _become(
        self,
        guard: int,
        program: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        stdio: list[int],
        handed: list[int],
        report_fd: int,
    ) -> NoReturn:
        stage = NO_EXEC
        try:
            _default_signals()
            os.setsid()
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != guard:
                os._exit(127)
            for target, fd in enumerate(stdio):
                os.dup2(fd, target)
            for fd in handed:
                os.set_inheritable(fd, True)
            stage = NO_CWD
            os.chdir(cwd)
            stage = NO_EXEC
            os.execve(program, argv, env)
        except OSError as error:
            _report(report_fd, stage, error.errno or errno.EINVAL)
        finally:
            # Whatever happened, this process must not go on as a second guard.
            os._exit(127)

    def _launched(self, ward: Ward) -> None:
        failure = os.read(ward.launch_fd, REPORT.size)
        self._unwatch(ward.launch_fd)
        _close(ward.launch_fd)
        ward.launch_fd = -1
        _report_bytes(ward.status_fd, failure or REPORT.pack(STARTED, ward.pid))

    def _abandoned(self, ward: Ward) -> None:
        self._unwatch(ward.status_fd)
        if ward.status is None:
            _kill_group(ward.pid, signal.SIGKILL)

    # -- deaths

    def _reap(self) -> None:
        wards = {ward.pid: ward for ward in self._wards.values() if ward.status is None}
        while (death := _next_death(wards)) is not None:
            pid, status = death
            if (ward := wards.pop(pid, None)) is not None:
                ward.status = status
                ward.ended_at = time.monotonic()

    def _sweep(self) -> None:
        """Kill what ended programs left behind; report the end of those that left nothing more."""
        ended = [item for item in self._wards.items() if item[1].status is not None]
        if not ended:
            return
        strays = _children() - {ward.pid for ward in self._wards.values()}
        alone = len(ended) == len(self._wards)
        for ident, ward in ended:
            left = [pid for pid in strays if alone or ward.token in _environment(pid)]
            killed = _kill_each(left)
            if not killed or time.monotonic() > ward.ended_at + SWEEP_LIMIT:
                self._dismiss(ident, ward)

    def _dismiss(self, ident: int, ward: Ward) -> None:
        if ward.launch_fd >= 0:
            self._launched(ward)
        if ward.status_fd in self._handlers:
            self._unwatch(ward.status_fd)
        _report(ward.status_fd, ENDED, ward.status or 0)
        _close(ward.status_fd)
        del self._wards[ident]

    def _end_all(self) -> None:
        self._unwatch(self._channel.fileno())
        self._channel.close()
        if self._owner_fd is not None:
            self._unwatch(self._owner_fd)
        for ward in self._wards.values():
            if ward.status is None:
                _kill_group(ward.pid, signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE
        while self._wards and time.monotonic() < deadline:
            self._turn(ROUND)
        while self._kill_round():
            self._turn(ROUND)

    def _kill_round(self) -> bool:
        self._reap()
        running = [ward.pid for ward in self._wards.values() if ward.status is None]
        groups = [pid for pid in running if _kill_group(pid, signal.SIGKILL)]
        return bool(_kill_each(_children()) or groups)


def _prctl() -> Callable[[int, int], None]:
    if not _LINUX:
        return lambda option, value: None
    call = ctypes.CDLL(None).prctl
    return lambda option, value: call(option, ctypes.c_ulong(value), 0, 0, 0)


def _catch_signals() -> int:
    """Return a pipe that becomes readable with the numbers of SIGCHLD and SIGTERM."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # The owner started us with every signal blocked, so that none came before this line.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return readable


def _default_signals() -> None:
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    space = socket.CMSG_SPACE(MOST_FDS * 4)
    data, ancillary, _, _ = channel.recvmsg(65536, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += memoryview(payload[: len(payload) // 4 * 4]).cast("i")
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


def _nested(token: bytes) -> bytes:
    # A guard below another guard's program keeps the outer token, so that both recognise theirs.
    outer = os.environb.get(MARKER)
    return outer + b"/" + token if outer else token


def _next_death(wards: dict[int, Ward]) -> tuple[int, int] | None:
    try:
        if not hasattr(os, "waitid"):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in wards:
                _kill_group(pid, signal.SIGKILL)
            return (pid, status) if pid else None
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_pid in wards:
            # Before it is reaped: until then no other group can bear its number.
            _kill_group(found.si_pid, signal.SIGKILL)
        return os.waitpid(found.si_pid, 0)
    except ChildProcessError:
        return None


def _children() -> set[int]:
    if not _LINUX:
        return set()
    pid = os.getpid()
    try:
        # Exact here: nobody but us reaps our children, and we are not doing so while we read.
        return {int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()}
    except FileNotFoundError:
        numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
        return {number for number in numbers if _parent(number) == pid}


def _parent(pid: int) -> int:
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _environment(pid: int) -> bytes:
    try:
        return _read(f"/proc/{pid}/environ")
    except OSError:
        return b""


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _kill_each(pids: Iterable[int]) -> list[int]:
    """Kill our own unreaped children; return those that will die of it."""
    return [pid for pid in pids if _kill(pid, signal.SIGKILL)]


def _kill_group(pid: int, number: int) -> bool:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        # Between its fork and its setsid it has no group yet.
        return _kill(pid, number)
    except PermissionError:
        return False
    return True


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _report(fd: int, kind: int, value: int) -> None:
    _report_bytes(fd, REPORT.pack(kind, value))


def _report_bytes(fd: int, data: bytes) -> None:
    # When nobody listens any more, the program is ended as abandoned.
    with suppress(OSError):
        os.write(fd, data)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _go_below_another() -> None:
    """Go on in a child of ours, and watch over it in this process."""
    prctl, above = _prctl(), os.getpid()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Ignored by the owner, it would be for us, and the kernel would reap our child by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if guard := os.fork():
        _watch_over(guard)
    # One signal to a group is not to end both.
    os.setsid()
    # Every signal is blocked yet, so that none is lost.
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != above:
        os._exit(0)


def _watch_over(guard: int) -> NoReturn:
    """Wait for the guard's end, and end what it has left, if it was killed."""
    # The channel is the guard's: the owner is to notice its end.
    os.dup2(1, 0)
    ended = False
    while not ended:
        if signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM:
            _kill(guard, signal.SIGTERM)
        ended = os.waitpid(guard, os.WNOHANG)[0] == guard
    # The kernel has told the programs.
    deadline = time.monotonic() + TERM_GRACE
    while _children() and time.monotonic() < deadline:
        _rest()
    while _kill_each(_children()):
        _rest()
    os._exit(0)


def _rest() -> None:
    """Wait a little, and reap who has ended meanwhile."""
    time.sleep(ROUND)
    while _next_death({}) is not None:
        pass


def main() -> NoReturn:
    os.chdir("/")
    os.setsid()
    os.closerange(3, 65536)
    owner = int(sys.argv[1])
    owner_fd = _pidfd(owner)
    # Asked when the descriptor is there: before, its number may have become another's.
    if os.getppid() != owner:
        os._exit(0)
    if owner_fd is not None and sys.argv[2:] == [WATCHED]:
        _go_below_another()
    Guard(socket.socket(fileno=0), owner, owner_fd).run()
    os._exit(0)


if __name__ == "__main__":
    main()
