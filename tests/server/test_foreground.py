"""A server's life, in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import InvalidStatus

from pilothouse.server.background import connect
from pilothouse.server.foreground import import_app
from tests.support.certificates import certificate
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

ROOT = Path(__file__).resolve().parents[2]


def client(machine: Machine) -> httpx.AsyncClient:
    running = machine.found()
    assert running is not None
    headers = {"Authorization": f"Bearer {running.token}"}
    return httpx.AsyncClient(
        base_url=running.address, headers=headers, timeout=DEADLINE, trust_env=False
    )


async def websocket(address: str, path: str, headers: dict[str, str]) -> ClientConnection:
    """Open a WebSocket; a Host of one's own takes the place of the address's."""
    url = urlsplit(address)
    host = headers.get("Host", url.netloc)
    rest = {name: value for name, value in headers.items() if name != "Host"}
    return await connect_websocket(
        f"ws://{host}{path}",
        host=url.hostname,
        port=url.port,
        additional_headers=rest,
        proxy=None,
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def settled(http: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """The session's status once its turn has ended; looked at whenever something happens."""
    async with (
        asyncio.timeout(DEADLINE),
        http.stream("GET", "/api/events/stream?after=0") as events,
    ):
        assert events.status_code == 200, await events.aread()
        async for _ in events.aiter_raw():
            status = (await http.get(path)).json()
            if status["state"] != "active":
                return status
    raise AssertionError("the events ended")


def test_what_was_imported_is_not_looked_through_for_garbage_again_and_again() -> None:
    try:
        import_app()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()


async def test_it_serves_on_loopback_and_leaves_where_for_its_user_alone(machine: Machine) -> None:
    serving = await machine.serve()
    assert urlsplit(serving.address).hostname == "127.0.0.1"
    file = machine.runtime_file
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert machine.settings.state_dir.stat().st_mode & 0o777 == 0o700
    running = machine.found()
    assert running is not None
    assert running.address == serving.address
    assert running.pid == serving.pid
    assert running.token == (machine.settings.state_dir / "token").read_text().strip()
    async with httpx.AsyncClient(base_url=serving.address, trust_env=False) as stranger:
        assert (await stranger.get("/api/sessions")).status_code == 401


@pytest.mark.parametrize("path", ["/relay/x", "/runner", "/ws/x", "/session/x/events"])
async def test_the_doors_are_for_whoever_calls_the_server_by_its_name(
    machine: Machine, path: str
) -> None:
    serving = await machine.serve()
    async with httpx.AsyncClient(base_url=serving.address, trust_env=False) as stranger:
        for foreign, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://x"}, 403)):
            told = (await stranger.post(path, headers=foreign)).json()
            assert told["status"] == status
            with pytest.raises(InvalidStatus) as refused:
                await websocket(serving.address, path, foreign)
            assert refused.value.response.status_code == status
        with pytest.raises(InvalidStatus) as refused:
            await websocket(serving.address, path, {})
    assert refused.value.response.status_code in (401, 403, 404)


async def test_without_a_cli_it_says_so_in_one_line_and_simulates(machine: Machine) -> None:
    serving = await machine.serve()
    (note,) = [line for line in serving.told if "simulator" in line]
    assert "sessions run on the simulator: " in note
    told = machine.health()
    assert told is not None
    assert told["simulated"] is True
    async with client(machine) as http:
        request = {"prompt": "Hello?", "cwd": str(machine.folder)}
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        path = f"/api/sessions/{started['session_id']}"
        status = await settled(http, path)
        (await http.post(f"{path}/stop")).raise_for_status()
    assert status["state"] == "done", status
    assert "I am the simulator of Pilothouse" in status["result"]
    assert not (machine.folder / "home/.claude").exists()


async def test_a_simulated_session_says_so_and_leaves_the_users_folders_alone(
    machine: Machine,
) -> None:
    project = machine.folder / "project"
    project.mkdir()
    await machine.serve()
    request = {
        "prompt": "Write a file.",
        "cwd": str(project),
        "options": {"mode": "acceptEdits"},
    }
    async with client(machine) as http:
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        status = await settled(http, f"/api/sessions/{started['session_id']}")
        listed = (await http.get("/api/sessions", params={"cwd": str(project)})).json()
        events = (await http.get("/api/events")).json()["events"]
    assert (started["simulated"], status["simulated"]) == (True, True)
    assert [each["simulated"] for each in listed["sessions"]] == [True]
    assert [each["body"].get("simulated") for each in events if each["kind"] in FIRST] == [True] * 2
    assert (status["cwd"], status["scratch"]) == (str(project), started["scratch"])
    assert names_in(status["scratch"]) == ["hello.txt"]
    assert status["scratch"].startswith(str(machine.settings.state_dir / "simulated"))
    assert names_in(project) == []
    assert not (machine.folder / "home/.claude").exists()


FIRST = ("session.started", "cli.started")


def names_in(folder: str | Path) -> list[str]:
    return sorted(each.name for each in Path(folder).iterdir())


async def test_a_caller_can_have_the_simulator_work_in_its_own_directory(machine: Machine) -> None:
    project = machine.folder / "project"
    project.mkdir()
    await machine.serve()
    options = {"mode": "acceptEdits", "simulate_in_cwd": True}
    request = {"prompt": "Write a file.", "cwd": str(project), "options": options}
    async with client(machine) as http:
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        status = await settled(http, f"/api/sessions/{started['session_id']}")
    assert status["scratch"] is None
    assert (project / "hello.txt").exists()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_in_order(machine: Machine, sent: signal.Signals) -> None:
    serving = await machine.serve()
    assert await serving.end(sent) == 0
    assert not machine.runtime_file.exists()
    assert machine.found() is None
    lines = [json.loads(line) for line in serving.errors.splitlines()]
    assert lines[-1]["message"] == "ended"
    assert {line["level"] for line in lines} == {"info"}


async def test_a_signal_ends_it_although_somebody_watches(machine: Machine) -> None:
    serving = await machine.serve()
    async with client(machine) as http, http.stream("GET", "/api/events/stream") as events:
        assert events.status_code == 200
        assert await serving.end() == 0
        async for _ in events.aiter_raw():
            pass
    assert "timeout" not in serving.errors


async def test_without_relays_its_clis_end_with_it(machine: Machine) -> None:
    machine.env["PILOTHOUSE_RELAYS"] = "false"
    serving = await machine.serve()
    async with client(machine) as http:
        request = {"prompt": "Write a file.", "cwd": str(machine.folder)}
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        asking = await settled(http, f"/api/sessions/{started['session_id']}")
    assert await serving.end() == 0
    assert not is_alive(asking["pid"])


async def test_a_server_whose_output_nobody_reads_serves_on(machine: Machine) -> None:
    command = f"{sys.executable} -m pilothouse serve | head -n 2"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", command),
        env=machine.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(DEADLINE):
        assert process.stdout is not None
        assert b"simulator" in await process.stdout.readline()
        assert b"serving at" in await process.stdout.readline()
        assert machine.health() is not None
        assert (await machine.run("stop")).code == 0
        await process.communicate()


async def test_a_second_one_names_the_first_and_the_next_step(machine: Machine) -> None:
    serving = await machine.serve()
    second = await machine.run("serve")
    assert second.code == 75
    assert second.err == (
        f"pilothouse: a server is running already at {serving.address} (pid {serving.pid}); "
        "use it, or end it: pilothouse stop\n"
    )
    running = machine.found()
    assert running is not None
    assert running.pid == serving.pid


async def test_a_port_in_use_is_said_in_one_line(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = await machine.run("serve", "--port", str(port))
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert f"port {port} on 127.0.0.1 is used by another program; choose another" in refused.err
    assert not machine.runtime_file.exists()


async def test_another_host_needs_tls_or_the_word(machine: Machine) -> None:
    refused = await machine.run("serve", "--host", "0.0.0.0")
    assert refused.code == 1
    assert "--insecure" in refused.err
    await machine.serve("--host", "0.0.0.0", "--insecure")
    assert machine.health() is not None


async def test_a_killed_one_leaves_a_file_that_the_next_start_copes_with(machine: Machine) -> None:
    first = await machine.serve()
    token = machine.found()
    assert token is not None
    async with client(machine) as http:
        # With a CLI alive, which has inherited no lock.
        request = {"prompt": "Write a file.", "cwd": str(machine.folder)}
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        path = f"/api/sessions/{started['session_id']}"
        await settled(http, path)
    assert await first.end(signal.SIGKILL) == -signal.SIGKILL
    assert machine.runtime_file.exists()
    assert machine.found() is None
    assert (await machine.run("status")).out.startswith("no server is running")
    second = await machine.serve()
    running = machine.found()
    assert running is not None
    assert running.pid == second.pid != first.pid
    assert running.token == token.token
    async with client(machine) as http:
        (await http.post(f"{path}/stop")).raise_for_status()


async def test_a_wrong_setting_is_said_in_one_line(machine: Machine) -> None:
    refused = await machine.run("serve", "--port", "x")
    assert refused.code == 1
    assert refused.err == "pilothouse: port is 'x' (--port); allowed: 0 to 65535\n"


async def test_a_folder_open_to_others_is_refused(machine: Machine) -> None:
    state = machine.settings.state_dir
    state.mkdir(parents=True, mode=0o755)
    refused = await machine.run("serve")
    assert refused.code == 1
    assert f"chmod 700 {state}" in refused.err


async def test_the_status_tells_of_the_server_and_stop_ends_it(machine: Machine) -> None:
    serving = await machine.serve()
    status = await machine.run("status")
    assert status.code == 0
    assert f"serving at {serving.address} (pid {serving.pid}" in status.out
    assert "sessions: 0 live of 0; open questions: 0" in status.out
    assert "simulator" in status.out
    stopped = await machine.run("stop")
    assert (stopped.code, stopped.out) == (0, f"the server at {serving.address} has ended\n")
    assert await serving.ended() == 0
    assert (await machine.run("status")).code == 1
    assert (await machine.run("stop")).out == "no server is running\n"


async def test_the_token_is_in_no_log_and_on_no_screen(machine: Machine) -> None:
    serving = await machine.serve("--log-level", "debug")
    running = machine.found()
    assert running is not None
    async with client(machine) as http:
        await http.get("/api/sessions")
        await http.get(f"/no/such/place?token={running.token}")
    await serving.end()
    assert running.token not in serving.errors + "".join(serving.told)


def write_policy(machine: Machine, text: str) -> Path:
    path = machine.settings.policy_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


WRONG_POLICY = "[[rule]]\naction = 'maybe'\n"


async def test_a_policy_that_cannot_be_used_stops_the_start_with_its_file_and_line(
    machine: Machine,
) -> None:
    path = write_policy(machine, WRONG_POLICY)
    for words in (["serve"], ["serve", "--simulate", "always"]):
        ran = await machine.run(*words)
        assert ran.code == 1
        assert f"pilothouse: {path}:2: " in ran.err
        assert "`pilothouse policy check`" in ran.err
    path.unlink()
    machine.env["PILOTHOUSE_POLICY_FILE"] = str(path)
    ran = await machine.run("serve")
    assert (ran.code, f"{path}: cannot be read: No such file" in ran.err) == (1, True)


async def test_a_policy_that_breaks_while_it_runs_is_told_by_log_status_and_health(
    machine: Machine,
) -> None:
    path = write_policy(machine, "[[rule]]\ntool = 'Read'\naction = 'allow'\n")
    serving = await machine.serve()
    path.write_text(WRONG_POLICY)
    told = machine.health()
    assert told is not None
    assert told["ok"] is True
    assert told["policy_error"].startswith(f"{path}:2: ")
    assert told["policy_error"].endswith("(its last good rules stay in force)")
    ran = await machine.run("status")
    assert f"PROBLEM policy: {told['policy_error']}" in ran.out.splitlines()
    assert f"the policy cannot be used: {path}:2: " in serving.errors
    async with client(machine) as http:
        assert (await http.get("/api/policy")).json()["rules"] == 1


async def test_it_ends_itself_when_nobody_needs_it(machine: Machine) -> None:
    serving = await machine.serve("--idle-exit", "0.3")
    assert await serving.ended() == 0
    assert not machine.runtime_file.exists()


async def test_with_a_certificate_it_serves_https_beyond_loopback(
    machine: Machine, tmp_path: Path
) -> None:
    machine.env["PILOTHOUSE_TLS_CERT"] = str(certificate(tmp_path))
    serving = await machine.serve("--host", "0.0.0.0")
    assert serving.address.startswith("https://127.0.0.1:")
    assert machine.health() is not None
    engine = await connect(machine.settings, env=machine.env)
    assert (await engine.health()).ok
    await engine.aclose()
    (tmp_path / "other").mkdir()
    machine.env["PILOTHOUSE_TLS_CERT"] = str(certificate(tmp_path / "other"))
    assert machine.health() is None


async def test_the_start_script_shows_the_machine_and_then_serves(
    machine: Machine, tmp_path: Path
) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    shutil.copy(ROOT / "scripts/start", folder)
    # What it sources would install the dependencies.
    (folder / "_env.sh").write_text(
        f"PY={sys.executable}\nVENV=/v\nSCRIPT=scripts/start\n"
        "need() { :; }\nwrite_commands() { :; }\nbuild_console() { exit 1; }\n"
    )
    serving = await machine.start(str(folder / "start"))
    told = "".join(serving.told[:-1])
    assert "PROBLEM credential" in told
    assert 'the command is /v/bin/pilothouse; in another terminal: PATH="$PATH:/v/bin"' in told
    assert machine.health() is not None
    assert "scripts/start: there will be no console" in serving.errors
    first_request, *_ = await serving.rest()
    assert first_request.startswith("try: curl ")
    assert str(machine.settings.state_dir / "token") in first_request


async def test_a_server_that_cannot_say_where_it_is_ends_with_one_line(machine: Machine) -> None:
    machine.runtime_file.parent.mkdir(parents=True, mode=0o700)
    machine.settings.state_dir.chmod(0o700)
    # As it would be on a disk that filled up after the lock was taken.
    sitecustomize = machine.folder / "sitecustomize.py"
    sitecustomize.write_text(
        "from pathlib import Path\n"
        "def refuse(self, target):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "Path.replace = refuse\n"
    )
    token = machine.settings.state_dir / "token"
    token.touch(0o600)
    token.write_text("a-token-of-some-length")
    machine.env["PYTHONPATH"] = str(machine.folder)
    ran = await machine.run("serve", "--simulate", "always")
    assert ran.code == 1
    last = ran.err.splitlines()[-1]
    assert last.startswith(f"pilothouse: {machine.runtime_file} cannot be used: No space left")
    assert "Traceback" not in ran.err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
async def test_a_server_that_can_keep_nothing_ends_and_says_what_to_do(machine: Machine) -> None:
    serving = await machine.serve()
    async with client(machine) as http:
        request = {"prompt": "Write a file.", "cwd": str(machine.folder)}
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        path = f"/api/sessions/{started['session_id']}"
        asking = await settled(http, path)
        fill_disk(machine, serving.pid)
        refused = await http.post(f"{path}/messages", json={"content": "x" * 1_000_000})
        assert (refused.status_code, refused.json()["code"]) == (503, "journal-error")
    assert await serving.ended() == 1
    assert serving.errors.splitlines()[-1].startswith("pilothouse: the journal ")
    assert serving.errors.endswith("; see to its disk, then start the server again\n")
    assert "Traceback" not in serving.errors
    assert not machine.runtime_file.exists()
    assert is_alive(asking["pid"])
    await machine.serve()
    async with client(machine) as http:
        status = (await http.get(path)).json()
        assert (status["state"], status["pid"]) == ("awaiting_input", asking["pid"])
        (await http.post(f"{path}/stop")).raise_for_status()


def fill_disk(machine: Machine, pid: int) -> None:
    """No file of the server's may grow beyond the largest one that its journal has."""
    files = machine.settings.state_dir.rglob("journal.db*")
    limit = max(file.stat().st_size for file in files)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))


async def test_all_it_makes_is_for_its_user_alone_whatever_the_umask(machine: Machine) -> None:
    before = os.umask(0)
    try:
        await machine.serve()
    finally:
        os.umask(before)
    async with client(machine) as http:
        work = machine.folder / "work"
        work.mkdir()
        request = {"prompt": "Write a file.", "cwd": str(work)}
        started = (await http.post("/api/sessions", json=request)).raise_for_status().json()
        path = f"/api/sessions/{started['session_id']}"
        await settled(http, path)
        (await http.get("/api/sessions")).raise_for_status()
        made = {each: each.lstat().st_mode for each in (machine.folder / "home").rglob("*")}
        (await http.post(f"{path}/stop")).raise_for_status()
    names = {each.name for each in made}
    assert {"journal.db", "relays", "relay.json", "token", "server.lock", ".pilothouse"} <= names
    assert {str(each): oct(mode) for each, mode in made.items() if mode & 0o077} == {}
