"""A program's stdin, stdout and stderr as a transport."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from . import guard, guard_client
from .base import Exit, SpawnFailed, TransportClosed, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .base import Receiver

HIGH_WATER: Final = 256 * 1024
# Of stdout alone: a user's pipes may reserve 64 MiB together before Linux shrinks new ones.
PIPE_SIZE: Final = 1024 * 1024
# For each read a buffer is made. From 128 KiB on, glibc gets its memory from the system and gives
# it back at once, which takes longer than the read itself where little is there to be read.
SMALL_READ: Final = 64 * 1024
LARGE_READ: Final = 256 * 1024


class Timings(NamedTuple):
    """Seconds that each step may take."""

    start: float = 10.0
    term: float = 2.0
    """From SIGTERM to SIGKILL."""
    kill: float = 2.0
    """From SIGKILL until nothing more is waited for."""
    eof: float = 1.0
    """From the program's end to that of its pipes: something out of the guard's reach may still
    hold them."""


TIMINGS: Final = Timings()


class StdioTransport:
    """Starts one program under the guard and carries its bytes, without a thread.

    Closing is a ladder of timers (end of input, SIGTERM to the group, SIGKILL to everything), so
    no cancelled caller can stop it half-way. Dropping a transport unclosed kills the program.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        stderr_limit: int = 64 * 1024,
        on_stderr: Callable[[str], None] | None = None,
        secrets: Mapping[str, bytes] | None = None,
        timings: Timings = TIMINGS,
    ) -> None:
        """`secrets`: what the program reads from descriptors, by the variables that tell which."""
        if not argv:
            raise ValueError("argv names no program")
        self._timings = timings
        self._argv = tuple(argv)
        self._cwd = cwd
        self._env = dict(env)
        self._secrets = dict(secrets or {})
        self._receiver: Receiver | None = None
        self._pid: int | None = None
        self._handle: guard_client.Handle | None = None
        self._stdin = _Stdin()
        self._stdout = _Stdout(self._stdout_received, self._output_ended)
        self._stderr = _Stderr(stderr_limit, on_stderr, self._output_ended)
        self._status = _Status(self._process_ended)
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._closing = False
        self._eof_told = False
        self._exit: Exit | None = None
        self._done = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The program's process id, also after its end."""
        return self._pid

    @property
    def stderr_tail(self) -> str:
        """The last part of what the program wrote to stderr so far."""
        return self._stderr.tail

    # -- starting

    async def start(self, receiver: Receiver) -> None:
        """Start the program; the receiver may be called before this returns."""
        if self._receiver is not None:
            raise TransportError("a transport starts only once")
        if self._closing:
            raise TransportClosed("closed before it was started")
        self._receiver = receiver
        try:
            await self._launch()
        except guard_client.GuardLost:
            await self._relaunch()
        self._running = True
        self._settle()

    async def _relaunch(self) -> None:
        self._status = _Status(self._process_ended)
        try:
            await self._launch()
        except guard_client.GuardLost:
            raise SpawnFailed(self._argv[0], "the guard process ended") from None

    async def _launch(self) -> None:
        with ExitStack() as undo:
            ours, theirs = _open_pipes(undo)
            handed = {name: _filled_pipe(undo, secret) for name, secret in self._secrets.items()}
            handle = guard_client.spawn(
                self._argv,
                cwd=self._cwd,
                env=self._env,
                fds=[end.fileno() for end in theirs],
                handed={name: end.fileno() for name, end in handed.items()},
            )
            undo.callback(handle.end)
            for end in (*theirs, *handed.values()):
                end.close()
            await self._connect(undo, *ours)
            if self._closing:
                raise TransportClosed("closed while it was starting")
            self._handle = handle
            undo.pop_all()

    async def _connect(
        self,
        undo: ExitStack,
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
        status: IO[bytes],
    ) -> None:
        loop = asyncio.get_running_loop()
        undo.callback(self._release)
        await loop.connect_read_pipe(lambda: self._status, status)
        self._pid = await self._started()
        # Input first: the receiver may want to answer the first bytes it gets.
        await loop.connect_write_pipe(lambda: self._stdin, stdin)
        await loop.connect_read_pipe(lambda: self._stderr, stderr)
        await loop.connect_read_pipe(lambda: self._stdout, stdout)

    async def _started(self) -> int:
        try:
            async with asyncio.timeout(self._timings.start):
                kind, number = await self._status.first_report()
        except TimeoutError:
            raise SpawnFailed(self._argv[0], "the guard process does not answer") from None
        if kind != guard.STARTED:
            raise guard_client.explain(self._argv, self._cwd, kind, number)
        return number

    # -- writing

    def write(self, data: bytes) -> None:
        """Queue bytes for the program's stdin."""
        if not self._running:
            raise TransportClosed("the program is not running")
        self._stdin.write(data)

    async def drain(self) -> None:
        """Wait until little enough is queued for the program's stdin."""
        await self._stdin.drain()

    def close_stdin(self) -> None:
        """End the program's input once the queued bytes are through."""
        self._stdin.close()

    # -- ending

    def signal(self, number: int) -> None:
        """Send a signal to the program's process group; one that has ended gets none."""
        if self._running and self._handle is not None:
            self._handle.signal(number)

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """End the program: no more input, SIGTERM after `grace`, SIGKILL 2 s later."""
        if not self._closing:
            self._closing = True
            self._begin_close(grace)
        await self._done.wait()
        assert self._exit is not None
        return self._exit

    def _begin_close(self, grace: float) -> None:
        if self._exit is not None:
            return
        if not self._running:
            self._conclude()
        else:
            self._stdin.close()
            if not self._status.ended:
                self._after(grace, self._terminate)

    def _terminate(self) -> None:
        self._after(self._timings.term, self._kill)
        if self._handle is not None:
            self._handle.signal(signal.SIGTERM)

    def _kill(self) -> None:
        self._after(self._timings.kill, self._finish)
        if self._handle is not None:
            self._handle.end()

    def _after(self, delay: float, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, step)

    def _stdout_received(self, data: bytes) -> None:
        if self._receiver is not None and not self._eof_told:
            self._receiver.data_received(data)

    def _output_ended(self) -> None:
        if self._stdout.ended:
            self._tell_eof()
        self._settle()

    def _process_ended(self) -> None:
        if self._running:
            self._after(self._timings.eof, self._finish)
            self._settle()

    def _settle(self) -> None:
        if not (self._running and self._status.ended):
            return
        if self._stdout.ended and self._stderr.ended:
            self._finish()
        elif self._timer is None:
            self._after(self._timings.eof, self._finish)

    def _finish(self) -> None:
        if self._exit is not None:
            return
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
        if self._status.lost and not self._stdout.ended:
            self._kill_unguarded()
        self._release()
        exit_ = self._conclude()
        self._tell_eof()
        if self._receiver is not None:
            self._receiver.exited(exit_)

    def _kill_unguarded(self) -> None:
        # The guard was killed and its SIGTERM, the kernel's, was not obeyed. The open stdout says
        # that the group still lives, so its number cannot have passed to another.
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    def _tell_eof(self) -> None:
        if not self._eof_told and self._receiver is not None:
            self._eof_told = True
            self._receiver.eof_received()

    def _conclude(self) -> Exit:
        self._exit = _exit(self._status.wait_status, self._stderr.tail)
        self._done.set()
        return self._exit

    def _release(self) -> None:
        self._stdin.abort()
        for output in (self._stdout, self._stderr, self._status):
            output.close()


class _Stdin(asyncio.BaseProtocol):
    """The program's input and its flow control."""

    def __init__(self) -> None:
        self._pipe: asyncio.WriteTransport | None = None
        self._closed = False
        self._broken = False
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = cast("asyncio.WriteTransport", transport)
        self._pipe.set_write_buffer_limits(high=HIGH_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        # asyncio's pipes must not be touched again.
        self._pipe = None
        self._broken = not self._closed
        self._closed = True
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def write(self, data: bytes) -> None:
        self._check()
        if self._pipe is None or self._closed:
            raise TransportClosed("the program's input is closed")
        self._pipe.write(data)

    async def drain(self) -> None:
        await self._writable.wait()
        self._check()

    def close(self) -> None:
        self._closed = True
        if self._pipe is not None:
            self._pipe.close()

    def abort(self) -> None:
        self._closed = True
        if self._pipe is not None:
            self._pipe.abort()

    def _check(self) -> None:
        if self._broken:
            raise TransportClosed("the program closed its input")


class _Output(asyncio.Protocol):
    """A pipe we read until its end, which is told once."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._pipe: asyncio.BaseTransport | None = None
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipe = None
        self.ended = True
        self._on_end()

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()


class _Stdout(_Output):
    """Reads in small parts until there is more than that to read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._read_at_most(SMALL_READ)

    def data_received(self, data: bytes) -> None:
        if len(data) >= SMALL_READ or self._limit != SMALL_READ:
            self._read_at_most(LARGE_READ if len(data) >= SMALL_READ else SMALL_READ)
        self._on_data(data)

    def _read_at_most(self, limit: int) -> None:
        self._limit = limit
        # asyncio's own pipes have this; another loop's may read as they like.
        if self._pipe is not None and hasattr(self._pipe, "max_size"):
            cast("Any", self._pipe).max_size = limit


class _Stderr(_Output):
    """Keeps the last part of stderr and passes its lines on."""

    def __init__(
        self, limit: int, on_line: Callable[[str], None] | None, on_end: Callable[[], None]
    ) -> None:
        super().__init__(self._keep, on_end)
        self._limit = limit
        self._on_line = on_line
        self._kept = bytearray()
        self._line = b""

    @property
    def tail(self) -> str:
        return self._kept[-self._limit :].decode(errors="replace") if self._limit else ""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._line:
            self._tell(self._line)
            self._line = b""
        super().connection_lost(exc)

    def _keep(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: len(self._kept) - self._limit]
        if self._on_line is None:
            return
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._tell(line)
        # A line without end must not grow without end.
        self._line = rest[-self._limit :]

    def _tell(self, line: bytes) -> None:
        assert self._on_line is not None
        try:
            self._on_line(line.rstrip(b"\r").decode(errors="replace"))
        except Exception as error:  # noqa: BLE001 - boundary: the user's callback
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the stderr callback failed", "exception": error}
            )


class _Status(_Output):
    """The guard's reports on the program: whether it started, how it ended."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        super().__init__(self._reports_received, on_end)
        self._unread = b""
        self._first: tuple[int, int] | None = None
        self._heard = asyncio.Event()
        self.wait_status: int | None = None

    @property
    def lost(self) -> bool:
        return self.ended and self.wait_status is None

    async def first_report(self) -> tuple[int, int]:
        await self._heard.wait()
        if self._first is None:
            raise guard_client.GuardLost
        return self._first

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard.set()
        super().connection_lost(exc)

    def _reports_received(self, data: bytes) -> None:
        self._unread += data
        whole = len(self._unread) // guard.REPORT.size * guard.REPORT.size
        reports, self._unread = self._unread[:whole], self._unread[whole:]
        for kind, number in guard.REPORT.iter_unpack(reports):
            self._report_received(kind, number)

    def _report_received(self, kind: int, number: int) -> None:
        if self._first is None:
            self._first = (kind, number)
            self._heard.set()
        elif kind == guard.ENDED and self._first[0] == guard.STARTED:
            self.wait_status = number


def _open_pipes(undo: ExitStack) -> tuple[list[IO[bytes]], list[IO[bytes]]]:
    """Open the pipes for stdin, stdout, stderr and status; return our ends and the program's."""
    stdin, our_stdin = _pipe(undo)
    our_stdout, stdout = _pipe(undo)
    our_stderr, stderr = _pipe(undo)
    our_status, status = _pipe(undo)
    _enlarge(our_stdout)
    return [our_stdin, our_stdout, our_stderr, our_status], [stdin, stdout, stderr, status]


def _pipe(undo: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return (
        undo.enter_context(os.fdopen(reading, "rb", buffering=0)),
        undo.enter_context(os.fdopen(writing, "wb", buffering=0)),
    )


def _filled_pipe(undo: ExitStack, content: bytes) -> IO[bytes]:
    """The end to read of a pipe that holds this and then ends."""
    reading, writing = _pipe(undo)
    # No more than any pipe holds at once, so that this cannot wait for a reader.
    assert len(content) <= select.PIPE_BUF
    with writing:
        writing.write(content)
    return reading


def _enlarge(pipe: IO[bytes]) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        # Refused when the user's pipes already hold their share of memory.
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


def _exit(wait_status: int | None, stderr_tail: str) -> Exit:
    if wait_status is None:
        return Exit(None, None, stderr_tail)
    code = os.waitstatus_to_exitcode(wait_status)
    return Exit(code, None, stderr_tail) if code >= 0 else Exit(None, -code, stderr_tail)
