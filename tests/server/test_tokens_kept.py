"""No token is seen where others look: in a command line, an environment, a log or the journal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.requests import SessionOptions, Start
from pilothouse.api.statuses import Status
from pilothouse.doors.tokens import Keyring
from pilothouse.remote import RemoteEngine
from pilothouse.server.engines import KEY_NAME
from pilothouse_sim.clis import SimulatedCLI
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.server.killable import MARK, KillableServer, with_cli
from tests.support.waiting import DEADLINE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@asynccontextmanager
async def runner(server: KillableServer, token: str, cli: SimulatedCLI) -> AsyncIterator[None]:
    """Another machine, which is this one."""
    file = server.folder / "runner-token"
    file.touch(0o600)
    file.write_text(token)
    door = server.address.replace("http", "ws")
    with (server.folder / "stderr-runner").open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pilothouse", "runner", "--connect", door),
            *("--token-file", str(file), "--state", str(server.folder / "state/runner")),
            env={**server.env, **with_cli(cli), MARK: server.mark(0)},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            cwd=server.folder,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def when(engine: RemoteEngine, session_id: str, holds: Callable[[Status], bool]) -> Status:
    told = ""
    try:
        async with asyncio.timeout(DEADLINE):
            while not holds(status := await engine.status(session_id)):
                told = str(status)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(told) from None
    return status


async def start(engine: RemoteEngine, cli: SimulatedCLI, machine: str | None) -> str:
    options = SessionOptions(machine=machine)
    return (await engine.start(Start(prompt="go", cwd=str(cli.cwd), options=options))).session_id


async def connected(engine: RemoteEngine) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            [runner] = await engine.runners()
            if runner.state == "connected":
                return
            await asyncio.sleep(0.02)


async def secrets(
    server: KillableServer, engine: RemoteEngine, runner_token: str
) -> dict[str, bytes]:
    """Whatever opens a door."""
    key = server.folder / "state/pilothouse" / KEY_NAME
    keyring = Keyring.open(key)
    found = {"API": server.token, "runner": runner_token, "key": key.read_bytes().hex()}
    for event in (await engine.read(0, limit=10_000)).events:
        if event.kind == "cli.started":
            run = json.loads(bytes(event.body))["run"]
            # The first part is the run's name, which is no secret.
            found[run] = keyring.issue(event.session_id, run).rpartition(".")[2]
    return {name: each.encode() for name, each in found.items()} | {"raw key": key.read_bytes()}


def seen_by_others() -> dict[str, bytes]:
    """What every process was started with; of this one too."""
    files = [
        Path(f"/proc/{name}/{what}")
        for name in os.listdir("/proc")  # noqa: PTH208
        if name.isdigit()
        for what in ("cmdline", "environ")
    ]
    return dict(read(files))


def written(server: KillableServer) -> dict[str, bytes]:
    """Logs, journals and what relays keep; not the files that are there to hold a token."""
    state = server.folder / "state"
    files = [*server.folder.glob("stderr-*"), *state.glob("**/relays/*/*"), *state.glob("**/*.log")]
    files += state.glob("**/journal.db*")
    return dict(read(each for each in files if each.is_file()))


def read(files: Iterable[Path]) -> Iterable[tuple[str, bytes]]:
    for each in files:
        try:
            yield str(each), each.read_bytes()
        except OSError:
            continue


def check(places: dict[str, bytes], tokens: dict[str, bytes]) -> None:
    told = [
        (name, place) for name, each in tokens.items() for place in places if each in places[place]
    ]
    assert told == []


async def test_no_token_is_told_to_anybody(
    tmp_path: Path, simulated_cli: SimulatedCLIMaker
) -> None:
    cli = simulated_cli(
        reply(tool("Bash", command="touch ahoy", description="greet")), reply("Aye."), strict=False
    )
    server = KillableServer(tmp_path, LOG_LEVEL="debug", **with_cli(cli))
    await server.launch()
    await server.ready()
    engine = RemoteEngine(server.address, server.token, patience=DEADLINE)
    try:
        token = (await engine.add_runner("mate")).token
        async with runner(server, token, cli):
            await connected(engine)
            sessions = [
                (
                    await engine.start(Start(prompt="go", cwd=str(cli.cwd), options=options))
                ).session_id
                for options in (SessionOptions(), SessionOptions(machine="mate"))
            ]
            for each in sessions:
                await when(engine, each, lambda status: bool(status.questions))
            tokens = await secrets(server, engine, token)
            assert len(tokens) == 4 + len(sessions)
            places = seen_by_others()
            # It is looked for where it would be found.
            assert any(sessions[0].encode() in place for place in places.values())
            check(places, tokens)
            check(written(server), tokens)
            await server.kill()
            await server.launch()
            await server.ready()
            for each in sessions:
                status = await when(engine, each, lambda status: bool(status.questions))
                await engine.answer(status.questions[0].id, Allow())
                await when(engine, each, lambda status: status.state == "done")
            check(seen_by_others(), tokens)
            kept = written(server)
            assert any("relay.log" in place for place in kept)
            assert any(
                sessions[0].encode() in each for place, each in kept.items() if "stderr" in place
            )
            check(kept, tokens)
            for each in sessions:
                await engine.stop(each)
            await until(lambda: not server.relays())
            await server.stop_all()
            check(written(server), tokens)
    finally:
        await engine.aclose()
        await server.clean()
        await server.all_gone(range(server.generation + 1))
