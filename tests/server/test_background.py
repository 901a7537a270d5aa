"""The server that faces find, or start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.api.requests import Start
from pilothouse.errors import ServerError
from pilothouse.server import background, logs, runtime
from pilothouse.server.background import connect, find_or_start
from pilothouse.server.listen_address import address_of, bind
from pilothouse.server.runtime import Lock, Running
from pilothouse.server.status import report
from pilothouse.settings import load
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

FACE = """
import asyncio, os
from pilothouse.server.background import find_or_start
from pilothouse.settings import load
print(*asyncio.run(find_or_start(load(env=os.environ))))
"""


async def face(machine: Machine) -> str:
    """A program that needs a server, in a process of its own; what it found."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FACE),
        env=machine.env,
        stdout=asyncio.subprocess.PIPE,
        cwd=machine.folder,
    )
    async with asyncio.timeout(2 * DEADLINE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().strip()


def standard_files(pid: int) -> set[str]:
    return {str(link.resolve()) for link in Path(f"/proc/{pid}/fd").glob("[012]")}


async def test_a_running_server_is_used(machine: Machine) -> None:
    serving = await machine.serve()
    found = await find_or_start(machine.settings, env=machine.env)
    assert found.address == serving.address
    assert found.token == (machine.settings.state_dir / "token").read_text().strip()


async def test_ten_faces_at_once_start_one_server(machine: Machine) -> None:
    found = await asyncio.gather(
        *(find_or_start(machine.settings, env=machine.env) for _ in range(8)),
        face(machine),
        face(machine),
    )
    running = machine.found()
    assert running is not None
    assert {tuple(each) for each in found[:8]} == {(running.address, running.token)}
    assert set(found[8:]) == {f"{running.address} {running.token}"}
    log = (machine.settings.state_dir / background.LOG_NAME).read_text()
    assert log.count("serving at ") == 1
    assert "running already" not in log


async def test_it_outlives_the_face_that_started_it_and_has_nothing_of_its(
    machine: Machine,
) -> None:
    await face(machine)
    running = machine.found()
    assert running is not None
    assert machine.health() is not None
    assert os.getsid(running.pid) == running.pid
    log = machine.settings.state_dir / background.LOG_NAME
    assert standard_files(running.pid) == {"/dev/null", str(log)}
    assert log.stat().st_mode & 0o777 == 0o600


async def test_its_log_is_begun_again_while_it_runs_when_it_has_grown_long(
    machine: Machine,
) -> None:
    await face(machine)
    log = machine.settings.state_dir / background.LOG_NAME
    os.truncate(log, logs.LONGEST_LOG)
    assert (await machine.run("stop")).code == 0
    await machine.wait_free()
    aside = log.with_suffix(".log.1")
    assert "serving at " in aside.read_text()
    assert log.stat().st_size < logs.LONGEST_LOG
    assert json.loads(log.read_text().splitlines()[-1])["message"] == "ended"
    assert {each.stat().st_mode & 0o777 for each in (log, aside)} == {0o600}


async def test_it_ends_itself_when_it_was_idle(machine: Machine) -> None:
    machine.env["PILOTHOUSE_SERVER_IDLE_S"] = "0.5"
    await find_or_start(machine.settings, env=machine.env)
    await machine.wait_free()
    assert not machine.runtime_file.exists()


async def test_it_gets_the_settings_of_the_face(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text("max_sessions = 3\nallowed_roots = ['work']\n")
    settings = load(env=machine.env, file=config)
    engine = await connect(settings, env=machine.env)
    try:
        told = str(await engine.settings())
    finally:
        await engine.aclose()
    assert str(tmp_path / "work") in told


async def test_one_that_dies_is_reported_with_its_last_words(machine: Machine) -> None:
    machine.env["CLAUDE_CODE_PATH"] = "/nowhere/no-claude"
    with pytest.raises(ServerError, match=r"the server did not start: .*no-claude"):
        await find_or_start(machine.settings, env=machine.env)


async def test_a_killed_server_is_replaced(machine: Machine) -> None:
    first = await machine.serve()
    await first.end(signal.SIGKILL)
    found = await find_or_start(machine.settings, env=machine.env)
    running = machine.found()
    assert running is not None
    assert running.pid != first.pid
    assert found.address == running.address


async def test_a_face_of_its_own_needs_no_server_and_keeps_nothing(machine: Machine) -> None:
    engine = await connect(machine.settings, standalone=True, env=machine.env)
    try:
        started = await engine.start(Start(prompt="Hello?", cwd=str(machine.folder)))
        assert (await engine.status(started.session_id)).simulated
    finally:
        await engine.aclose()
    assert machine.found() is None
    assert list(machine.settings.state_dir.rglob("journal*")) == []


@pytest.fixture
def silent_server(machine: Machine) -> Iterator[Running]:
    """One that has the lock and does not answer: this very process."""
    _, folder = runtime.own_folders(machine.settings)
    lock = Lock(folder / runtime.LOCK_NAME)
    assert lock.acquire()
    with bind("127.0.0.1", 0) as closed:
        address = address_of(closed, tls=False)
    running = Running(
        address=address, token="a-token-of-some-length", pid=os.getpid(), version="", started_at=0
    )
    runtime.publish(folder, running)
    yield running
    runtime.forget(folder)
    lock.release()


async def test_one_that_does_not_answer_is_named_with_the_next_step(
    machine: Machine, silent_server: Running
) -> None:
    told = f"the server at {silent_server.address} (pid {os.getpid()}) does not answer"
    with pytest.raises(ServerError) as refused:
        await find_or_start(machine.settings, env=machine.env, within=0.2)
    assert str(refused.value) == f"{told}; end it: pilothouse stop"
    lines, answers = report(machine.settings)
    assert (lines, answers) == ([f"{told}; end it: pilothouse stop"], False)


async def test_a_log_that_cannot_be_written_is_one_line(machine: Machine) -> None:
    runtime.own_folders(machine.settings)
    (machine.settings.state_dir / background.LOG_NAME).mkdir()
    with pytest.raises(ServerError, match=r"server\.log cannot be used: Is a directory"):
        await find_or_start(machine.settings, env=machine.env)
