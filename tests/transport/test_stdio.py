from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from pilothouse.transport import (
    Exit,
    SpawnFailed,
    StdioTransport,
    TransportClosed,
    TransportError,
    stdio,
)
from pilothouse.transport.stdio import Timings
from tests.support.processes import DEAF, ECHO, Recorder, gone, open_fds, program, stopped
from tests.support.waiting import DEADLINE


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_what_is_written_comes_back_from_an_echo(recorder: Recorder) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    transport.write(b"one\n")
    transport.close_stdin()
    await recorder.until("exited")
    assert recorder.data == b"one\n"
    assert recorder.calls == ["data", "eof", "exited"]
    assert recorder.exits == [Exit(0, None, "")]
    assert await transport.aclose() == recorder.exits[0]


async def test_a_line_of_20_mb_passes_both_ways(recorder: Recorder) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    line = bytes(range(256)) * 80_000 + b"\n"
    transport.write(line)
    await transport.drain()
    await recorder.size(len(line))
    await transport.aclose()
    assert recorder.data == line


async def test_drain_waits_while_the_program_does_not_read(recorder: Recorder) -> None:
    source = "import os, sys; print(len(sys.stdin.buffer.read(4_000_000)), flush=True)"
    gate = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)\n"
    transport = program(gate + source)
    await transport.start(recorder)
    assert transport.pid is not None
    await stopped(transport.pid)
    transport.write(b"x" * 4_000_000)
    draining = asyncio.ensure_future(transport.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    os.kill(transport.pid, signal.SIGCONT)
    async with asyncio.timeout(DEADLINE):
        await draining
    assert await recorder.line() == "4000000"
    await transport.aclose()


async def test_the_exit_code_is_reported(recorder: Recorder) -> None:
    transport = program("raise SystemExit(7)")
    await transport.start(recorder)
    await recorder.until("exited")
    assert recorder.exits == [Exit(7, None, "")]


async def test_the_signal_that_killed_it_is_reported(recorder: Recorder) -> None:
    transport = program("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    await transport.start(recorder)
    await recorder.until("exited")
    assert recorder.exits == [Exit(None, signal.SIGSEGV, "")]


async def test_the_end_of_stderr_is_attached_to_the_exit(recorder: Recorder) -> None:
    lines: list[str] = []
    source = (
        "import sys; sys.stderr.write('first\\n' + 'x' * 300_000 + '\\nlast words'); sys.exit(3)"
    )
    argv = [sys.executable, "-S", "-c", source]
    transport = StdioTransport(argv, cwd=None, env={}, stderr_limit=1000, on_stderr=lines.append)
    await transport.start(recorder)
    await recorder.until("exited")
    tail = recorder.exits[0].stderr_tail
    assert len(tail) == 1000
    assert tail.endswith("x\nlast words")
    assert transport.stderr_tail == tail
    assert lines[0] == "first"
    assert lines[-1] == "last words"


async def test_a_failing_stderr_callback_stops_nothing(recorder: Recorder) -> None:
    def fail(line: str) -> None:
        raise RuntimeError(line)

    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    source = "import sys; sys.stderr.write('a\\nb\\n'); print('out')"
    argv = [sys.executable, "-S", "-c", source]
    transport = StdioTransport(argv, cwd=None, env={}, on_stderr=fail)
    await transport.start(recorder)
    await recorder.until("exited")
    assert recorder.data == b"out\n"
    assert transport.stderr_tail == "a\nb\n"
    assert [str(context["exception"]) for context in reported] == ["a", "b"]


async def test_the_end_of_stdout_may_come_long_before_the_exit(recorder: Recorder) -> None:
    transport = program("import os, sys; os.close(1); sys.stdin.read(); os._exit(4)")
    await transport.start(recorder)
    await recorder.until("eof")
    assert not recorder.exits
    transport.close_stdin()
    await recorder.until("exited")
    assert recorder.calls == ["eof", "exited"]
    assert recorder.exits[0].code == 4


async def test_output_written_just_before_the_exit_arrives_before_it(recorder: Recorder) -> None:
    transport = program("import os; os.write(1, b'y' * 900_000); os._exit(5)")
    await transport.start(recorder)
    await recorder.until("exited")
    assert len(recorder.data) == 900_000
    assert recorder.calls == ["data", "eof", "exited"]


async def test_a_pipe_held_open_by_another_process_does_not_hold_up_the_exit(
    recorder: Recorder,
) -> None:
    # The holder is a copy of the pipe in our own process: out of the guard's reach.
    source = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    transport = program(source, Timings(eof=0.05))
    await transport.start(recorder)
    pid = int(await recorder.line())
    with Path(f"/proc/{pid}/fd/1").open("wb", buffering=0) as holder:  # noqa: ASYNC230
        exit_ = await transport.aclose()
        assert exit_.code == 0
        assert recorder.calls == ["data", "eof", "exited"]
        with pytest.raises(BrokenPipeError):
            await _write_until_broken(holder)


async def _write_until_broken(holder: IO[bytes]) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            holder.write(b"late")
            await asyncio.sleep(0)


async def test_a_program_that_ends_with_its_input_is_closed_without_a_signal(
    recorder: Recorder,
) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    assert await transport.aclose(grace=DEADLINE) == Exit(0, None, "")


async def test_a_program_that_ignores_the_end_of_its_input_is_terminated(
    recorder: Recorder,
) -> None:
    transport = program("import threading; print('ready', flush=True); threading.Event().wait()")
    await transport.start(recorder)
    await recorder.line()
    assert await transport.aclose(grace=0.01) == Exit(None, signal.SIGTERM, "")


async def test_a_program_that_ignores_sigterm_too_is_killed(
    recorder: Recorder,
) -> None:
    transport = program(DEAF, Timings(term=0.05))
    await transport.start(recorder)
    await recorder.line()
    assert await transport.aclose(grace=0.01) == Exit(None, signal.SIGKILL, "")
    assert recorder.calls == ["data", "eof", "exited"]


async def test_closing_twice_gives_the_same_exit(recorder: Recorder) -> None:
    transport = program("raise SystemExit(2)")
    await transport.start(recorder)
    first = await transport.aclose()
    assert await transport.aclose() is first
    assert recorder.exits == [first]


async def test_concurrent_closers_get_the_same_exit(recorder: Recorder) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    exits = await asyncio.gather(*(transport.aclose() for _ in range(5)))
    assert all(exit_ is exits[0] for exit_ in exits)
    assert recorder.exits == [exits[0]]


async def test_cancelling_a_closer_does_not_stop_the_closing(
    recorder: Recorder,
) -> None:
    transport = program(DEAF, Timings(term=0.05))
    await transport.start(recorder)
    await recorder.line()
    closer = asyncio.ensure_future(transport.aclose(grace=0.01))
    await asyncio.sleep(0)
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    await recorder.until("exited")
    assert recorder.exits[0].signal == signal.SIGKILL


async def test_an_unstarted_transport_closes_at_once_and_never_starts(recorder: Recorder) -> None:
    transport = program(ECHO)
    assert await transport.aclose() == Exit(None, None, "")
    with pytest.raises(TransportClosed):
        await transport.start(recorder)
    assert recorder.calls == []


async def test_a_transport_closed_while_it_starts_leaves_nothing(recorder: Recorder) -> None:
    transport = program(ECHO)
    starting = asyncio.ensure_future(transport.start(recorder))
    await asyncio.sleep(0)
    assert await transport.aclose() == Exit(None, None, "")
    with pytest.raises(TransportClosed):
        await starting
    assert transport.pid is not None
    await gone(transport.pid)


async def test_a_cancelled_start_leaves_nothing(recorder: Recorder) -> None:
    await (warm := program(ECHO)).start(Recorder())
    await warm.aclose()
    before = open_fds()
    starting = asyncio.ensure_future(program(ECHO).start(recorder))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.sleep(0)
    assert open_fds() == before


async def test_a_transport_starts_only_once(recorder: Recorder) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    with pytest.raises(TransportError, match="only once"):
        await transport.start(recorder)
    await transport.aclose()


async def test_nothing_can_be_written_before_the_start_or_after_the_close(
    recorder: Recorder,
) -> None:
    transport = program(ECHO)
    with pytest.raises(TransportClosed):
        transport.write(b"early")
    await transport.start(recorder)
    transport.close_stdin()
    transport.close_stdin()
    with pytest.raises(TransportClosed):
        transport.write(b"late")
    await transport.aclose()
    with pytest.raises(TransportClosed):
        transport.write(b"later")


async def test_queued_bytes_arrive_before_the_end_of_input(recorder: Recorder) -> None:
    transport = program("import sys; print(len(sys.stdin.buffer.read()))")
    await transport.start(recorder)
    transport.write(b"z" * 3_000_000)
    await transport.aclose(grace=DEADLINE)
    assert recorder.data == b"3000000\n"


async def test_a_program_that_closes_its_input_is_noticed_by_the_writer(
    recorder: Recorder,
) -> None:
    source = (
        "import os, threading; os.close(0); print('closed', flush=True); threading.Event().wait()"
    )
    transport = program(source)
    await transport.start(recorder)
    await recorder.line()
    with pytest.raises(TransportClosed, match="closed its input"):
        await _write_until_refused(transport)
    with pytest.raises(TransportClosed, match="closed its input"):
        await transport.drain()
    await transport.aclose(grace=0)


async def _write_until_refused(transport: StdioTransport) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            transport.write(b"x" * 100_000)
            await transport.drain()
            await asyncio.sleep(0)


async def test_no_thread_is_started(recorder: Recorder) -> None:
    transport = program(ECHO)
    await transport.start(recorder)
    assert threading.enumerate() == [threading.main_thread()]
    await transport.aclose()
    assert threading.enumerate() == [threading.main_thread()]


async def test_no_file_descriptor_is_left(recorder: Recorder) -> None:
    await (first := program(ECHO)).start(recorder)
    await first.aclose()
    await asyncio.sleep(0)
    before = open_fds()
    for _ in range(3):
        transport = program(ECHO)
        await transport.start(Recorder())
        await transport.aclose()
    await asyncio.sleep(0)
    assert open_fds() == before


async def test_a_dropped_transport_ends_its_program(recorder: Recorder) -> None:
    transport = program(DEAF)
    await transport.start(recorder)
    await recorder.line()
    pid = transport.pid
    assert pid is not None
    transport._release()
    del transport
    gc.collect()
    await gone(pid)


async def test_the_program_gets_the_directory_and_the_environment_and_nothing_else(
    recorder: Recorder, tmp_path: Path
) -> None:
    source = """
import os, signal
signals = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN]
links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd") if int(fd) > 2]
fds = [link for link in links if os.path.exists(link)]
print(os.getcwd(), os.environ.pop("PILOTHOUSE_CHILD") != "", dict(os.environ), fds,
      set(signals) - {signal.SIGPIPE, signal.SIGXFSZ}, signal.pthread_sigmask(signal.SIG_BLOCK, []),
      os.getsid(0) == os.getpid() == os.getpgid(0))
"""
    argv = [sys.executable, "-S", "-c", source]
    transport = StdioTransport(argv, cwd=str(tmp_path), env={"LC_ALL": "C.UTF-8", "A": "é=1"})
    await transport.start(recorder)
    await recorder.until("exited")
    wanted = f"{tmp_path} True {{'LC_ALL': 'C.UTF-8', 'A': 'é=1'}} [] set() set() True\n"
    assert recorder.data.decode() == wanted


async def test_a_program_named_without_a_path_is_found_on_its_own_path(recorder: Recorder) -> None:
    transport = StdioTransport(["sh", "-c", "echo $0"], cwd=None, env={"PATH": "/usr/bin:/bin"})
    await transport.start(recorder)
    await recorder.until("exited")
    assert recorder.data == b"sh\n"


def _script(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def _failure(argv: list[str], cwd: str | None = None) -> SpawnFailed:
    recorder = Recorder()
    transport = StdioTransport(argv, cwd=cwd, env={"PATH": "/usr/bin:/bin"})
    before = threading.enumerate()
    with pytest.raises(SpawnFailed) as caught:
        await transport.start(recorder)
    assert caught.value.argv0 == argv[0]
    assert recorder.calls == []
    assert threading.enumerate() == before
    assert await transport.aclose() == Exit(None, None, "")
    return caught.value


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    failure = await _failure([str(tmp_path / "nothing")])
    assert failure.reason == "No such file or directory"
    assert str(failure) == f"cannot start {tmp_path}/nothing: No such file or directory"


async def test_a_missing_command_is_said_not_to_be_on_the_path() -> None:
    assert "PATH" in (await _failure(["no-such-command-here"])).reason


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    failure = await _failure([sys.executable], cwd=str(tmp_path / "nowhere"))
    assert failure.reason == f"working directory {tmp_path}/nowhere: No such file or directory"


async def test_a_file_that_is_not_executable_is_said_to_be_so(tmp_path: Path) -> None:
    failure = await _failure([_script(tmp_path / "plain", "#!/bin/sh\n", 0o644)])
    assert "not executable" in failure.reason


async def test_a_missing_interpreter_is_told_from_a_missing_program(tmp_path: Path) -> None:
    failure = await _failure([_script(tmp_path / "odd", "#!/no/such/interpreter\n", 0o755)])
    assert "interpreter" in failure.reason


async def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    failure = await _failure([_script(tmp_path / "odd", "no format\n", 0o755)])
    assert "format" in failure.reason


async def test_a_null_byte_in_an_argument_is_refused() -> None:
    assert "null byte" in (await _failure([sys.executable, "a\0b"])).reason


async def test_arguments_too_long_for_the_system_are_refused() -> None:
    assert "too long" in (await _failure([sys.executable, "x" * 4_000_000])).reason


def test_a_transport_without_a_program_is_refused() -> None:
    with pytest.raises(ValueError, match="no program"):
        StdioTransport([], cwd=None, env={})


def test_transports_in_several_threads_share_one_guard() -> None:
    async def round_trip() -> None:
        recorder = Recorder()
        transport = program(ECHO)
        await transport.start(recorder)
        transport.write(b"hello\n")
        assert await recorder.line() == "hello"
        await transport.aclose()

    failures: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(round_trip())
        except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


class Pipe(asyncio.BaseTransport):
    """A pipe that reads as much at once as it is told to."""

    max_size = stdio.LARGE_READ


def test_more_is_read_at_once_as_long_as_more_is_there() -> None:
    parts: list[int] = []
    pipe = Pipe()
    output = stdio._Stdout(lambda data: parts.append(len(data)), lambda: None)
    output.connection_made(pipe)
    assert pipe.max_size == stdio.SMALL_READ
    sizes = []
    for size in (7, stdio.SMALL_READ, stdio.LARGE_READ, stdio.SMALL_READ - 1, 7):
        output.data_received(b"x" * size)
        sizes.append(pipe.max_size)
    small, large = stdio.SMALL_READ, stdio.LARGE_READ
    assert sizes == [small, large, large, small, small]
    assert parts == [7, small, large, small - 1, 7]
