"""A runner keeps its connection and its relays, and does what it may be asked to."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pilothouse.relay import registry
from pilothouse.transport import SpawnFailed
from tests.support.processes import alive, gone
from tests.support.runner.server import RunnerHost, RunnerServer, runner, runner_server
from tests.support.waiting import DEADLINE


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunnerServer]:
    async with runner_server(tmp_path) as made:
        yield made


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[RunnerHost]:
    made = RunnerHost(tmp_path / "there")
    yield made
    await made.clear()


# -- sessions


async def test_a_session_runs_there_with_that_machines_cli_and_folder(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    inside = {"CLAUDECODE": "1", "ASKED": "by nobody"}
    async with runner(server.url, machine, token, env=inside):
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work, "--print", ASKED="for this")
        await carrier.hears(f"here {machine.work} for this None --print")
        await carrier.say("hello")
        await carrier.hears("heard hello")
        (state,) = server.runners.listed()
        assert (state.cli_version, state.runs) == ("2.1.325", 1)
        assert [each.run for each in machine.relays()] == [carrier.run]


async def test_a_session_that_ends_in_order_is_gone_there(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        await carrier.order("close_input")
        await carrier.until(lambda: carrier.exit is not None)
        await server.told.until(lambda: server.told.gone != [])
    assert server.told.gone == [("box", carrier.run, "its relay has ended")]
    assert list((machine.state / "relays").iterdir()) == []


async def test_a_killed_relay_is_told_with_its_reason(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        (relay,) = machine.relays()
        os.kill(relay.relay_pid, signal.SIGKILL)
        await server.told.until(lambda: server.told.gone != [])
        assert server.runners.has("box", carrier.run) is False
    assert server.told.gone == [("box", carrier.run, "its relay was killed")]
    assert relay.cli_pid is not None
    await gone(relay.cli_pid)


async def test_the_server_can_have_a_session_ended(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        other = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        server.runners.end("box", carrier.run)
        await carrier.until(lambda: carrier.exit is not None)
        await server.told.until(lambda: server.told.gone != [])
        assert [each.run for each in machine.relays()] == [other.run]


# -- what a runner refuses


async def test_a_directory_that_is_not_there_is_refused_in_words(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        with pytest.raises(SpawnFailed, match=r"there is no directory .*missing on this machine"):
            await server.start("box", machine.work / "missing")
    assert machine.relays() == []


async def test_sessions_stay_within_the_roots(server: RunnerServer, machine: RunnerHost) -> None:
    token = server.runners.add("box")
    (machine.work / "escape").symlink_to(machine.home)
    async with runner(server.url, machine, token, "--root", str(machine.work)):
        await server.told.becomes("box", "connected")
        for outside in (machine.home, machine.work / "escape", machine.work / ".."):
            with pytest.raises(SpawnFailed, match="outside the runner's roots"):
                await server.start("box", outside)
        for wish in (
            "--add-dir=/etc",
            '--settings={"permissions":{"additionalDirectories":["/"]}}',
        ):
            with pytest.raises(SpawnFailed, match="outside the runner's roots"):
                await server.start("box", machine.work, wish)
        assert machine.relays() == []
        carrier = await server.start("box", machine.work, "--add-dir=.")
        await carrier.until(lambda: carrier.lines != [])


async def test_without_a_cli_nothing_is_started(server: RunnerServer, machine: RunnerHost) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token, "--cli", str(machine.folder / "none")):
        await server.told.becomes("box", "connected")
        assert server.runners.listed()[0].cli_version is None
        with pytest.raises(SpawnFailed, match="does not exist"):
            await server.start("box", machine.work)


async def test_a_relay_that_cannot_start_is_told(server: RunnerServer, machine: RunnerHost) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        with pytest.raises(SpawnFailed, match=r"--last-will: "):
            await server.runners.start(
                "box",
                session_id=str(uuid.uuid4()),
                run="r1",
                token="a-token",
                argv=["claude"],
                env={},
                cwd=str(machine.work),
                last_will=-1.0,
            )
    assert not (machine.state / "relays" / "r1").exists()


@pytest.mark.parametrize("run", ["../r1", "a/b", ".", ""])
async def test_a_run_that_is_no_name_of_a_folder_is_refused(
    server: RunnerServer, machine: RunnerHost, run: str
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        with pytest.raises(SpawnFailed, match="names no session"):
            await server.runners.start(
                "box",
                session_id=str(uuid.uuid4()),
                run=run,
                token="a-token",
                argv=["claude"],
                env={},
                cwd=str(machine.work),
                last_will=10.0,
            )


# -- restarts


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_sessions_go_on_without_their_runner_and_a_new_one_finds_them(
    server: RunnerServer, machine: RunnerHost, how: signal.Signals
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as first:
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        result = await first.end(how)
        assert result == (0 if how is signal.SIGTERM else -how)
        await server.told.becomes("box", "away")
    assert ("1 session goes on here" in first.said()) is (how is signal.SIGTERM)
    await carrier.say("anybody there?")
    await carrier.hears("heard anybody there?")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        assert server.runners.has("box", carrier.run) is True
        (relay,) = machine.relays()
        os.kill(relay.relay_pid, signal.SIGKILL)
        await server.told.until(lambda: server.told.gone_runs == [("box", carrier.run)])


async def test_what_ended_while_there_was_no_runner_is_known_when_it_is_back(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as first:
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        await first.end(signal.SIGKILL)
    (relay,) = machine.relays()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await gone(relay.relay_pid)
    assert server.told.gone == []
    async with runner(server.url, machine, token):
        await server.told.until(lambda: server.told.gone_runs == [("box", carrier.run)])
    assert list((machine.state / "relays").iterdir()) == []


async def test_a_runner_comes_back_to_a_server_that_was_away(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        await server.close()
        await server.told.becomes("box", "away")
        await server.open()
        await server.told.becomes("box", "connected")
        await carrier.until(lambda: len(carrier.hellos) > 1)
        await carrier.say("again")
        await carrier.hears("heard again")
    assert server.told.gone == []


async def test_a_runner_that_is_gone_is_lost_and_back_when_it_is(
    tmp_path: Path, machine: RunnerHost
) -> None:
    async with runner_server(tmp_path, lost_after=0.05) as server:
        token = server.runners.add("box")
        async with runner(server.url, machine, token) as running:
            await server.told.becomes("box", "connected")
            await running.end(signal.SIGKILL)
            await server.told.becomes("box", "lost")
            with pytest.raises(SpawnFailed, match="is lost"):
                await server.start("box", machine.work)
        async with runner(server.url, machine, token):
            await server.told.becomes("box", "connected")


async def test_a_server_that_is_silent_is_left_for_another_try(machine: RunnerHost) -> None:
    """A peer that neither closes nor answers is what a host that lost its power looks like."""
    visits: list[asyncio.StreamWriter] = []
    enough = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(writer)
        if len(visits) == 2:
            enough.set()

    deaf = await asyncio.start_server(take, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{deaf.sockets[0].getsockname()[1]}"
    async with runner(url, machine, "a-token", pace={"handshake": 0.2}) as running:
        async with asyncio.timeout(DEADLINE):
            await enough.wait()
        await running.end()
    for writer in visits:
        writer.close()
    deaf.close()
    await deaf.wait_closed()
    assert "does not answer" in running.said()


async def test_a_server_that_goes_by_another_name_says_what_to_do(machine: RunnerHost) -> None:
    answered = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        answered.set()

    other = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{other.sockets[0].getsockname()[1]}"
    async with runner(url, machine, "a-token") as running:
        async with asyncio.timeout(DEADLINE):
            await answered.wait()
            while "setting hosts" not in running.said():  # noqa: ASYNC110 - a program's words
                await asyncio.sleep(0.01)
        await running.end()
    other.close()
    await other.wait_closed()


# -- draining


async def test_a_drained_runner_takes_no_new_sessions_and_keeps_the_old(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as running:
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        server.runners.drain("box", on=True)
        with pytest.raises(SpawnFailed, match="takes no new sessions"):
            await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        await carrier.say("still there?")
        await carrier.hears("heard still there?")
        await carrier.order("close_input")
        await server.told.until(lambda: server.told.gone != [])
        server.runners.drain("box", on=False)
        await server.start("box", machine.work)
    assert "takes no new sessions; 1 session here" in running.said()
    assert "can be ended" in running.said()
    assert "takes new sessions" in running.said()


async def test_a_runner_started_to_drain_says_so(server: RunnerServer, machine: RunnerHost) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token, "--drain"):
        await server.told.becomes("box", "draining")
        server.runners.drain("box", on=False)
        with pytest.raises(SpawnFailed, match="takes no new sessions"):
            await server.start("box", machine.work)


async def test_draining_that_was_ended_while_a_runner_was_away_is_over_when_it_is_back(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        server.runners.drain("box", on=True)
        await server.told.becomes("box", "draining")
        await server.close()
        await server.told.becomes("box", "away")
        server.runners.drain("box", on=False)
        await server.open()
        await server.told.becomes("box", "connected")
        await server.start("box", machine.work)


# -- refusals


async def test_a_revoked_runner_ends_and_so_does_one_that_comes_again(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as running:
        await server.told.becomes("box", "connected")
        server.runners.revoke("box")
        assert await running.result() == 3
    assert "revoked" in running.said()
    async with runner(server.url, machine, token) as again:
        assert await again.result() == 3
    assert "the server answered with HTTP 401" in again.said()
    assert "the server refuses this token" in again.said()


async def test_sessions_of_a_revoked_runner_end_when_they_are_sent_away(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as running:
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        (relay,) = machine.relays()
        server.runners.revoke("box")
        await running.result()
    assert server.told.gone_runs == [("box", carrier.run)]
    # Whatever cuts its connection: it does not come in again.
    await server.close()
    await server.open()
    await gone(relay.relay_pid)
    assert relay.cli_pid is not None
    assert not alive(relay.cli_pid)


async def test_of_two_runners_with_one_token_the_newest_stays(
    server: RunnerServer, machine: RunnerHost, tmp_path: Path
) -> None:
    token = server.runners.add("box")
    other = RunnerHost(tmp_path / "elsewhere")
    async with runner(server.url, machine, token) as older:
        await server.told.becomes("box", "connected")
        async with runner(server.url, other, token) as newer:
            assert await older.result() == 3
            assert "another runner uses the same token" in older.said()
            assert server.runners.listed()[0].state == "connected"
            await server.start("box", other.work)
            assert [machine.relays(), len(other.relays())] == [[], 1]
            assert newer.process.returncode is None
    await other.clear()


async def test_a_runner_of_another_name_than_expected_ends(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token, "--name", "bow") as running:
        assert await running.result() == 3
    assert "that of the runner box, not bow" in running.said()


async def test_two_runners_do_not_share_a_state_folder(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        async with runner(server.url, machine, token) as second:
            assert await second.result() == 2
        assert "its own --state" in second.said()
        assert server.runners.listed()[0].state == "connected"


# -- transcripts


async def test_a_transcript_is_found_where_the_cli_keeps_it(
    server: RunnerServer, machine: RunnerHost
) -> None:
    token = server.runners.add("box")
    here, elsewhere = str(uuid.uuid4()), str(uuid.uuid4())
    project = machine.home / ".claude/projects/-work"
    project.mkdir(parents=True)
    (project / f"{here}.jsonl").touch()
    async with runner(server.url, machine, token):
        await server.told.becomes("box", "connected")
        assert await server.runners.find("box", here)
        assert not await server.runners.find("box", elsewhere)
        assert not await server.runners.find("box", "*")


# -- secrets


def secrets_seen(secrets: list[str], pids: list[int], folder: Path) -> list[Path]:
    """The files, those of the kernel about the processes included, that hold a secret."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert any(each.name == registry.LOG_NAME for each in files)
    files += [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("cmdline", "environ")]
    contents = {each: each.read_bytes() for each in files}
    return [each for each in files for secret in secrets if secret.encode() in contents[each]]


async def test_no_token_can_be_seen(
    server: RunnerServer, machine: RunnerHost, tmp_path: Path
) -> None:
    token = server.runners.add("box")
    async with runner(server.url, machine, token) as running:
        await server.told.becomes("box", "connected")
        carrier = await server.start("box", machine.work)
        await carrier.until(lambda: carrier.lines != [])
        secrets = [token, server.keyring.issue(carrier.session_id, carrier.run)]
        (relay,) = machine.relays()
        assert relay.cli_pid is not None
        pids = [running.pid, relay.relay_pid, relay.cli_pid, relay.guard_pid or relay.cli_pid]
        assert secrets_seen(secrets, pids, tmp_path) == []
    assert stat.S_IMODE((machine.state / "relays").stat().st_mode) == 0o700
