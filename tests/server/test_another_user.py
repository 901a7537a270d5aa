"""What another user of the machine finds out of a server's secrets: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from pilothouse.api.requests import Start
from pilothouse.doors.tokens import Keyring
from pilothouse.errors import ServerError
from pilothouse.relay import registry
from pilothouse.remote import RemoteEngine
from pilothouse.server.background import LOG_NAME, find_or_start
from pilothouse.server.engines import KEY_NAME, SOCKET_NAME
from pilothouse.server.runtime import FILE_NAME, TOKEN_NAME
from tests.support.places import PROGRAMS
from tests.support.ports import free_port
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

NOBODY = 65534
TOLD_TO_ALL = ("cmdline", "environ", "status", "maps", "cwd/x", "root/x")
SECRETS = (TOKEN_NAME, FILE_NAME, KEY_NAME, LOG_NAME, "journal.db")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root can be two users, and only Linux has /proc",
)


class Other:
    """Another user, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout

    async def tries(self, *order: Any) -> dict[str, Any]:
        self._stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(DEADLINE):
            return json.loads(await self._stdout.readuntil(b"\n"))

    async def read(self, path: Path) -> bytes | None:
        told = (await self.tries("read", str(path))).get("told")
        return None if told is None else bytes.fromhex(told)

    async def heard(self) -> list[bytes]:
        return [bytes.fromhex(each) for each in (await self.tries("heard"))["told"]]


@pytest.fixture
async def other() -> AsyncIterator[Other]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", str(PROGRAMS / "other_user.py"), str(NOBODY)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    assert process.stdin is not None
    try:
        yield Other(process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(DEADLINE):
            await process.wait()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody may enter; those of pytest nobody else may."""
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def machine(open_folder: Path) -> AsyncIterator[Machine]:
    machine = Machine(open_folder)
    machine.env |= {"PILOTHOUSE_SIMULATE": "always", "PILOTHOUSE_PORT": str(free_port())}
    try:
        yield machine
    finally:
        await machine.aclose()


@pytest.fixture
async def engine(machine: Machine) -> AsyncIterator[RemoteEngine]:
    """That of a server with a session that waits for a person, behind its relay."""
    found = await find_or_start(machine.settings, env=machine.env)
    engine = RemoteEngine(found.address, found.token, patience=2.0)
    try:
        started = await engine.start(Start(prompt="Write a file.", cwd=str(machine.folder)))
        async with asyncio.timeout(DEADLINE), aclosing(engine.watch(0)) as batches:
            async for _ in batches:
                if (await engine.status(started.session_id)).questions:
                    break
        yield engine
    finally:
        await engine.aclose()


async def secrets_of(machine: Machine, engine: RemoteEngine) -> dict[str, bytes]:
    """Whatever opens a door."""
    state = machine.settings.state_dir
    found = {"token": (state / TOKEN_NAME).read_bytes().strip()}
    for path in state.rglob(KEY_NAME):
        keyring = Keyring.open(path)
        found |= {str(path): path.read_bytes()}
        for event in (await engine.read(0, limit=10_000)).events:
            if event.kind == "cli.started":
                run = json.loads(bytes(event.body))["run"]
                # The first part is the run's name, which is no secret.
                token = keyring.issue(event.session_id, run).rpartition(".")[2]
                found[f"{path} {run}"] = token.encode()
    return found


def kept_by(machine: Machine) -> list[Path]:
    settings = machine.settings
    return [*settings.state_dir.rglob("*"), *settings.runtime_dir.rglob("*")]


def processes_of(machine: Machine) -> list[int]:
    running = machine.found()
    assert running is not None
    records = machine.settings.state_dir.rglob(registry.NAME)
    [relay] = [each for path in records if (each := registry.alive(path))]
    assert relay.guard_pid is not None
    assert relay.cli_pid is not None
    return [running.pid, relay.relay_pid, relay.guard_pid, relay.cli_pid]


def check(places: Iterable[bytes], secrets: dict[str, bytes]) -> None:
    told = b"\n".join(places)
    forms = {name: (each, each.hex().encode()) for name, each in secrets.items()}
    assert [name for name, each in forms.items() if any(form in told for form in each)] == []


async def test_no_file_and_no_socket_of_the_server_can_be_used(
    machine: Machine, engine: RemoteEngine, other: Other
) -> None:
    # What is not closed to it, it reads.
    (machine.folder / "note").write_text("ahoy")
    (machine.folder / "note").chmod(0o644)
    assert await other.read(machine.folder / "note") == b"ahoy"
    kept = kept_by(machine)
    assert {*SECRETS, SOCKET_NAME} <= {each.name for each in kept}
    for each in kept:
        verbs = {"read": each.is_file(), "list": each.is_dir(), "connect": each.is_socket()}
        for verb in [verb for verb, fits in verbs.items() if fits]:
            assert await other.tries(verb, str(each)) == {"failed": "Permission denied"}, each
        if each.name in SECRETS or each.is_socket():
            # Also where somebody has opened the folder.
            assert stat.S_IMODE(each.stat().st_mode) & 0o077 == 0, each


async def test_no_process_tells_a_secret(
    machine: Machine, engine: RemoteEngine, other: Other
) -> None:
    secrets = await secrets_of(machine, engine)
    assert len(secrets) > 2
    for pid in processes_of(machine):
        told = [await other.read(Path(f"/proc/{pid}/{name}")) for name in TOLD_TO_ALL]
        # This much can be seen, so it is looked for where it would be found.
        assert told[0]
        check(filter(None, told), secrets)


async def test_the_server_tells_a_stranger_nothing_but_its_proof_and_the_console_s_page(
    machine: Machine, engine: RemoteEngine
) -> None:
    secrets = await secrets_of(machine, engine)
    running = machine.found()
    assert running is not None
    async with httpx.AsyncClient(base_url=running.address, trust_env=False) as http:
        paths = ("/api/sessions", "/api/settings", "/healthz", "/metrics", "/openapi.json")
        answers = [await http.get(path) for path in paths]
        assert {each.status_code for each in answers} == {401}
        answers.append(await http.get("/proof", params={"nonce": "n" * 43}))
        assert answers[-1].status_code == 200
        # The page of the console says where its link is, to everybody.
        answers.append(await http.get("/"))
        assert answers[-1].status_code == 200
    check([each.content for each in answers], secrets)


async def test_who_takes_the_port_after_the_server_hears_no_token(
    machine: Machine, engine: RemoteEngine, other: Other
) -> None:
    secrets = await secrets_of(machine, engine)
    running = machine.found()
    assert running is not None
    port = int(running.address.rpartition(":")[2])
    taken = await other.tries("listen", port)
    assert taken["failed"].startswith("Address already in use")
    async with aclosing(engine.watch()) as batches:
        watching = asyncio.ensure_future(anext(batches))
        assert (await machine.run("stop")).code == 0
        assert await other.tries("listen", port) == {"told": None}
        with pytest.raises(ServerError, match="the token was not sent"):
            await engine.health()
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(ServerError, match="the token was not sent"):
                await watching
    with pytest.raises(ServerError, match=f"port {port} on 127.0.0.1 is used by another program"):
        await find_or_start(machine.settings, env=machine.env)
    heard = await other.heard()
    assert len(heard) > 2
    check(heard, secrets)
