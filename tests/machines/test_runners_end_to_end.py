"""A server and the runners of other machines, all of them processes of their own on one machine."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pilothouse import __version__
from pilothouse.api.requests import Say
from pilothouse.errors import InvalidOption, NotNow
from pilothouse.relay.refusals import HEADER, Refusal
from pilothouse.runner import messages
from pilothouse.runner.main import REFUSED
from pilothouse.runner.messages import Hello, RunGone, RunTold, Welcome
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import Reply, gate, reply
from tests.support.machines.fleet import FleetMachine, FleetServer
from tests.support.processes import alive, gone, showing
from tests.support.waiting import until


@pytest.fixture
async def harbour(tmp_path: Path) -> AsyncIterator[FleetServer]:
    made = FleetServer(tmp_path)
    await made.open()
    try:
        yield made
    finally:
        await made.aclose()


Joining = Callable[..., Awaitable[FleetMachine]]


@pytest.fixture
async def join(
    harbour: FleetServer, simulated_cli: SimulatedCLIMaker, tmp_path: Path
) -> AsyncIterator[Joining]:
    """`await join(name, *replies)`: a machine of that name, whose runner is connected."""
    made: list[FleetMachine] = []

    async def join(
        name: str, *replies: Any, program: Path | None = None, **more: Any
    ) -> FleetMachine:
        cli = simulated_cli(*replies, **more)
        made.append(FleetMachine(tmp_path / name, cli, harbour, program=program))
        await made[-1].join(name)
        return made[-1]

    try:
        yield join
    finally:
        for each in made:
            await each.aclose()


def held(words: str = "Done.") -> Reply:
    return reply("Wait. ", gate("mid"), words)


# Starting


async def test_a_drained_machine_takes_no_new_session_and_goes_on_with_those_it_has(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", "One.", "Two.")
    cwd = machine.cli.cwd
    session_id = await harbour.start("b", cwd)
    pid = (await harbour.until(session_id, "done")).pid
    await harbour.engine.drain_runner("b")
    await harbour.runner_is("b", "draining")
    with pytest.raises(NotNow, match=r"takes no new sessions; .* pilothouse runners undrain b"):
        await harbour.start("b", cwd)
    await harbour.engine.say(session_id, Say(content="more"))
    status = await harbour.when(session_id, lambda status: status.result == "Two.")
    assert status.pid == pid
    await harbour.engine.drain_runner("b", draining=False)
    another = await harbour.start("b", cwd)
    await harbour.until(another, "done")
    assert (await harbour.engine.list()).total == 2


async def test_what_stands_in_the_way_of_a_session_is_said(
    harbour: FleetServer, join: Joining
) -> None:
    there = await join("b")
    bare = await join("c", program=there.folder / "no-claude")
    cwd = there.cli.cwd
    with pytest.raises(InvalidOption, match="there is no runner d; those there are: b, c"):
        await harbour.start("d", cwd)
    session_id = await harbour.start("b", cwd / "missing")
    status = await harbour.until(session_id, "error")
    assert (status.machine, status.live) == ("b", False)
    assert f"there is no directory {cwd / 'missing'} on this machine" in str(status.reason)
    session_id = await harbour.start("c", bare.cli.cwd)
    status = await harbour.until(session_id, "error")
    assert "cannot start a session on c" in str(status.reason)
    assert str(there.folder / "no-claude") in str(status.reason)
    await bare.end_runner()
    await harbour.runner_is("c", "connected", "away", "lost")
    with pytest.raises(NotNow, match=r"the machine c is lost; start its runner on .*"):
        await harbour.start("c", bare.cli.cwd)
    assert not there.relays()
    assert not bare.relays()


async def test_what_is_too_long_for_a_command_line_goes_along_as_a_file(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", "One.")
    prompt = "".join(f"Rule {number}. " for number in range(12_000)) + "\N{ANCHOR}"
    allowed = [f"Bash(echo {number})" for number in range(8_000)]
    session_id = await harbour.start(
        "b",
        machine.cli.cwd,
        append_system_prompt=prompt,
        settings={"permissions": {"allow": allowed}},
    )
    assert (await harbour.until(session_id, "done")).result == "One."
    assert prompt in str(machine.cli.requests[0].body["system"])
    [arguments] = (machine.folder / "state/relays").glob("*/arguments")
    assert stat.S_IMODE(arguments.stat().st_mode) == 0o700
    sizes = {each.suffix: each.stat().st_size for each in arguments.iterdir()}
    assert sizes.keys() == {".md", ".json"}
    assert min(sizes.values()) > 100_000
    await harbour.engine.stop(session_id)
    await until(lambda: not list((machine.folder / "state/relays").iterdir()))


async def test_what_is_secret_goes_along_as_a_file(harbour: FleetServer, join: Joining) -> None:
    machine = await join("b", "One.")
    secret = f"hush-{os.getpid()}"
    session_id = await harbour.start("b", machine.cli.cwd, settings={"env": {"APP_KEY": secret}})
    await harbour.until(session_id, "done")
    assert showing(secret) == []
    relays = machine.folder / "state/relays"
    [file] = relays.glob("*/arguments/*")
    assert secret in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await harbour.engine.stop(session_id)
    await until(lambda: not list(relays.iterdir()))


# Restarts


async def test_a_session_there_goes_on_without_its_server_and_its_runner(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", held(), "Two.")
    session_id = await harbour.start("b", machine.cli.cwd)
    await machine.cli.reached("mid")
    pid = (await harbour.together(session_id)).pid
    for sent in (signal.SIGTERM, signal.SIGKILL):
        await harbour.end(sent)
        await machine.end_runner(sent)
        if sent == signal.SIGKILL:
            machine.cli.release("mid")
        await harbour.open()
        # It needs no runner.
        assert (await harbour.together(session_id)).pid == pid
        await machine.open("b")
    assert machine.log.count("found 1 session again") == 2
    status = await harbour.until(session_id, "done")
    assert (status.pid, status.machine, status.result) == (pid, "b", "Wait. Done.")
    await harbour.engine.say(session_id, Say(content="more"))
    status = await harbour.when(session_id, lambda status: status.result == "Two.")
    assert status.pid == pid
    assert len(await harbour.records(session_id, "cli.started")) == 1


async def test_a_session_whose_relay_died_while_there_was_no_server_is_told_to_be_gone(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", held())
    session_id = await harbour.start("b", machine.cli.cwd)
    await machine.cli.reached("mid")
    await harbour.kill()
    await machine.die()
    await harbour.open()
    await machine.open("b")
    status = await harbour.until(session_id, "error")
    assert "the runner b came back without it" in str(status.reason)


# Who may come in


async def test_a_revoked_runner_ends_and_so_do_its_sessions(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", held())
    session_id = await harbour.start("b", machine.cli.cwd)
    await machine.cli.reached("mid")
    [relay] = machine.relays().values()
    told = await harbour.engine.revoke_runner("b")
    assert (told.state, told.sessions) == ("connected", [session_id])
    status = await harbour.until(session_id, "error")
    assert "its runner b was revoked" in str(status.reason)
    assert await machine.left() == REFUSED
    assert "the server refuses this token" in machine.log
    await gone(*(pid for pid in (relay.relay_pid, relay.guard_pid, relay.cli_pid) if pid))
    assert await harbour.engine.runners() == []
    assert len(await harbour.records(session_id, "cli.ended")) == 1
    await machine.launch()
    assert await machine.left() == REFUSED
    await harbour.engine.say(session_id, Say(content="more"))
    await harbour.when(session_id, lambda status: "pilothouse runners add b" in str(status.reason))


async def test_a_runner_can_neither_bring_nor_end_anothers_session(
    harbour: FleetServer, join: Joining
) -> None:
    machine = await join("b", held())
    session_id = await harbour.start("b", machine.cli.cwd)
    await machine.cli.reached("mid")
    [relay] = machine.relays().values()
    token = (await harbour.engine.add_runner("c")).token
    bearer = {"Authorization": f"Bearer {token}"}
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{harbour.url}/relay/{session_id}", additional_headers=bearer)
    assert refused.value.response.headers[HEADER] == str(Refusal.TOKEN_REFUSED.value)
    async with connect(f"{harbour.url}/runner", additional_headers=bearer) as it:
        claimed = RunTold(session_id, relay.run, os.getpid())
        await it.send(messages.encode(Hello(host="c", program="0", runs=(claimed,))))
        assert messages.from_server(await it.recv()) == Welcome("c", __version__)
        await it.send(messages.encode(RunGone(relay.run, "so I say")))
        found = await harbour.runner_is("c", "away", "connected")
        assert found.sessions == []
    await harbour.runner_is("c", "connected", "away", "lost")
    machine.cli.release("mid")
    status = await harbour.until(session_id, "done")
    assert (status.pid, status.machine) == (relay.cli_pid, "b")
    assert relay.cli_pid is not None
    assert alive(relay.cli_pid)
    assert "a run that is not its own" in harbour.errors()
