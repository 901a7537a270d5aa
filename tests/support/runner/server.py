"""A server with doors for runners and their relays, and runners in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from pilothouse.doors.door import Doors
from pilothouse.doors.runners import Runners
from pilothouse.doors.sockets import Socket
from pilothouse.doors.tokens import Keyring
from pilothouse.relay import door_frames, registry
from pilothouse.relay.door_frames import Frame, FrameKind, Order, RelayHello, RelayWelcome
from pilothouse.relay.registry import RunningRelay
from tests.support.doors.runner_peer import Notices
from tests.support.places import PROGRAMS
from tests.support.processes import gone
from tests.support.waiting import DEADLINE

PACE = {"first_delay": 0.02, "local_delay": 0.2}

CLI = """#!{python} -S
import os, sys
if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit()
print("here", os.getcwd(), os.environ.get("ASKED"), os.environ.get("CLAUDECODE"), *sys.argv[1:])
sys.stdout.flush()
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b"heard " + line)
    sys.stdout.buffer.flush()
"""


class RecordedRun:
    """One run's lines, as a session has them."""

    route = "relay"

    def __init__(self, session_id: str, run: str, machine: str) -> None:
        self.session_id = session_id
        self.run = run
        self.machine = machine
        self.lines: list[str] = []
        self.hellos: list[RelayHello] = []
        self.exit: door_frames.CLIExit | None = None
        self._committed = 0
        self._said = 0
        self._socket: Socket | None = None
        self._changed = asyncio.Event()

    def is_other(self, headers: Mapping[str, str]) -> bool:
        return False

    async def visited(self, socket: Socket) -> None:
        while isinstance(data := await socket.receive(), bytes):
            frame = door_frames.decode(data)
            if frame.kind is FrameKind.HELLO:
                self.hellos.append(door_frames.unpack(RelayHello, frame.payload))
                welcome = door_frames.pack(RelayWelcome(self._committed))
                await socket.send(door_frames.encode(Frame(FrameKind.WELCOME, 0, 0, welcome)))
                self._socket = socket
            elif frame.kind is FrameKind.LINES:
                self.lines += frame.payload.decode().splitlines()
                self._committed = frame.number + frame.payload.count(b"\n") - 1
            elif frame.kind is FrameKind.EXIT:
                self.exit = door_frames.unpack(door_frames.CLIExit, frame.payload)
                self._committed = frame.number
            if frame.kind is not FrameKind.HELLO:
                await socket.send(door_frames.encode(Frame(FrameKind.ACK, 0, self._committed)))
            self._changed.set()

    async def posted(self, body: bytes) -> int:
        raise AssertionError("a relay posts nothing")

    async def say(self, line: str) -> None:
        await self._send(FrameKind.LINES, line.encode() + b"\n")

    async def order(self, do: str) -> None:
        await self._send(FrameKind.ORDER, door_frames.pack(Order(do)))

    async def _send(self, kind: FrameKind, payload: bytes) -> None:
        assert self._socket is not None
        self._said += 1
        frame = Frame(kind, self._said, self._committed, payload)
        await self._socket.send(door_frames.encode(frame))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def hears(self, line: str) -> None:
        await self.until(lambda: line in self.lines)


class RunnerServer:
    """The server; it can be closed and opened again at the same address."""

    def __init__(
        self, folder: Path, *, lost_after: float = 1000.0, certificate: Path | None = None
    ) -> None:
        self._certificate = certificate
        self.keyring = Keyring.open(folder / "key")
        self.runners = Runners(folder / "runners.json", lost_after=lost_after)
        self.told = Notices(self.runners)
        self.doors = Doors(self.keyring, runners=self.runners)
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        scheme = "wss" if self._certificate else "ws"
        return f"{scheme}://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    async def open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        started = asyncio.Event()
        self._server = _Server(_config(self.doors, self._certificate), started)
        self._serving = asyncio.create_task(self._serve(self._server, listener))
        async with asyncio.timeout(DEADLINE):
            await started.wait()

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        with listener:
            await server.serve(sockets=[listener])

    async def close(self) -> None:
        """Leave the address: nobody is there any more."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._server = self._serving = None

    async def start(self, name: str, cwd: Path, *arguments: str, **env: str) -> RecordedRun:
        """Start a session on a runner."""
        session_id, run = str(uuid.uuid4()), uuid.uuid4().hex
        carrier = RecordedRun(session_id, run, name)
        self.doors.expect(carrier)
        await self.runners.start(
            name,
            session_id=session_id,
            run=run,
            token=self.keyring.issue(session_id, run),
            argv=["claude", *arguments],
            env=env,
            cwd=str(cwd),
            last_will=1000.0,
        )
        return carrier


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._started = started

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started.set()


def _config(doors: Doors, certificate: Path | None) -> uvicorn.Config:
    app: Any = doors
    return uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ws="websockets-sansio",
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=1,
    )


@asynccontextmanager
async def runner_server(
    folder: Path, *, lost_after: float = 1000.0, certificate: Path | None = None
) -> AsyncIterator[RunnerServer]:
    made = RunnerServer(folder, lost_after=lost_after, certificate=certificate)
    await made.open()
    try:
        yield made
    finally:
        await made.runners.aclose()
        await made.close()


@dataclass
class RunnerHost:
    """What a machine keeps while its runner comes and goes."""

    folder: Path

    def __post_init__(self) -> None:
        for each in (self.home, self.work, self.state):
            each.mkdir(parents=True, exist_ok=True)
        self.cli.write_text(CLI.format(python=sys.executable))
        self.cli.chmod(0o700)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def cli(self) -> Path:
        return self.folder / "claude"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def relays(self) -> list[RunningRelay]:
        found = (registry.alive(each) for each in (self.state / "relays").glob("*"))
        return [each for each in found if each is not None]

    async def clear(self) -> None:
        """Kill the relays that a test has left."""
        pids = [each.relay_pid for each in self.relays()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await gone(*pids)


@dataclass
class RunningRunner:
    """A runner that a test has started."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text()

    async def result(self) -> int:
        async with asyncio.timeout(DEADLINE):
            return await self.process.wait()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.result()


@asynccontextmanager
async def runner(
    url: str,
    machine: RunnerHost,
    token: str,
    *options: str,
    env: dict[str, str] | None = None,
    pace: dict[str, float] | None = None,
) -> AsyncIterator[RunningRunner]:
    """A runner, killed at the end of the context if it is still there; its relays are not."""
    readable, writable = os.pipe()
    os.write(writable, token.encode())
    os.close(writable)
    script = str(PROGRAMS / "run_runner.py")
    given = {"HOME": str(machine.home), "PATH": os.environ["PATH"], **(env or {})}
    with machine.log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, script, json.dumps({**PACE, **(pace or {})}), "--connect", url),
            *("--token-fd", str(readable), "--state", str(machine.state)),
            *("--cli", str(machine.cli), *options),
            env={"PYTHONPATH": os.pathsep.join(sys.path), **given},
            pass_fds=[readable],
            stdin=asyncio.subprocess.DEVNULL,
            stderr=stderr,
        )
    os.close(readable)
    try:
        yield RunningRunner(process, machine.log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
