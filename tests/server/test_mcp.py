"""MCP clients of a process of their own, and of the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from pilothouse.api.statuses import Listing
from pilothouse.errors import ServerError
from pilothouse.server import mcp as ways_in
from pilothouse.server.attendance import Attendance
from pilothouse.server.mcp import McpOverHttp
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, make_app, served
from tests.support.mcp.bare import INITIALIZE, INITIALIZED, LIST
from tests.support.ports import free_port
from tests.support.processes import gone
from tests.support.server.machine import Machine
from tests.support.strangers import Stranger, listening
from tests.support.waiting import DEADLINE

MB = 1_000_000


class Face:
    """`pilothouse mcp` in a process of its own, and its client's ends of the pipes."""

    def __init__(self, process: asyncio.subprocess.Process, stderr: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr = stderr
        self.pid = process.pid

    @property
    def errors(self) -> str:
        return self._stderr.read_text()

    async def send(self, *messages: Any) -> None:
        for each in messages:
            line = each if isinstance(each, bytes) else json.dumps(each).encode()
            self._stdin.write(line + b"\n")
            await self._stdin.drain()

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE):
            line = await self._stdout.readuntil(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def ask(self, message: Any) -> dict[str, Any]:
        await self.send(message)
        return await self.receive()

    async def shake_hands(self) -> None:
        assert "result" in await self.ask(INITIALIZE)
        await self.send(INITIALIZED)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool says; an error of it is an error here."""
        result = (await self.ask(call(tool, **arguments)))["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def hang_up(self) -> None:
        self._stdin.close()

    async def ended(self) -> int:
        """Its exit code; what it said last must be JSON-RPC as well."""
        async with asyncio.timeout(DEADLINE):
            rest = await self._stdout.read()
            code = await self._process.wait()
        for line in rest.splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
        return code


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params}


Faces = Callable[..., Awaitable[Face]]


@pytest.fixture
async def face(machine: Machine) -> AsyncIterator[Faces]:
    """`await face(*flags)`: one that has been started, on the simulator."""
    machine.env["PILOTHOUSE_SIMULATE"] = "always"
    made: list[Face] = []

    async def start(*flags: str) -> Face:
        stderr = machine.folder / f"mcp-{len(made)}"
        with stderr.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pilothouse", "mcp", *flags),
                env=machine.env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                cwd=machine.folder,
                limit=64 * MB,
            )
        made.append(Face(process, stderr))
        return made[-1]

    yield start
    for each in made:
        each.hang_up()
        each.send_signal(signal.SIGKILL)
        await each.ended()


def family(pid: int) -> set[int]:
    """All that a process started, and what those did."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.parametrize("flags", [(), ("--standalone",)])
async def test_the_simulator_by_its_own_name_needs_no_credential(
    machine: Machine, face: Faces, flags: tuple[str, ...]
) -> None:
    del machine.env["PILOTHOUSE_SIMULATE"]
    machine.env["CLAUDE_CODE_PATH"] = "pilothouse-sim"
    client = await face(*flags)
    await client.shake_hands()
    told = (await client.ask(call("claude_start", prompt="Hello?")))["result"]
    assert told["structuredContent"]["simulated"] is True
    assert "on the simulator" in told["content"][0]["text"]


async def test_a_server_is_started_when_it_is_needed_and_goes_on_without_the_client(
    machine: Machine, face: Faces
) -> None:
    machine.env["PILOTHOUSE_RELAYS"] = "false"
    client = await face()
    await client.shake_hands()
    names = {each["name"] for each in (await client.ask(LIST))["result"]["tools"]}
    assert "claude_start" in names
    assert machine.found() is None
    started = await client.call("claude_start", prompt="Hello?", waitSeconds=50)
    assert started["status"] == "done"
    client.hang_up()
    assert await client.ended() == 0
    told = machine.health()
    assert told is not None
    assert told["live"] == 1
    assert client.errors == ""


async def test_a_client_of_a_running_server_has_what_it_can_of_its_variables_and_is_told_the_rest(
    machine: Machine, face: Faces
) -> None:
    first = await face()
    await first.shake_hands()
    told = await first.call("claude_start", prompt="Hello?", waitSeconds=50)
    assert "note" not in told
    machine.env |= {
        "MAX_SESSIONS": "1",
        "PERMISSION_TIMEOUT_MS": "86400000",
        "PILOTHOUSE_MCP_MODEL": "claude-haiku-4-5",
        "PILOTHOUSE_MCP_MODE": "acceptEdits",
        "PILOTHOUSE_MCP_DISALLOWED_TOOLS": "WebFetch",
    }
    second = await face()
    await second.shake_hands()
    told = await second.call("claude_start", prompt="Hello?", waitSeconds=50)
    assert "MAX_SESSIONS=1 (the server has max_sessions 10)" in told["note"]
    assert "PERMISSION_TIMEOUT_MS" not in told["note"]
    assert (told["model"], told["permissionMode"]) == ("claude-haiku-4-5", "acceptEdits")
    assert "MAX_SESSIONS=1" in second.errors
    command = {"prompt": "Run a command", "permissionMode": "default", "waitSeconds": 50}
    asked = await second.call("claude_start", **command)
    assert ("note" in asked, "expiresAt" in asked["pendingQuestion"]) == (False, True)
    asked = await first.call("claude_start", **command)
    assert ("note" in asked, "expiresAt" in asked["pendingQuestion"]) == (False, False)


async def test_whatever_is_said_it_answers_or_goes_on(machine: Machine, face: Faces) -> None:
    client = await face("--standalone")
    await client.shake_hands()
    assert (await client.ask(b"GET / HTTP/1.1"))["error"]["code"] == -32700
    assert (await client.ask(b"x" * (21 * MB)))["error"]["code"] == -32600
    assert (await client.ask({**LIST, "method": "tools/burn"}))["error"]["code"] == -32601
    wrong = (await client.ask(call("claude_start", prompt=7)))["result"]
    assert wrong["isError"]
    assert "prompt" in wrong["content"][0]["text"]
    long = await client.call("claude_start", prompt="ü" * (5 * MB // 2), waitSeconds=50)
    assert long["status"] == "done"
    client.hang_up()
    assert await client.ended() == 0
    assert machine.found() is None


async def test_who_has_the_port_after_the_server_gets_no_token_and_the_client_is_told(
    machine: Machine, face: Faces
) -> None:
    port = free_port()
    machine.env["PILOTHOUSE_PORT"] = str(port)
    client = await face()
    await client.shake_hands()
    started = await client.call("claude_start", prompt="Write a file.", waitSeconds=50)
    running = machine.found()
    assert running is not None
    # It watches for as long as this one waits.
    where = {"sessionId": started["sessionId"], "after": started["cursor"]}
    await client.send(call("claude_status", **where, waitSeconds=50))
    assert (await machine.run("stop")).code == 0
    stranger = Stranger(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    async with listening(stranger, port=port), asyncio.timeout(DEADLINE):
        await stranger.visits(5)
        await client.send(call("claude_list"))
        for _ in range(2):
            refused = (await client.receive())["result"]
            assert refused["isError"]
            told = refused["content"][0]["text"]
            assert f"port {port} on 127.0.0.1 is used by another program" in told
    assert running.token.encode() not in stranger.all_seen
    client.hang_up()
    assert await client.ended() == 0


ENDINGS: dict[str, tuple[Callable[[Face], None], int]] = {
    "the client goes": (Face.hang_up, 0),
    "SIGTERM": (lambda each: each.send_signal(signal.SIGTERM), 0),
    "SIGKILL": (lambda each: each.send_signal(signal.SIGKILL), -signal.SIGKILL),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_alone_it_leaves_nothing_behind(ending: str, machine: Machine, face: Faces) -> None:
    end, code = ENDINGS[ending]
    client = await face("--standalone")
    await client.shake_hands()
    started = await client.call("claude_start", prompt="Write a file.", waitSeconds=50)
    where = {"sessionId": started["sessionId"], "after": started["cursor"]}
    await client.send(call("claude_status", **where, waitSeconds=50))
    children = family(client.pid)
    assert children
    end(client)
    assert await client.ended() == code, client.errors
    await gone(*children)
    assert machine.found() is None


KILLED = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "pilothouse", "mcp", "--standalone"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.argv[1:]:
    server.stdin.write(line.encode() + b"\\n")
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
sys.stdin.read()
"""


async def test_it_ends_when_its_client_is_killed(machine: Machine) -> None:
    asked = [json.dumps(each) for each in (INITIALIZE, INITIALIZED, LIST)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-c", KILLED, *asked),
        env={**machine.env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=machine.folder,
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        server = int(await process.stdout.readline())
    process.kill()
    await process.communicate()
    await gone(server)


async def test_a_signal_ends_it_also_before_it_serves(face: Faces) -> None:
    client = await face()
    async with asyncio.timeout(DEADLINE):
        while not catches(client.pid, signal.SIGTERM):  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.005)
    client.send_signal(signal.SIGTERM)
    assert await client.ended() == 0
    assert client.errors == ""


def catches(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


PRINTS = """
import os, subprocess, sys
from pilothouse.server.mcp import held_pipes
known = sys.stdout
with held_pipes() as pipes:
    print("a warning")
    subprocess.run(["sh", "-c", "cat; echo a child"])
    os.write(pipes.writing, os.read(pipes.reading, 100))
    known.write("a late one\\n")
print("after it")
"""


async def test_nothing_but_messages_reaches_stdout(machine: Machine) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PRINTS),
        env=machine.env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        out, errors = await process.communicate(b"a message\n")
    assert out == b"a message\nafter it\n"
    assert errors == b"a warning\na child\na late one\n"


# Over HTTP


class Engine(FakeEngine):
    """One that says whether it was asked for something, and whether it was closed."""

    is_asked = False
    is_closed = False

    async def list(self, **more: Any) -> Listing:
        self.is_asked = True
        return await super().list(**more)

    async def aclose(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def standing_by(
    machine: Machine, engine: Engine | None = None
) -> AsyncGenerator[McpOverHttp]:
    """What the server has at `/mcp`, in this process."""
    app = McpOverHttp(engine or Engine(), machine.settings)
    running = asyncio.create_task(app.run())
    try:
        yield app
    finally:
        app.end()
        await asyncio.wait_for(running, DEADLINE)


async def test_the_server_has_it_too_and_ends_although_a_client_listens(machine: Machine) -> None:
    machine.env["PILOTHOUSE_SIMULATE"] = "always"
    serving = await machine.serve()
    running = machine.found()
    assert running is not None
    url = f"{serving.address}/mcp"
    headers = {"Authorization": f"Bearer {running.token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=DEADLINE) as http:
        stranger = await http.post(url, headers={"Authorization": "Bearer guessed"})
        assert stranger.status_code == 401
        for mode in ("legacy", "2026-07-28"):
            transport = streamable_http_client(url, http_client=http)
            async with asyncio.timeout(DEADLINE), Client(transport, mode=mode) as client:
                names = {each.name for each in (await client.list_tools()).tools}
                assert "claude_start" in names
                assert not (await client.call_tool("claude_list", {})).is_error
        async with hearing(http, url) as stream:
            assert await serving.end() == 0
            assert "error" not in "".join([each async for each in stream.aiter_text()])
    assert {json.loads(line)["level"] for line in serving.errors.splitlines()} == {"info"}


@asynccontextmanager
async def hearing(http: httpx2.AsyncClient, url: str) -> AsyncGenerator[httpx2.Response]:
    """The stream of a client with a handshake, which waits for whatever comes."""
    accept = {"accept": "application/json, text/event-stream"}
    hello = await http.post(url, json=INITIALIZE, headers=accept)
    session = {**accept, "mcp-session-id": hello.headers["mcp-session-id"]}
    async with http.stream("GET", url, headers=session) as stream:
        assert stream.status_code == 200
        yield stream


async def test_a_client_that_listens_counts_as_somebody(machine: Machine) -> None:
    async with standing_by(machine) as app:
        attendance = Attendance()
        async with (
            served(make_app(FakeEngine(), mounts={"/mcp": app}, guests=attendance)) as address,
            httpx2.AsyncClient(headers=BEARER, trust_env=False) as http,
        ):
            async with hearing(http, f"{address}/mcp"):
                assert attendance.idle_s == 0
            async with asyncio.timeout(DEADLINE):
                while not attendance.idle_s:  # noqa: ASYNC110 - until uvicorn has noticed
                    await asyncio.sleep(0.01)
            app.end()


async def test_the_servers_engine_does_not_end_with_it(machine: Machine) -> None:
    engine = Engine()
    async with (
        standing_by(machine, engine) as app,
        served(make_app(FakeEngine(), mounts={"/mcp": app})) as address,
        httpx2.AsyncClient(headers=BEARER, trust_env=False) as http,
    ):
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with asyncio.timeout(DEADLINE), Client(transport) as client:
            assert not (await client.call_tool("claude_list", {})).is_error
        app.end()
    assert engine.is_asked
    assert not engine.is_closed


async def test_nothing_of_it_is_imported_before_somebody_asks(machine: Machine) -> None:
    code = "import sys, pilothouse.server.foreground; sys.exit('mcp' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=machine.env)
    assert await asyncio.wait_for(process.wait(), DEADLINE) == 0


async def test_whoever_comes_at_the_end_is_refused(machine: Machine) -> None:
    async with standing_by(machine) as app:
        app.end()
        with pytest.raises(ServerError, match="ending"):
            await app({"type": "http"}, None, None)


async def test_where_it_fails_the_server_serves_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ImportError("no module of that name")

    monkeypatch.setattr(ways_in, "_import_http", fail)
    async with standing_by(machine) as app:
        for _ in range(2):
            with pytest.raises(ServerError, match="has failed"):
                await app({"type": "http"}, None, None)
    assert "no module of that name" in caplog.text


def test_a_directory_that_no_message_could_name_is_none_to_work_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"b\xff")
    odd.mkdir()
    monkeypatch.chdir(tmp_path)
    assert ways_in._here() == str(tmp_path)
    monkeypatch.chdir(odd)
    assert ways_in._here() is None
