"""A machine of its own for a server: a home in a temporary folder, and no CLI."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pilothouse.server import runtime, survivors
from pilothouse.server.background import _started as background_children
from pilothouse.server.probe import health
from pilothouse.server.runtime import Lock, Running
from pilothouse.settings import Settings, load
from tests.support.waiting import DEADLINE


class Ran:
    """A command that has ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


class Serving:
    """A server in the foreground, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, stderr: Path) -> None:
        self._process = process
        self._stderr = stderr
        self.pid = process.pid
        self.told: list[str] = []
        self.address = ""

    async def wait_ready(self) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while not self.address:
                line = (await self._process.stdout.readline()).decode()
                assert line, f"it ended before it served:\n{self.errors}"
                self.told.append(line.strip())
                self.address = line.partition("serving at ")[2].strip()

    async def rest(self) -> list[str]:
        """End it; what it told after it had said where it serves."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE):
            out, _ = await self._process.communicate()
        assert self._process.returncode == 0, self.errors
        return out.decode().splitlines()

    @property
    def errors(self) -> str:
        return self._stderr.read_text()

    async def end(self, sent: signal.Signals = signal.SIGTERM) -> int:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(sent)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(DEADLINE):
            await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


class Machine:
    """Runs the command with an environment that holds nothing of the user's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "HOME": str(folder / "home"),
            "PATH": "/usr/bin:/bin",
            "PILOTHOUSE_PORT": "0",
        }
        (folder / "home").mkdir()
        self._servers: list[Serving] = []

    @property
    def settings(self) -> Settings:
        return load(env=self.env)

    @property
    def runtime_file(self) -> Path:
        return self.settings.runtime_dir / runtime.FILE_NAME

    def found(self) -> Running | None:
        return runtime.find(self.settings.runtime_dir)

    def health(self) -> dict[str, Any] | None:
        running = self.found()
        return health(running, self.settings.tls_cert) if running else None

    async def serve(self, *flags: str) -> Serving:
        return await self.start(sys.executable, "-m", "pilothouse", "serve", *flags)

    async def start(self, *command: str) -> Serving:
        """Run a command that serves, until it says where."""
        stderr = self.folder / f"stderr-{len(self._servers)}"
        with stderr.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=self.env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                cwd=self.folder,
            )
        serving = Serving(process, stderr)
        self._servers.append(serving)
        await serving.wait_ready()
        return serving

    async def run(self, *words: str) -> Ran:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pilothouse", *words),
            env=self.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
        )
        try:
            async with asyncio.timeout(DEADLINE):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    async def wait_free(self) -> None:
        """Until no server has the lock."""
        lock = Lock(self.settings.runtime_dir / runtime.LOCK_NAME)
        async with asyncio.timeout(DEADLINE):
            while lock.is_held():  # noqa: ASYNC110 - it is another process's: there is no event
                await asyncio.sleep(0.02)

    async def aclose(self) -> None:
        for each in self._servers:
            await each.end(signal.SIGKILL)
        background = self.found()
        if background is not None and background.pid != os.getpid():
            os.kill(background.pid, signal.SIGTERM)
            await self.wait_free()
        await asyncio.to_thread(survivors.end, self.settings)
        for child in background_children:
            await asyncio.to_thread(child.wait, DEADLINE)
