"""Conversations that change their name, and CLIs that do not come up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pilothouse.api.requests import Say, SessionOptions, Start
from pilothouse.engine import cli_lifecycle, session
from pilothouse.engine.engine import SessionEngine
from pilothouse.errors import NotNow, SessionTaken
from pilothouse.settings import load
from tests.support.engine.harness import OpenEngine
from tests.support.waiting import DEADLINE


async def test_a_conversation_that_was_cleared_is_still_the_sessions(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    session_id = await it.done()
    await it.say(session_id, "/clear")
    await it.say(session_id, "more")
    status = await it.when(session_id, lambda status: status.result == "Two.")
    claude_id = status.claude_session_id
    assert claude_id not in (None, session_id)
    said = await it.engine.say(claude_id, Say(content="and more"))
    assert (said.session_id, said.resumed) == (session_id, False)
    await it.when(session_id, lambda status: status.result == "Three.")
    assert (await it.engine.health()).live == 1


@pytest.mark.simulated
async def test_a_conversation_that_was_cleared_has_one_writer(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    await it.say(session_id, "/clear")
    await it.say(session_id, "more")
    status = await it.when(session_id, lambda status: status.result == "Two.")
    assert status.claude_session_id is not None
    other = await it.another(state_dir=str(it.folder / "other"))
    with pytest.raises(SessionTaken):
        await other.say(status.claude_session_id, Say(content="mine"))


@pytest.mark.simulated
async def test_a_message_that_was_accepted_while_the_engine_left_is_the_next_ones(
    relayed: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    lifecycle = it.engine.sessions[session_id].cli
    reserve = lifecycle.reserve

    async def reserve_and_leave(**given: str) -> None:
        await reserve(**given)
        assert await lifecycle.leave()

    monkeypatch.setattr(lifecycle, "reserve", reserve_and_leave)
    await it.engine.say(session_id, Say(content="more"))
    await it.close()
    await it.open()
    status = await it.when(session_id, lambda status: status.result == "Two.")
    assert list(status.queued) == []


async def silent(folder: Path) -> SessionEngine:
    """An engine whose CLI starts and never says a word."""
    program = folder / "claude"
    program.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    program.chmod(0o755)
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    settings = load(env=env)
    return await SessionEngine.open(settings, cli_path=program, env=env, inherit_env=False)


@pytest.mark.parametrize("by", ["given", "found"])
async def test_no_caller_chooses_the_program_or_its_interpreter(tmp_path: Path, by: str) -> None:
    """Not even where the operator lets callers set PATH."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        for name, text in {
            "helm": f"#!/bin/sh\n: > {folder}/ran\nexec cat > /dev/null\n",
            "claude": "#!/usr/bin/env helm\n",
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{ours}:/usr/bin:/bin"}
    settings = load(env=env, flags={"allowed_env": "PATH"})
    cli = ours / "claude" if by == "given" else None
    engine = await SessionEngine.open(settings, cli_path=cli, env=env, inherit_env=False)
    try:
        wanted = SessionOptions(env={"PATH": f"{theirs}:/usr/bin:/bin"})
        started = await engine.start(Start(prompt="go", cwd=str(tmp_path), options=wanted))
        async with asyncio.timeout(DEADLINE):
            # A file of another process: nothing tells of it.
            while not any((each / "ran").exists() for each in (ours, theirs)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not (theirs / "ran").exists()
        await engine.stop(started.session_id)
    finally:
        await engine.aclose()


async def test_a_session_whose_cli_says_nothing_is_stopped_and_keeps_its_message(
    tmp_path: Path,
) -> None:
    engine = await silent(tmp_path)
    try:
        started = await engine.start(Start(prompt="go", cwd=str(tmp_path)))
        status = await engine.status(started.session_id)
        assert status.waiting_on is not None
        assert status.waiting_on.what == "start"
        stopped = await engine.stop(started.session_id)
        assert (stopped.was_live, stopped.state) == (True, "interrupted")
        status = await engine.status(started.session_id)
        assert [each.prompt_id for each in status.queued] == [started.prompt_id]
    finally:
        await engine.aclose()


async def test_an_engine_ends_although_a_cli_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_lifecycle, "START_WITHIN_S", 0.05)
    engine = await silent(tmp_path)
    await engine.start(Start(prompt="go", cwd=str(tmp_path)))
    await engine.aclose()


async def test_an_interrupt_of_a_cli_that_says_nothing_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "START_WITHIN_S", 0.05)
    monkeypatch.setattr(cli_lifecycle, "START_WITHIN_S", 0.05)
    engine = await silent(tmp_path)
    try:
        started = await engine.start(Start(prompt="go", cwd=str(tmp_path)))
        with pytest.raises(NotNow, match="stop the session"):
            await engine.interrupt(started.session_id)
    finally:
        await engine.aclose()
