"""Sessions go on behind their relays when the server ends, and are told, found and ended."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pilothouse.api.requests import Start
from pilothouse.cli import main
from pilothouse.relay import registry
from pilothouse.server import runtime, survivors
from pilothouse.server.background import connect
from pilothouse.settings import load
from tests.support.places import PROGRAMS
from tests.support.processes import gone
from tests.support.programs.stand_in_server import TOKEN
from tests.support.relay.door import SESSION
from tests.support.relay.relays import ECHO, python, relay
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

Stand = Callable[..., str]
Pretend = Callable[..., subprocess.Popen[bytes]]

WAITS = "import time; print('ready', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
ADVICE = "start the server again to steer {0}, or end {0}: pilothouse stop --all"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The state folder of a user of whom nothing else is known."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    state, _ = runtime.own_folders(load(env=os.environ))
    return state


@pytest.fixture
def pretend(state: Path) -> Iterator[Pretend]:
    """Processes that the registry has as relays; they end by SIGTERM, without any order."""
    processes: list[subprocess.Popen[bytes]] = []

    def pretend(
        session: str,
        folder: str = "relays",
        *,
        source: str = WAITS,
        words: Sequence[str] = (),
        started: int | None = None,
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", source, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        moment = registry.started_at(process.pid) if started is None else started
        assert moment is not None
        run = state / folder / f"run-{len(processes)}"
        run.mkdir(parents=True)
        found = registry.RunningRelay(session, run.name, process.pid, moment, None, None)
        registry.record(run, found)
        return process

    yield pretend
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def stand(state: Path, tmp_path: Path) -> Iterator[Stand]:
    """Starts what stands in for a server; returns its address."""
    started: list[subprocess.Popen[str]] = []

    def stand(routes: dict[str, object], token: str = TOKEN) -> str:
        folder = load(env=os.environ).runtime_dir
        script = str(PROGRAMS / "stand_in_server.py")
        process = subprocess.Popen(
            [sys.executable, script, str(folder), str(tmp_path / "asked"), json.dumps(routes)],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "TOLD": token},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        running = runtime.find(folder)
        assert running is not None
        return running.address

    yield stand
    for process in started:
        process.kill()
        process.communicate()


def told(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(words) == code
    return capsys.readouterr().out.strip()


# Without a server


def test_status_and_a_plain_stop_tell_what_goes_on(
    pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    first = pretend("one")
    text = f"1 session goes on behind its relay: {ADVICE.format('it')}"
    assert told(["status"], capsys, 1).splitlines()[1] == text
    assert told(["stop"], capsys) == f"no server is running; {text}"
    pretend("two", "simulated/relays")
    text = f"2 sessions go on behind their relays: {ADVICE.format('them')}"
    assert told(["stop"], capsys) == f"no server is running; {text}"
    assert first.poll() is None


def test_a_session_of_two_runs_is_one(pretend: Pretend, capsys: pytest.CaptureFixture[str]) -> None:
    pretend("one")
    pretend("one")
    assert "1 session goes on" in told(["stop"], capsys)


def test_stop_all_ends_every_relay(pretend: Pretend, capsys: pytest.CaptureFixture[str]) -> None:
    relays = [pretend("one"), pretend("two", "simulated/relays")]
    text = "no server is running; 2 sessions without a server ended in order"
    assert told(["stop", "--all"], capsys) == text
    assert all(each.wait(20) < 0 for each in relays)
    assert told(["stop", "--all"], capsys) == "no server is running"


def test_stop_all_says_before_it_waits_what_it_waits_for(
    pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend("one")
    assert main(["stop", "--all"]) == 0
    said = capsys.readouterr().err
    assert said == "closing 1 session; a CLI at work may take up to a minute\n"
    assert main(["stop", "--all"]) == 0
    assert capsys.readouterr().err == ""


async def test_stop_all_has_a_relay_end_its_cli_in_order(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = state / "relays"
    folder.mkdir()
    pace = {"interrupt": 0.1, "farewell": 0.1}
    async with relay(f"unix:{state / 'nobody'}", folder, python(ECHO), pace=pace) as running:
        async with asyncio.timeout(DEADLINE):
            while (found := registry.alive(running.spool)) is None:  # noqa: ASYNC110 - not ours
                await asyncio.sleep(0.01)
        assert found.session_id == SESSION
        assert await asyncio.to_thread(main, ["stop", "--all"]) == 0
        assert found.cli_pid is not None
        await gone(found.cli_pid)
        assert await running.result() == 1
        assert "told to end: ending the CLI in order" in running.said()
        assert "the CLI ended: code 0" in running.said()
        assert not (running.spool / registry.NAME).exists()
    assert "1 session without a server ended in order" in capsys.readouterr().out


def test_another_process_with_a_relays_number_is_left_alone(
    pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    process = pretend("one", started=1)
    assert told(["stop", "--all"], capsys) == "no server is running"
    assert process.poll() is None


def test_where_no_start_is_told_the_command_tells_which_process_is_the_relay(
    pretend: Pretend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = pretend("one", started=0)
    ours = pretend("two", started=0, words=("--run", "run-2"))
    # Nothing but its number is looked at there, which it has until it is reaped.
    reaping = threading.Thread(target=ours.wait)
    reaping.start()
    monkeypatch.setattr(sys, "platform", "darwin")
    text = "no server is running; 1 session without a server ended in order"
    assert told(["stop", "--all"], capsys) == text
    reaping.join(20)
    assert ours.returncode < 0
    assert foreign.poll() is None


def test_a_registry_that_others_could_write_to_ends_nothing(
    pretend: Pretend, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = pretend("one")
    state.chmod(0o777)
    assert main(["stop", "--all"]) == 1
    assert f"chmod 700 {state}" in capsys.readouterr().err
    assert process.poll() is None


def test_a_relay_that_does_not_end_is_named(
    pretend: Pretend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "ENDS_WITHIN", 0.1)
    process = pretend("one", source=DEAF)
    assert main(["stop", "--all"]) == 1
    assert f"end them now: kill -9 {process.pid}\n" in capsys.readouterr().err
    assert process.poll() is None


# With one


def runner(state: str, *sessions: str) -> dict[str, object]:
    return {"name": "x", "state": state, "since": 1, "sessions": sessions}


def test_the_status_tells_how_many_are_behind_relays(
    stand: Stand, pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    stand({"GET /healthz": {"live": 2, "sessions": 5, "questions": 0}})
    pretend("one")
    pretend("two")
    lines = told(["status"], capsys).splitlines()
    assert lines[1:] == [
        "sessions: 2 live of 5; open questions: 0",
        "2 sessions behind relays on this machine",
    ]


def test_a_plain_stop_counts_those_of_other_machines_and_ends_none(
    stand: Stand, pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    runners = [runner("connected", "a"), runner("draining", "b"), runner("lost", "c")]
    address = stand({"GET /api/runners": runners})
    process = pretend("one")
    text = f"3 sessions go on behind their relays: {ADVICE.format('them')}"
    assert told(["stop"], capsys) == f"the server at {address} has ended; {text}"
    assert process.poll() is None


def test_a_server_that_knows_of_no_other_machines_is_stopped_as_well(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    address = stand({})
    assert told(["stop"], capsys) == f"the server at {address} has ended"


def test_stop_all_has_the_server_close_its_sessions_before_it_ends(
    stand: Stand, pretend: Pretend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = stand({"POST /api/sessions/stop": {"sessions": ["one", "two"]}})
    # The relay of one that was closed may take a moment to leave; the other is the simulator's.
    pretend("two")
    other = pretend("three", "simulated/relays")
    done = f"2 sessions closed in order; the server at {address} has ended"
    text = f"{done}; 1 session without a server ended in order"
    assert told(["stop", "--all"], capsys) == text
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [f"POST /api/sessions/stop Bearer {TOKEN}", "told to end"]
    assert other.wait(20) < 0


def test_stop_all_ends_relays_whose_server_cannot(
    stand: Stand, pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    address = stand({})
    process = pretend("one")
    text = f"the server at {address} has ended; 1 session without a server ended in order"
    assert told(["stop", "--all"], capsys) == text
    assert process.wait(20) < 0


@pytest.mark.parametrize("words", [["stop"], ["stop", "--all"]])
def test_what_answers_in_the_place_of_the_server_is_told_and_gets_no_token(
    words: list[str], stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "the-token-of-quite-another-server"
    address = stand({"GET /healthz": {}, "GET /api/runners": []}, other)
    assert main(["status"]) == 1
    place = address.removeprefix("http://")
    assert f"what answers at {place} is not the server of this token" in capsys.readouterr().err
    text = told(words, capsys)
    assert text.startswith(f"the server at {address} has ended; what answers at {place}")
    assert text.endswith("the token was not sent")
    assert (tmp_path / "asked").read_text() == "told to end\n"


async def begin(machine: Machine) -> None:
    engine = await connect(machine.settings, env=machine.env)
    try:
        await engine.start(Start(prompt="Hello.", cwd=str(machine.folder)))
    finally:
        await engine.aclose()


async def test_sessions_go_on_from_one_server_to_the_next_until_all_are_stopped(
    machine: Machine,
) -> None:
    first = await machine.serve()
    try:
        await begin(machine)
        stopped = await machine.run("stop")
        text = f"1 session goes on behind its relay: {ADVICE.format('it')}\n"
        assert stopped.out == f"the server at {first.address} has ended; {text}"
        second = await machine.serve()
        assert "1 session behind relays" in (await machine.run("status")).out
        stopped = await machine.run("stop", "--all")
        done = "1 session closed in order"
        assert stopped.out == f"{done}; the server at {second.address} has ended\n"
    finally:
        left = await asyncio.to_thread(survivors.end, machine.settings)
    assert left == set()


async def test_a_server_lets_runners_in_and_out(machine: Machine) -> None:
    await machine.serve()
    assert "runner --connect ws://" in (await machine.run("runners", "add", "attic")).out
    token = (machine.folder / "attic.token").read_text().strip()
    again = await machine.run("runners", "add", "--token-file", "other", "attic")
    assert (again.code, (machine.folder / "other").exists()) == (1, False)
    listed = await machine.run("runners")
    assert listed.out.splitlines()[1].split()[:2] == ["attic", "away"]
    assert "attic takes no new sessions" in (await machine.run("runners", "drain", "attic")).out
    assert "attic is let in no more" in (await machine.run("runners", "revoke", "attic")).out
    assert "attic" not in (await machine.run("runners")).out
    [file] = machine.settings.state_dir.rglob("runners.json")
    assert token not in file.read_text()
