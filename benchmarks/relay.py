"""What a relay costs: processor time while lines pass at a steady rate, and memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import harness

from pilothouse.relay.pace import PACE

RATE = 10_000
"""Lines a second."""
LINE = b'{"type":"stream_event","event":{"text":"%s"}}\n' % (b"x" * 256)
TICK = 0.005
SIZE = 256 * 1024
PIPE_SIZE = 1024 * 1024
TOKEN = "token"
SESSION = "session"


def main() -> None:
    """Carry the same lines by a relay and by a bare copy in turn; then look at their memory."""
    chosen = harness.settings()
    seconds = 1 if chosen.quick else 10
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    carried = harness.interleave(["ours", "limit"], rounds, lambda who: carry(who, seconds))
    modules = imported()
    resting = harness.interleave(["ours", "limit"], rounds, lambda who: rest(who, modules))
    harness.report(
        {
            "name": "relay",
            "unit": f"% of a core at {RATE} lines/s of {len(LINE)} bytes",
            "ours": harness.middle(carried, "ours", "percent"),
            "peer": None,
            "limit": harness.middle(carried, "limit", "percent"),
            "vs_peer": None,
            "vs_limit": harness.ratio(carried, "ours", "limit", "percent"),
            "target": {"vs_limit": 2, "memory.vs_limit": 1.3},
            "memory": {
                "unit": "KiB resident; the limit imports the same libraries",
                "ours": harness.middle(resting, "ours", "kib"),
                "limit": harness.middle(resting, "limit", "kib"),
                "vs_limit": harness.ratio(resting, "ours", "limit", "kib"),
                "private": {who: harness.middle(resting, who, "private") for who in resting[0]},
                "private_vs_limit": harness.ratio(resting, "ours", "limit", "private"),
                "while_carrying": harness.middle(carried, "ours", "kib"),
                "guard_private": harness.middle(resting, "ours", "guard"),
            },
            "count": seconds * RATE,
            "rounds": rounds,
        }
    )


# Processor time


def carry(who: str, seconds: float) -> harness.Figures:
    """One contender carries this many seconds of lines to a sink that counts them."""
    count = int(seconds * RATE)
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder, sink(who, count) as it:
        port, process = it
        with relay(port, Path(folder), feed(count)) if who == "ours" else copy(port, count) as pid:
            line = read_line(process)
            assert line == "first", line
            began, spent = time.perf_counter(), processor_time(pid)
            line = read_line(process)
            assert line == "last", f"{who}: {line}"
            used, took = processor_time(pid) - spent, time.perf_counter() - began
            return {"percent": 100 * used / took, "kib": memory(pid)["Rss"]}


def feed(count: int) -> list[str]:
    return [sys.executable, str(Path(__file__)), "feed", str(count)]


@contextmanager
def sink(who: str, count: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process that takes what comes and tells when the first line and the last was there."""
    command = [sys.executable, str(Path(__file__)), f"sink_{who}", str(count)]
    process = subprocess.Popen(
        command, env=harness.environment(), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield int(read_line(process)), process
        finally:
            process.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def relay(port: int, folder: Path, command: list[str]) -> Iterator[int]:
    """A running relay for this program."""
    readable, writable = os.pipe()
    os.write(writable, TOKEN.encode())
    os.close(writable)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pilothouse.relay", "--connect", f"ws://127.0.0.1:{port}"),
            *("--session", SESSION, "--run", "run", "--token-fd", str(readable)),
            *("--spool", str(folder / "spool"), "--", *command),
        ],
        env=harness.environment(),
        pass_fds=[readable],
        stderr=subprocess.DEVNULL,
    )
    os.close(readable)
    with process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def copy(port: int, count: int) -> Iterator[int]:
    """The barest that could carry the lines: read, send, pause."""
    import fcntl

    source = subprocess.Popen(feed(count), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert source.stdout is not None
    fcntl.fcntl(source.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    command = [sys.executable, str(Path(__file__)), "copy", str(port)]
    process = subprocess.Popen(command, stdin=source.stdout)
    source.stdout.close()
    with source, process:
        try:
            yield process.pid
        finally:
            process.kill()
            source.kill()


def processor_time(pid: int) -> float:
    """Seconds the process has run, by its own clock, whose number Linux makes of its pid."""
    return time.clock_gettime(~pid << 3 | 2)


def memory(pid: int) -> dict[str, int]:
    """What the kernel counts for a process, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


# Memory


def imported() -> list[str]:
    """Every module that a relay has imported and that is not ours."""
    source = "import sys, pilothouse.relay.main; print(*sys.modules)"
    names = harness.run([sys.executable, "-c", source]).split()
    return [name for name in names if not name.startswith(("pilothouse", "__main__"))]


def rest(who: str, modules: list[str]) -> harness.Figures:
    """The memory of a connected relay of a silent CLI, or of a process that only imports."""
    if who == "ours":
        with (
            tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder,
            sink("ours", 0) as (port, process),
            relay(port, Path(folder), ["sleep", "1000"]) as pid,
        ):
            hello = json.loads(read_line(process))
            return {**kib(pid), "guard": kib(hello["guard_pid"])["private"]}
    source = f"import {', '.join(modules)}; print('ready', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        env=harness.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert read_line(process) == "ready"
            return {**kib(process.pid), "guard": 0}
        finally:
            process.kill()


def kib(pid: int) -> dict[str, float]:
    counted = memory(pid)
    return {"kib": counted["Rss"], "private": counted["Private_Clean"] + counted["Private_Dirty"]}


# What runs in processes of its own


def feed_lines(count: int) -> None:
    """Write the lines at their rate."""
    each = int(RATE * TICK)
    started = time.perf_counter()
    for tick in range(count // each):
        os.write(1, LINE * each)
        # The pace is what is measured here: so many lines a second.
        time.sleep(max(0.0, started + (tick + 1) * TICK - time.perf_counter()))
    # Until it is told to end, so that what carries the lines can still be looked at.
    sys.stdin.read()


def copy_bytes(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as out:
        while data := os.read(0, SIZE):
            out.sendall(data)
            # The same coalescing as the relay's.
            time.sleep(PACE.pause)


def listening() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    return server


def sink_bytes(count: int) -> None:
    with listening() as server:
        connection, _ = server.accept()
        left = count * len(LINE)
        while left > 0 and (data := connection.recv(SIZE)):
            if left == count * len(LINE):
                print("first", flush=True)
            left -= len(data)
    print("last" if left == 0 else f"{left} missing", flush=True)
    sys.stdin.read()


def sink_frames(count: int) -> None:
    """A door that commits nothing and acknowledges everything."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.server import ServerConnection, serve

    from pilothouse.relay import door_frames
    from pilothouse.relay.door_frames import Frame, FrameKind

    def take(connection: ServerConnection) -> None:
        message = connection.recv()
        assert isinstance(message, bytes)
        hello = door_frames.unpack(door_frames.RelayHello, door_frames.decode(message).payload)
        welcome = door_frames.pack(door_frames.RelayWelcome(0))
        connection.send(door_frames.encode(Frame(FrameKind.WELCOME, 0, 0, welcome)))
        print("first" if count else json.dumps(hello._asdict()), flush=True)
        with suppress(ConnectionClosed):
            while True:
                message = connection.recv()
                assert isinstance(message, bytes)
                last = door_frames.decode(message).last
                connection.send(door_frames.encode(Frame(FrameKind.ACK, 0, last)))
                if last == count:
                    print("last", flush=True)

    with listening() as server:
        serve(take, sock=server, compression=None, max_size=None).serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["feed", count]:
            feed_lines(int(count))
        case ["copy", port]:
            copy_bytes(int(port))
        case ["sink_limit", count]:
            sink_bytes(int(count))
        case ["sink_ours", count]:
            sink_frames(int(count))
        case _:
            main()
