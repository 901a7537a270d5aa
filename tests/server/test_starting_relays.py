"""A relay that is just starting when its server is killed is not missed when all are stopped."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pilothouse.api.requests import Start
from pilothouse.errors import ServerError
from pilothouse.relay import launcher, registry
from pilothouse.remote import RemoteEngine
from pilothouse.server import runtime, survivors
from pilothouse.settings import Settings, load
from tests.support.processes import alive, gone
from tests.support.relay.relays import ECHO, python
from tests.support.server.killable import KillableServer

TRIES = 10


class Gate:
    """Holds relays up before they have started anything: they wait for the end of their token."""

    def __init__(self) -> None:
        self._writable: int | None = None

    def token_pipe(self, token: str) -> int:
        readable, self._writable = os.pipe()
        os.write(self._writable, token.encode())
        return readable

    def open(self) -> None:
        if self._writable is not None:
            os.close(self._writable)
            self._writable = None


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = load(env={"HOME": str(tmp_path)})
    runtime.own_folders(settings)
    return settings


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(launcher, "_token_pipe", gate.token_pipe)
    return gate


@pytest.fixture
def pid(settings: Settings, gate: Gate) -> Iterator[int]:
    """A relay that is held up at the gate; killed at the end, which takes its CLI along."""
    pid = launcher.start(
        python(ECHO),
        {"HOME": str(settings.state_dir), "PATH": os.environ["PATH"]},
        settings.state_dir,
        connect=f"unix:{settings.state_dir}/nobody",
        session_id="a-session",
        run="a-run",
        token="a-token",
        spool=settings.state_dir / "relays/a-run",
        last_will=600.0,
    )
    started = registry.started_at(pid)
    yield pid
    if started is not None and registry.started_at(pid) == started:
        os.kill(pid, signal.SIGKILL)
    gate.open()


def at_first_wait(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Have this done when it is waited for the first time."""
    sleep = time.sleep

    def wait(seconds: float) -> None:
        do()
        sleep(seconds)

    monkeypatch.setattr(survivors.time, "sleep", wait)


async def test_a_relay_that_is_still_starting_is_waited_for_and_ended(
    settings: Settings, gate: Gate, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_first_wait(monkeypatch, gate.open)
    assert await asyncio.to_thread(survivors.end, settings) == {"a-session"}
    assert registry.started_at(pid) is None
    assert list((settings.state_dir / "relays").glob("*/relay.json")) == []


async def test_a_relay_that_dies_while_it_starts_is_not_waited_for(
    settings: Settings, pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_first_wait(monkeypatch, lambda: os.kill(pid, signal.SIGKILL) if alive(pid) else None)
    assert await asyncio.to_thread(survivors.end, settings) == set()
    await gone(pid)


@pytest.mark.usefixtures("pid")
async def test_a_relay_that_never_comes_up_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "ENDS_WITHIN", 0.1)
    with pytest.raises(ServerError, match=r"not come up within 0.1 s: .*/relays/a-run"):
        await asyncio.to_thread(survivors.end, settings)


def test_a_start_that_never_came_to_a_relay_is_not_waited_for(settings: Settings) -> None:
    folder = settings.state_dir / "relays/a-run"
    folder.mkdir(parents=True)
    (folder / registry.LOG_NAME).touch()
    assert survivors.end(settings) == set()


# With a server


@pytest.mark.slow
async def test_stop_all_after_a_kill_leaves_nothing_whenever_it_comes(tmp_path: Path) -> None:
    seed = int(os.environ.get("PILOTHOUSE_SEED") or random.randrange(2**32))
    print(f"PILOTHOUSE_SEED={seed}")  # noqa: T201 - told with a failure
    moments = random.Random(seed)
    server = KillableServer(tmp_path)
    try:
        for _ in range(TRIES):
            await server.launch()
            await server.ready()
            await strike_in_a_start(server, moments.uniform(0, 0.6))
            await server.stop_all()
            assert server.living(server.generation) == set()
    finally:
        await server.clean()


async def strike_in_a_start(server: KillableServer, moment: float) -> None:
    """Kill the server while three sessions are being started."""
    engine = RemoteEngine(server.address, server.token)
    try:
        request = Start(prompt="go", cwd=str(server.folder))
        begun = [asyncio.create_task(engine.start(request)) for _ in range(3)]
        # Nothing tells of the moments in between, and they are what is tried.
        await asyncio.sleep(moment)
        await server.kill()
        for each in begun:
            each.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
    finally:
        await engine.aclose()
