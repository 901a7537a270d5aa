"""A server as a process of its own that can be killed and started again, and all it leaves behind.

It works on one port and one state folder, and so does the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pilothouse.relay import registry
from pilothouse.relay.registry import RunningRelay
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from tests.support.waiting import DEADLINE

SERVE = ("-P", "-m", "pilothouse", "serve")
MARK = "PILOTHOUSE_TEST_MARK"
ONES_OWN_PORTS = (20000, 32000)
"""Below those the system gives to clients: one that knocks on a dead port could get it itself."""


def with_cli(cli: RealCLI | SimulatedCLI, program: Path | None = None) -> dict[str, str]:
    """The variables of a server whose sessions run on this CLI, perhaps by way of a program."""
    return {
        "PILOTHOUSE_SIMULATE": "never",
        "CLAUDE_CODE_PATH": str(program or cli.path),
        "CLAUDE_CONFIG_DIR": str(cli.home / ".claude"),
        "ANTHROPIC_API_KEY": "sk-ant-scripted-0000",
    }


class KillableServer:
    """The only process the test kills is the one that this started last."""

    def __init__(self, folder: Path, *, words: Sequence[str] = SERVE, **env: str) -> None:
        """`words` are what Python is started with."""
        self.folder = folder
        self._words = words
        self.port = _free_port()
        self.generation = 0
        self.env = {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": "/usr/bin:/bin",
            "PILOTHOUSE_SIMULATE": "always",
            "PILOTHOUSE_PORT": str(self.port),
            **env,
        }
        for name in ("home", "state", "run", "config"):
            (folder / name).mkdir(mode=0o700)
        self._process: asyncio.subprocess.Process | None = None
        self._struck = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.folder / "state/pilothouse/token").read_text().strip()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def mark(self, generation: int) -> str:
        """Stands in the environment of a server and of all that comes from it."""
        return f"{self.folder}#{generation}"

    def errors(self) -> str:
        return (self.folder / f"stderr-{self.generation}").read_text()

    async def launch(self) -> None:
        """Start the next one, without a look at what becomes of it."""
        self.generation += 1
        self._struck = False
        with (self.folder / f"stderr-{self.generation}").open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *self._words),
                env={**self.env, MARK: self.mark(self.generation)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=self.folder,
            )

    async def ready(self) -> None:
        """Wait until it has said where it serves."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                line = (await self._process.stdout.readline()).decode()
                assert line, f"server {self.generation} ended before it served:\n{self.errors()}"
                if self.address in line:
                    return

    def strike(self) -> None:
        """Kill it in this very moment; `kill` waits for its end."""
        assert self._process is not None
        # Once only: a second signal would take its exit status from whoever waits for it.
        if not self._struck:
            self._struck = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def kill(self) -> None:
        if self._process is None:
            return
        self.strike()
        process, self._process = self._process, None
        async with asyncio.timeout(DEADLINE):
            await process.communicate()
        assert process.returncode == -signal.SIGKILL, self.errors()

    async def stop_all(self) -> str:
        """Have everything ended in order, as a user does; what that user is told."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pilothouse", "stop", "--all"),
            env=self.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
        if self._process is not None:
            server, self._process = self._process, None
            await server.communicate()
            assert server.returncode == 0, self.errors()
        return out.decode().strip()

    def relays(self) -> dict[str, RunningRelay]:
        """By run: the relays that live."""
        # One that ends removes its folder meanwhile, which a walk takes as empty.
        walk = os.walk(self.folder / "state")
        files = (Path(folder, registry.NAME) for folder, _, names in walk if registry.NAME in names)
        return {each.run: each for file in files if (each := registry.alive(file))}

    def has(self, relay: RunningRelay) -> bool:
        """Whether this very relay runs."""
        return registry.started_at(relay.relay_pid) == relay.started

    def strays(self, generations: Iterable[int], runs: Iterable[str]) -> dict[int, str]:
        """What those servers have started and none of these runs' relays looks after."""
        found = self.relays()
        relays = [found[run] for run in runs if run in found]
        owners = {pid for each in relays for pid in (each.relay_pid, each.guard_pid, each.cli_pid)}
        living = {pid for each in generations for pid in self.living(each)}
        return {pid: _command(pid) for pid in living if not owners & {pid, *_ancestors(pid)}}

    async def clean(self) -> None:
        """Leave nothing behind, whatever went wrong. A killed relay takes all it has with it."""
        await self.kill()
        for each in self.relays().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.relay_pid, signal.SIGKILL)

    def living(self, generation: int) -> set[int]:
        """The processes that a server has started, itself among them."""
        mark = f"{MARK}={self.mark(generation)}".encode()
        return {pid for pid in _pids() if mark in _environment(pid)}

    async def all_gone(self, generations: Iterable[int], within: float = 20.0) -> None:
        """Wait until nothing is left that a killed server had started."""
        left = {each: self.living(each) for each in generations}
        try:
            async with asyncio.timeout(within):
                while any(left.values()):
                    await asyncio.sleep(0.05)
                    left = {each: self.living(each) for each in left}
        except TimeoutError:
            told = {pid: _command(pid) for pids in left.values() for pid in pids}
            raise AssertionError(f"left without an owner: {told}") from None


def _free_port() -> int:
    for port in random.sample(range(*ONES_OWN_PORTS), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _environment(pid: int) -> list[bytes]:
    return _read(pid, "environ").split(b"\0")


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")[:200]


def _ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while fields := _read(pid, "stat").rpartition(b")")[2].split():
        pid = int(fields[1])
        found.append(pid)
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
