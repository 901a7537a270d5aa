"""A runner's relays: found again, watched to their end, cleared away, never left unknown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pilothouse.relay import deaths, registry
from pilothouse.relay.pace import PACE
from pilothouse.relay.registry import RunningRelay
from pilothouse.runner.control import gate_of
from pilothouse.runner.relays import Door, Relays
from pilothouse.runner.runner import Runner
from pilothouse.runner.workplace import Workplace
from pilothouse.transport import SpawnFailed
from tests.support.runner.server import RunnerHost, runner_server
from tests.support.waiting import DEADLINE

DOOR = Door("ws://127.0.0.1:9")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[RunnerHost]:
    made = RunnerHost(tmp_path / "there")
    yield made
    await made.clear()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands in for a relay's."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def left_by(process: subprocess.Popen[bytes], folder: Path, log: str = "") -> RunningRelay:
    """What a relay of that process keeps in its folder."""
    folder.mkdir(parents=True)
    started = registry.started_at(process.pid)
    assert started is not None
    found = RunningRelay("s1", folder.name, process.pid, started, None, None)
    registry.record(folder, found)
    (folder / registry.LOG_NAME).write_text(log)
    return found


class Ends:
    """Waits for what a runner's relays come to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    def __call__(self, run: str, reason: str) -> None:
        self.told.append((run, reason))
        self._changed.set()

    async def first(self) -> tuple[str, str]:
        async with asyncio.timeout(DEADLINE):
            await self._changed.wait()
        return self.told[0]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("2026-01-01T00:00:00+0000 pilothouse relay: connected\n", "its relay was killed"),
        ("", "its relay was killed"),
        ("Traceback ...\nOSError: disk full\n\n", "its relay failed: OSError: disk full"),
        ("pilothouse relay: no token\n", "its relay failed: no token"),
    ],
)
async def test_a_relay_that_was_there_before_is_watched_and_its_end_has_a_reason(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], log: str, reason: str
) -> None:
    ends = Ends()
    found = left_by(sleeper, tmp_path / "r1", log)
    relays = Relays(tmp_path, DOOR, ends)
    relays.adopt()
    assert relays.running() == [found]
    sleeper.kill()
    assert await ends.first() == ("r1", reason)
    assert relays.running() == []
    assert not (tmp_path / "r1").exists()


async def test_where_the_kernel_does_not_tell_it_is_looked_again_and_again(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "LOOK_AGAIN", 0.01)
    monkeypatch.delattr(os, "pidfd_open")
    ends = Ends()
    left_by(sleeper, tmp_path / "r1")
    relays = Relays(tmp_path, DOOR, ends)
    relays.adopt()
    sleeper.kill()
    assert await ends.first() == ("r1", "its relay was killed")


async def test_a_relay_that_ended_before_it_could_be_watched_is_told(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    ends = Ends()
    found = left_by(sleeper, tmp_path / "r1")
    relays = Relays(tmp_path, DOOR, ends)
    relays.keep(found._replace(started=found.started - 1))
    assert ends.told == []
    assert (await ends.first())[0] == "r1"


async def test_a_runner_that_ends_watches_no_more(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    left_by(sleeper, tmp_path / "r1")
    relays = Relays(tmp_path, DOOR, Ends())
    relays.adopt()
    relays.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert sleeper.poll() is None


async def test_what_a_dead_relay_left_is_cleared_and_one_that_comes_up_is_let_be(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    left_by(sleeper, tmp_path / "dead")
    sleeper.kill()
    sleeper.wait()
    for name in ("young", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / registry.LOG_NAME).touch()
    os.utime(tmp_path / "old", (0, 0))
    Relays(tmp_path, DOOR, Ends()).adopt()
    assert os.listdir(tmp_path) == ["young"]  # noqa: PTH208


async def test_another_process_with_a_relays_number_is_not_ended(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    found = left_by(sleeper, tmp_path / "r1")
    relays = Relays(tmp_path, DOOR, Ends())
    relays.keep(found._replace(started=found.started - 1))
    relays.end("r1")
    relays.end("unknown")
    assert registry.started_at(sleeper.pid) == found.started
    relays.close()


# -- a start that is no longer wanted


@dataclass(slots=True)
class Slow(Workplace):
    """Takes its time to find a directory."""

    entered: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def directory(self, cwd: str | None) -> Path:
        self.entered.set()
        assert self.go.wait(DEADLINE)
        return Path(cwd or "/")


async def test_a_relay_that_comes_up_after_its_server_left_is_ended(
    tmp_path: Path, machine: RunnerHost
) -> None:
    said: list[str] = []
    ended = asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if "is gone" in text:
            ended.set()

    async with runner_server(tmp_path) as server:
        gate = gate_of(server.url, server.runners.add("box"), lambda: pytest.fail("no TLS here"))
        env = {"HOME": str(machine.home), "PATH": os.environ["PATH"]}
        workplace = Slow(given_cli=str(machine.cli), env=env)
        folder = machine.state / "relays"
        pace = PACE._replace(first_delay=0.02, local_delay=0.2)
        made = Runner(gate, Door(server.url), folder, workplace, pace, say)
        running = asyncio.create_task(made.run())
        await server.told.becomes("box", "connected")
        starting = asyncio.create_task(server.start("box", machine.work))
        assert await asyncio.to_thread(workplace.entered.wait, DEADLINE)
        await server.close()
        with pytest.raises(SpawnFailed, match="broke meanwhile"):
            await starting
        await server.open()
        await server.told.becomes("box", "connected")
        workplace.go.set()
        async with asyncio.timeout(DEADLINE):
            await ended.wait()
        assert machine.relays() == []
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
