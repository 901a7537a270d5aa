"""The owner's side of the guard: one guard process for this process, started when first needed."""

from __future__ import annotations

import atexit
import errno
import itertools
import marshal
import os
import shutil
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from . import guard as program
from .base import SpawnFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # program, argv, environment, directory, variables that tell of further descriptors
    Launch: TypeAlias = tuple[bytes, list[bytes], dict[bytes, bytes], bytes, list[bytes]]
    Detail: TypeAlias = Launch | int | None

SEND_TIMEOUT: Final = 2.0


class GuardLost(Exception):
    """The guard ended, or does not take requests."""


class GuardProcess:
    """A running guard process and the socket to it; not locked by itself."""

    def __init__(self, *, watched: bool) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self.pid: Final = _start_guard(theirs.fileno(), watched=watched)
            except OSError:
                ours.close()
                raise
        ours.settimeout(SEND_TIMEOUT)
        self._channel: Final = ours

    def send(self, kind: int, ident: int, detail: Detail, fds: Sequence[int] = ()) -> None:
        """Send one request; raises `GuardLost` if the guard cannot take it."""
        body = marshal.dumps((kind, ident, detail))
        try:
            socket.send_fds(self._channel, [program.LENGTH.pack(len(body))], fds)
            self._channel.sendall(body)
        except OSError as error:
            # Part of a request may be on its way, so nothing can follow it.
            self.close()
            raise GuardLost from error

    def close(self) -> None:
        """Let go of the guard, which then ends all it started."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class Handle:
    """One program under a guard. Both calls do nothing once it has ended."""

    guard: GuardProcess
    ident: int

    def signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        self._send(program.SIGNAL, int(number))

    def end(self) -> None:
        """Kill the program and all it started."""
        self._send(program.END, None)

    def _send(self, kind: int, detail: Detail) -> None:
        with _shared.lock:
            try:
                self.guard.send(kind, self.ident, detail)
            except GuardLost:
                _shared.retire(self.guard)


class _Shared:
    """The guard of this process; several event loops may use it from their threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._guard: GuardProcess | None = None
        self._retired: list[int] = []
        self._idents = itertools.count(1)

    def spawn(self, detail: Detail, fds: Sequence[int], *, watched: bool) -> Handle:
        with self.lock:
            ident = next(self._idents)
            if self._guard is not None:
                try:
                    self._guard.send(program.SPAWN, ident, detail, fds)
                except GuardLost:
                    self.retire(self._guard)
                else:
                    return Handle(self._guard, ident)
            self._retired = [pid for pid in self._retired if not _reaped(pid)]
            self._guard = guard = GuardProcess(watched=watched)
            guard.send(program.SPAWN, ident, detail, fds)
            return Handle(guard, ident)

    def retire(self, guard: GuardProcess) -> None:
        if guard is self._guard:
            self._guard = None
            self._retired.append(guard.pid)

    def close(self) -> None:
        if self._guard is not None:
            self._guard.close()

    def forget(self) -> None:
        """In a fork of ours: the guard is the parent's, and so might be a held lock."""
        self.close()
        self.__init__()


_shared: Final = _Shared()
os.register_at_fork(after_in_child=_shared.forget)
atexit.register(_shared.close)


def spawn(
    argv: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str],
    fds: Sequence[int],
    handed: Mapping[str, int] | None = None,
    watched: bool = True,
) -> Handle:
    """Have the guard start a program with `fds` as its stdin, stdout, stderr and status pipe.

    The status pipe tells whether and how it started, and later how it ended; see `guard`. The
    program inherits the descriptors in `handed` too, each under the number its variable tells. The
    guard is `watched` by another process, unless the caller itself ends what a killed one leaves.
    """
    detail = (*_request(argv, cwd, env), [os.fsencode(name) for name in handed or ()])
    fds = [*fds, *(handed or {}).values()]
    try:
        return _shared.spawn(detail, fds, watched=watched)
    except OSError as error:
        raise SpawnFailed(argv[0], f"no guard process: {error.strerror}") from error


def explain(argv: Sequence[str], cwd: str | None, kind: int, number: int) -> SpawnFailed:
    """Put the guard's report of a failed start into words."""
    text = os.strerror(number)
    if kind == program.NO_CWD:
        return SpawnFailed(argv[0], f"working directory {cwd or os.curdir}: {text}")
    if kind == program.NO_FORK:
        return SpawnFailed(argv[0], f"no new process: {text}")
    if number == errno.ENOENT and Path(cwd or os.curdir, argv[0]).exists():
        return SpawnFailed(argv[0], "the interpreter or loader it names does not exist")
    if number == errno.EACCES:
        return SpawnFailed(argv[0], f"not executable: {text}")
    return SpawnFailed(argv[0], text)


def _request(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str]
) -> tuple[bytes, list[bytes], dict[bytes, bytes], bytes]:
    name = argv[0]
    found = name if os.sep in name else shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise SpawnFailed(name, "no executable of that name on PATH")
    detail = (
        os.fsencode(found),
        [os.fsencode(argument) for argument in argv],
        {os.fsencode(key): os.fsencode(value) for key, value in env.items()},
        os.fsencode(Path(cwd or os.curdir).absolute()),
    )
    if any(b"\0" in word for word in (*detail[1], *detail[2], *detail[2].values(), detail[3])):
        raise SpawnFailed(name, "an argument, a variable or the directory contains a null byte")
    return detail


def _start_guard(channel: int, *, watched: bool) -> int:
    if not sys.executable or getattr(sys, "frozen", False):
        # A frozen program would start itself again instead.
        raise OSError(errno.ENOEXEC, "there is no Python interpreter to run the guard with")
    words = [program.WATCHED] if watched else []
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", program.__file__, str(os.getpid()), *words],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, channel, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, null, 2),
            ],
            # Unblocked by the guard once it has its handlers: a Ctrl-C now would be the end of it.
            setsigmask=signal.valid_signals(),
        )
    finally:
        os.close(null)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
