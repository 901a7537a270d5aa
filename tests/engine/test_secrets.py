"""Secrets in a session's options: the CLI gets them, whoever watches does not."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine.harness import OpenEngine
from tests.support.engine.mcp_servers import PARROT, server
from tests.support.processes import showing

SECRET = f"hush-{os.getpid()}"


def secretive() -> dict[str, Any]:
    """Options that have it wherever a caller can put one."""
    web = {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": SECRET}}
    return {
        "env": {"BOAT_TOKEN": SECRET},
        "settings": {"env": {"BOAT_API_KEY": SECRET}},
        "mcp_servers": {"web": web, "parrot": {**server(PARROT), "env": {"KEY": SECRET}}},
        "append_system_prompt": f"The password is {SECRET}.",
    }


def with_secret(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are made for a start."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_no_command_line_has_a_secret_over_pipes(piped: OpenEngine, temporary: Path) -> None:
    it = await piped("Hello.")
    session_id = await it.done(**secretive())
    assert showing(SECRET) == []
    files = with_secret(temporary)
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in files} == {0o700}
    await it.engine.stop(session_id)
    assert with_secret(temporary) == []


@pytest.mark.simulated
async def test_what_a_cli_over_pipes_was_told_goes_with_it_however_it_ends(
    piped: OpenEngine, temporary: Path
) -> None:
    it = await piped("Hello.")
    session_id = await it.done(**secretive())
    assert len(with_secret(temporary)) == 3
    pid = (await it.engine.status(session_id)).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await it.when(session_id, lambda status: not status.live)
    assert with_secret(temporary) == []


async def test_no_command_line_has_a_secret_behind_a_relay(
    relayed: OpenEngine, temporary: Path
) -> None:
    it = await relayed("Hello.", "Again.")
    session_id = await it.done(**secretive())
    [relay] = it.relays()
    assert {relay.relay_pid, relay.cli_pid} <= set(showing(session_id))
    assert showing(SECRET) == []
    assert with_secret(temporary) == []
    relays = it.settings().state_dir / "relays"
    files = with_secret(relays)
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in files} == {0o700}
    await it.engine.stop(session_id)
    await it.gone(relay.relay_pid)
    assert with_secret(relays) == []
    # They are made anew for the next start.
    await it.say(session_id, "more")
    await it.when(session_id, lambda status: status.result == "Again.")
    assert len(with_secret(relays)) == 3


@pytest.mark.simulated
async def test_what_a_killed_relay_left_is_removed_at_once_or_at_the_next_start(
    relayed: OpenEngine,
) -> None:
    it = await relayed("Hello.", "Again.")
    session_id = await it.done(**secretive())
    relays = it.settings().state_dir / "relays"
    [relay] = it.relays()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await it.when(session_id, lambda status: not status.live)
    assert with_secret(relays) == []
    await it.say(session_id, "more")
    await it.when(session_id, lambda status: status.result == "Again.")
    [relay] = it.relays()
    await it.close()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await it.gone(relay.relay_pid)
    assert len(with_secret(relays)) == 3
    await it.open()
    assert with_secret(relays) == []


@pytest.mark.simulated
async def test_what_is_of_no_session_any_more_is_removed_when_a_server_starts(
    relayed: OpenEngine,
) -> None:
    """Its journal was set aside, say."""
    it = await relayed("Hello.")
    await it.done(**secretive())
    state = it.settings().state_dir
    [relay] = it.relays()
    await it.close()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await it.gone(relay.relay_pid, relay.cli_pid)
    assert len(with_secret(state / "relays")) == 3
    for file in state.glob("journal.db*"):
        file.unlink()
    # A relay that was just started has not written down yet who it is.
    hour_ago = time.time() - 3600
    for folder in (state / "relays").iterdir():
        os.utime(folder, (hour_ago, hour_ago))
    await it.open()
    assert with_secret(state / "relays") == []


async def test_who_reads_or_watches_is_told_names_without_values(house: OpenEngine) -> None:
    it = await house("Hello.", "Again.")
    session_id = await it.done(env={"BOAT_TOKEN": "hush"})
    read = await it.engine.read()
    async with aclosing(it.engine.watch(0)) as watching:
        watched = await anext(watching)
    for batch in (read, watched):
        told = b"".join(bytes(event.body) for event in batch.events)
        assert b"BOAT_TOKEN" in told
        assert b"hush" not in told
    await it.close()
    await it.open()
    await it.engine.status(session_id)
    assert it.engine.sessions[session_id].view.options.env == {"BOAT_TOKEN": "hush"}
