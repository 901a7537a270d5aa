"""A server, and machines whose runners let it start sessions there.

Harbour    `pilothouse serve`, one process after another, and its API over HTTP
Machine    a runner, the CLI it has, and the relays it starts
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pilothouse.api.answers import Allow
from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.requests import SessionOptions, Start
from pilothouse.api.results import Runner
from pilothouse.api.statuses import Status
from pilothouse.relay import registry
from pilothouse.relay.registry import RunningRelay
from pilothouse.remote import RemoteEngine
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from tests.support.places import PROGRAMS
from tests.support.processes import gone
from tests.support.server.killable import MARK, KillableServer
from tests.support.waiting import DEADLINE

PROGRAM = PROGRAMS / "run_server.py"
RUNNER = PROGRAMS / "run_runner.py"
PACE = {"first_delay": 0.05, "longest_delay": 0.3, "local_delay": 0.3, "ping": 0.5, "silence": 1.5}
CLI = RealCLI | SimulatedCLI
Holds = Callable[[Status], bool]


class FleetServer(KillableServer):
    """The server. It has a CLI of its own, which must never be run."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", certificate: Path | None = None, **env: str
    ) -> None:
        self.host = host
        self.certificate = certificate
        self.decoy = folder / "ran-here"
        own = folder / "claude"
        version = '[ "$1" = --version ] && exec echo "2.1.325 (Claude Code)"'
        own.write_text(f"#!/bin/sh\n{version}\n: > {self.decoy}\n")
        own.chmod(0o700)
        given = {
            "PILOTHOUSE_HOST": host,
            "PILOTHOUSE_SIMULATE": "never",
            "PILOTHOUSE_RUNNER_LOST_S": "0.5",
            "CLAUDE_CODE_PATH": str(own),
            "CLAUDE_CONFIG_DIR": str(folder / "home/.claude"),
            "ANTHROPIC_API_KEY": "sk-ant-scripted-0000",
        }
        if certificate is not None:
            given["PILOTHOUSE_TLS_CERT"] = str(certificate)
        super().__init__(folder, **(given | env))
        self._engine: RemoteEngine | None = None

    @property
    def address(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return self.address.replace("http", "ws", 1)

    @property
    def engine(self) -> RemoteEngine:
        if self._engine is None:
            tls = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
            self._engine = RemoteEngine(self.address, self.token, tls=tls)
        return self._engine

    async def launch(self) -> None:
        self.generation += 1
        self._struck = False
        with (self.folder / f"stderr-{self.generation}").open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(PROGRAM), "serve"),
                env={**self.env, MARK: self.mark(self.generation)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=self.folder,
            )

    async def open(self, **env: str) -> None:
        """Start one, and wait until it serves."""
        self.env.update(env)
        await self.launch()
        await self.ready()

    async def end(self, number: signal.Signals) -> None:
        """End it, and wait until it has."""
        if number == signal.SIGKILL:
            await self.kill()
            return
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        async with asyncio.timeout(DEADLINE):
            await process.communicate()
        assert process.returncode == 0, self.errors()

    async def aclose(self) -> None:
        if self._engine is not None:
            await self._engine.aclose()
        await self.clean()
        assert not self.decoy.exists(), "the server's own CLI was run"

    # Use it

    async def start(self, machine: str, cwd: Path, prompt: str = "go", **options: Any) -> str:
        wanted = SessionOptions(machine=machine, **options)
        started = await self.engine.start(Start(prompt=prompt, cwd=str(cwd), options=wanted))
        return started.session_id

    async def when(self, session_id: str, holds: Holds) -> Status:
        status = await self.engine.status(session_id)
        try:
            async with asyncio.timeout(DEADLINE):
                while not holds(status):
                    await asyncio.sleep(0.02)
                    status = await self.engine.status(session_id)
        except TimeoutError:
            raise AssertionError(f"it never came to that: {status}\n{self.errors()}") from None
        return status

    async def until(self, session_id: str, state: str) -> Status:
        return await self.when(session_id, lambda status: status.state == state)

    async def asked(self, session_id: str) -> Question:
        [question] = (await self.when(session_id, lambda status: bool(status.questions))).questions
        return question

    async def allow(self, question: Question) -> None:
        """Say it twice: it counts once."""
        told = await self.engine.answer(question.id, Allow())
        again = await self.engine.answer(question.id, Allow())
        assert (told.repeated, again.repeated) == (False, True)

    async def apart(self, session_id: str) -> Status:
        """Once the session's machine cannot be reached."""
        return await self.when(session_id, is_apart)

    async def together(self, session_id: str) -> Status:
        return await self.when(session_id, lambda status: status.live and not is_apart(status))

    async def runner(self, name: str) -> Runner | None:
        return next((each for each in await self.engine.runners() if each.name == name), None)

    async def runner_is(self, name: str, *states: str) -> Runner:
        """Once the runner is in the last of these states; it comes through no others."""
        seen: list[str] = []
        async with asyncio.timeout(DEADLINE):
            while (found := await self.runner(name)) is None or found.state != states[-1]:
                seen += [found.state] if found is not None else []
                await asyncio.sleep(0.02)  # the API has no events of runners
        assert set(seen) <= set(states), seen
        return found

    async def events(self, session_id: str) -> list[Event]:
        found: list[Event] = []
        while True:
            after = found[-1].seq if found else 0
            batch = await self.engine.read(after, session_id=session_id)
            if not batch.events:
                return found
            found += batch.events

    async def lines(self, session_id: str, *kinds: str) -> list[bytes]:
        """What the CLI wrote, as the journal has it."""
        return [bytes(each.body) for each in await self.events(session_id) if each.kind in kinds]

    async def records(self, session_id: str, kind: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in await self.lines(session_id, kind)]


def is_apart(status: Status) -> bool:
    return status.waiting_on is not None and status.waiting_on.what == "machine"


class FleetMachine:
    """What a machine keeps while its runner comes and goes."""

    def __init__(
        self,
        folder: Path,
        cli: CLI,
        harbour: FleetServer,
        *,
        program: Path | None = None,
        on_it: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.folder = folder
        self.cli = cli
        self._harbour = harbour
        self._program = program or cli.path
        self._on_it = on_it
        self._runner: asyncio.subprocess.Process | None = None
        folder.mkdir()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def admit(self, token: str) -> None:
        file = self.folder / "token"
        file.write_text(token)
        file.chmod(0o600)

    async def join(self, name: str) -> None:
        """Be let in under this name, and come."""
        self.admit((await self._harbour.engine.add_runner(name)).token)
        await self.open(name)

    async def open(self, name: str, *options: str) -> None:
        """Start the runner, and wait until it is there."""
        await self.launch(*options)
        await self._harbour.runner_is(name, "away", "lost", "connected")

    async def launch(self, *options: str) -> None:
        words = ["--connect", self._harbour.url, "--token-file", str(self.folder / "token")]
        words += ["--state", str(self.folder / "state"), "--cli", str(self._program), *options]
        if self._harbour.certificate is not None:
            words += ["--ca", str(self._harbour.certificate)]
        with (self.folder / "log").open("ab") as log, self._on_it():
            self._runner = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(RUNNER), json.dumps(PACE), *words),
                env={
                    "HOME": str(self.cli.home),
                    "CLAUDE_CONFIG_DIR": str(self.cli.home / ".claude"),
                    "PATH": os.environ["PATH"],
                },
                stdin=asyncio.subprocess.DEVNULL,
                stderr=log,
            )

    async def left(self) -> int:
        """The runner's exit code, once it has ended by itself."""
        assert self._runner is not None
        async with asyncio.timeout(DEADLINE):
            return await self._runner.wait()

    async def end_runner(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self._runner is not None
        with suppress(ProcessLookupError):
            self._runner.send_signal(number)
        return await self.left()

    def relays(self) -> dict[str, RunningRelay]:
        """By session: the relays that live."""
        found = (registry.alive(each) for each in (self.folder / "state/relays").glob("*"))
        return {each.session_id: each for each in found if each is not None}

    async def die(self) -> None:
        """Every process of it is gone at once, and nobody was told."""
        if self._runner is not None:
            await self.end_runner(signal.SIGKILL)
            self._runner = None
        relays = self.relays().values()
        for each in relays:
            with suppress(ProcessLookupError):
                os.kill(each.relay_pid, signal.SIGKILL)
        await gone(*(pid for each in relays for pid in (each.relay_pid, each.cli_pid) if pid))

    async def aclose(self) -> None:
        """Leave nothing behind. A runner that ends in order waits for a relay that comes up."""
        if self._runner is not None:
            await self.end_runner()
        await self.die()
