"""A CLI goes on while no engine runs, and the next engine goes on with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from websockets.asyncio.client import unix_connect

from pilothouse.api.answers import Allow, Deny
from pilothouse.api.requests import Say
from pilothouse.doors import local, relay_transport
from pilothouse.doors.tokens import Keyring
from pilothouse.errors import SessionTaken
from pilothouse.relay import deaths, door_frames
from pilothouse.relay.addresses import reachable
from pilothouse.relay.door_frames import Frame, FrameKind
from pilothouse.relay.refusals import Refusal
from pilothouse.relay.registry import started_at
from pilothouse.server.engines import KEY_NAME, SOCKET_NAME
from pilothouse_sim.scenario import Branch, Reply, When, gate, reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, opened
from tests.support.waiting import DEADLINE

TOUCH = reply(tool("Bash", command="echo made >> made", description="Make it"))
SLOW = reply("Some ", gate("middle"), "words.")


def on(words: str, told: Reply) -> Branch:
    return Branch(when=When(last_contains=words), replies=(told,))


async def made(it: EngineHarness) -> int:
    """How often the tool has run."""
    return len((it.cwd / "made").read_text().splitlines())


async def reopened(it: EngineHarness, **flags: object) -> None:
    await it.close()
    await it.open(**flags)


async def test_a_question_is_open_after_a_restart_and_its_answer_reaches_the_cli(
    relayed: OpenEngine,
) -> None:
    it = await relayed(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    before = await it.engine.status(session_id)
    await reopened(it)
    after = await it.engine.status(session_id)
    assert (after.state, after.live) == ("awaiting_input", True)
    assert after.questions == before.questions
    assert not (await it.engine.answer(question.id, Allow())).resumed
    status = await it.until(session_id, "done")
    assert (status.result, status.turns, status.pid) == ("Made.", 1, before.pid)
    assert await made(it) == 1
    for kind in ("question.opened", "question.closed", "cli.started"):
        assert len(await it.records(session_id, kind)) == 1


async def test_an_answer_that_no_cli_has_heard_is_given_after_the_restart(
    relayed: OpenEngine,
) -> None:
    it = await relayed(TOUCH, "I see.")
    session_id = await it.start()
    question = await it.asked(session_id)
    asks = it.engine.sessions[session_id].cli.asks
    assert asks is not None
    # As if the engine had died between keeping the answer and giving it.
    asks.leave()
    # The engine dies before the CLI hears of it.
    asks.give = lambda *_: None  # type: ignore[method-assign]
    await it.engine.answer(question.id, Deny(reason="not today"))
    await reopened(it)
    status = await it.until(session_id, "done")
    assert (status.result, status.questions) == ("I see.", [])
    assert any("not today" in each for each in it.told())


async def test_a_turn_goes_on_while_no_engine_runs(relayed: OpenEngine) -> None:
    it = await relayed(SLOW)
    session_id = await it.start()
    await it.cli.reached("middle")
    before = await it.engine.status(session_id)
    await it.close()
    it.cli.release("middle")
    await it.open()
    status = await it.until(session_id, "done")
    assert (status.result, status.pid, status.turns) == ("Some words.", before.pid, 1)


async def test_a_message_to_a_session_that_goes_on_reaches_the_same_cli(
    relayed: OpenEngine,
) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    before = await it.engine.status(session_id)
    await reopened(it)
    assert not (await it.engine.say(session_id, Say(content="more"))).resumed
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.pid) == ("Two.", before.pid)
    assert (await it.engine.models(session_id)) is not None


@pytest.mark.simulated
async def test_a_message_that_was_noted_as_sent_but_never_kept_for_the_cli_is_sent(
    relayed: OpenEngine,
) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    session = it.engine.sessions[session_id]
    said = session.prompt("more")
    await session.write(said).committed
    session.view.queued[said.id].sent = True
    await reopened(it)
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert status.result == "Two."


async def test_the_end_of_a_cli_is_told_after_the_restart(relayed: OpenEngine) -> None:
    it = await relayed(SLOW, "Again.")
    session_id = await it.start()
    await it.cli.reached("middle")
    pid = (await it.engine.status(session_id)).pid
    assert pid is not None
    await it.close()
    os.kill(pid, signal.SIGKILL)
    await it.open()
    status = await it.until(session_id, "error")
    assert (status.live, "signal 9" in (status.reason or "")) == (False, True)
    assert (await it.engine.say(session_id, Say(content="more"))).resumed


@pytest.mark.simulated
async def test_a_relay_that_is_killed_while_no_engine_runs_is_missed(relayed: OpenEngine) -> None:
    it = await relayed(TOUCH, "One.")
    session_id = await it.start()
    question = await it.asked(session_id)
    [relay] = it.relays()
    await it.close()
    os.kill(relay.relay_pid, signal.SIGKILL)
    await it.gone(relay.relay_pid, relay.cli_pid)
    await it.open()
    status = await it.engine.status(session_id)
    assert (status.state, status.live) == ("error", False)
    assert "relay" in (status.reason or "")
    assert [(each.id, each.state) for each in status.questions] == [(question.id, "withdrawn")]


@pytest.mark.simulated
async def test_what_a_relay_left_when_it_was_ended_is_told_after_the_restart(
    relayed: OpenEngine,
) -> None:
    it = await relayed(SLOW, "Again.")
    session_id = await it.start()
    await it.cli.reached("middle")
    [relay] = it.relays()
    await it.close()
    it.cli.release("middle")
    await it.written(session_id, "words.")
    os.kill(relay.relay_pid, signal.SIGTERM)
    await it.gone(relay.relay_pid, relay.cli_pid)
    await it.open()
    status = await it.when(session_id, lambda status: not status.live)
    assert (status.result, status.turns, status.state) == ("Some words.", 1, "done")
    assert not await it.records(session_id, "lines.lost")
    assert (await it.engine.say(session_id, Say(content="more"))).resumed
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "Again."


@pytest.mark.simulated
async def test_no_other_engine_can_run_a_session_whose_cli_goes_on(relayed: OpenEngine) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    await it.close()
    other = await it.another(state_dir=str(it.folder / "other"))
    with pytest.raises(SessionTaken):
        await other.say(session_id, Say(content="mine"))
    await it.open()
    await it.say(session_id, "more")
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "Two."


async def test_stopping_all_ends_what_would_go_on(relayed: OpenEngine) -> None:
    branches = [on("first", SLOW), on("second", TOUCH)]
    it = await relayed(branches=branches)
    first = await it.start("first")
    await it.cli.reached("middle")
    second = await it.start("second")
    await it.asked(second)
    relays = it.relays()
    assert sorted((await it.engine.stop_all()).sessions) == sorted([first, second])
    await it.gone(*(each.relay_pid for each in relays), *(each.cli_pid for each in relays))
    assert it.relays() == []


@pytest.mark.simulated
async def test_many_sessions_are_found_again_at_once(relayed: OpenEngine) -> None:
    words = ("north", "east", "south", "west")
    it = await relayed(branches=[on(each, reply("One.")) for each in words])
    names = [await it.start(each) for each in words]
    for each in names:
        await it.until(each, "done", "awaiting_input")
    pids = {each: (await it.engine.status(each)).pid for each in names}
    await reopened(it)
    async with asyncio.timeout(DEADLINE):
        for each in names:
            status = await it.when(each, lambda status: status.pid is not None)
            assert (status.live, status.pid) == (True, pids[each])
            assert opened(status) == []


@pytest.mark.simulated
async def test_a_cli_that_cannot_be_taken_up_says_why(relayed: OpenEngine) -> None:
    it = await relayed("One.", allow_bypass=True)
    bypassing = {"permissions": {"defaultMode": "bypassPermissions"}}
    session_id = await it.done(settings=bypassing, env={"IS_SANDBOX": "1"})
    relays = it.relays()
    await reopened(it)
    assert not (await it.engine.status(session_id)).live
    [ended] = await it.records(session_id, "cli.ended")
    assert "settings would bypass every permission check" in ended["reason"]
    await it.gone(*(each.relay_pid for each in relays), *(each.cli_pid for each in relays))


@pytest.mark.simulated
async def test_a_relay_that_hangs_is_ended_with_its_cli_and_one_cli_goes_on(
    relayed: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "GRACE", 0.1)
    monkeypatch.setattr(relay_transport, "TERM_GRACE", 0.1)
    monkeypatch.setattr(relay_transport, "KILL_GRACE", 0.1)
    it = await relayed(SLOW, branches=[on("more", reply("Two."))])
    session_id = await it.start()
    await it.cli.reached("middle")
    [relay] = it.relays()
    os.kill(relay.relay_pid, signal.SIGSTOP)
    await it.engine.stop(session_id)
    assert started_at(relay.relay_pid) is None
    assert relay.cli_pid is not None
    assert started_at(relay.cli_pid) is None
    [ended] = await it.records(session_id, "cli.ended")
    assert (ended["orderly"], ended["reason"]) == (False, "its relay does not answer")
    [lost] = await it.records(session_id, "lines.lost")
    assert "is lost" in lost["because"]
    it.cli.release("middle")
    await it.say(session_id, "more")
    status = await it.when(session_id, lambda status: status.result == "Two.")
    assert [each.cli_pid for each in it.relays()] == [status.pid]


@pytest.mark.simulated
async def test_no_cli_is_started_while_a_relay_that_was_given_up_lives(
    relayed: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_transport, "TERM_GRACE", 0.1)
    monkeypatch.setattr(relay_transport, "KILL_GRACE", 0.1)
    it = await relayed("One.", branches=[on("more", reply("Two."))])
    session_id = await it.done()
    [relay] = it.relays()
    with monkeypatch.context() as patched:
        patched.setattr(local.LocalRelays, "end", lambda *_: False)
        os.kill(relay.relay_pid, signal.SIGSTOP)
        await it.engine.stop(session_id)
    with pytest.raises(SessionTaken, match=rf"pid {relay.relay_pid}\)"):
        await it.engine.say(session_id, Say(content="more"))
    os.kill(relay.relay_pid, signal.SIGCONT)
    # Refused at the door, it ends its CLI by itself.
    await it.gone(relay.relay_pid, relay.cli_pid)
    await it.say(session_id, "more")
    assert (await it.when(session_id, lambda status: status.turns == 2)).result == "Two."


@pytest.mark.simulated
async def test_a_relay_finds_the_next_server_whatever_login_that_has(
    relayed: OpenEngine, tmp_path: Path
) -> None:
    it = await relayed("One.", "Two.")
    session_id = await it.done()
    before = await it.engine.status(session_id)
    await reopened(it, runtime_dir=str(tmp_path / "of-a-cron-job"))
    await it.say(session_id, "more")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.pid) == ("Two.", before.pid)


@pytest.mark.simulated
async def test_nonsense_of_one_relay_is_nobody_elses_trouble(relayed: OpenEngine) -> None:
    it = await relayed(branches=[on("first", reply("One.")), on("second", reply("Two."))])
    session_id = await it.done("first")
    [relay] = it.relays()
    state = it.settings().state_dir
    token = Keyring.open(state / KEY_NAME).issue(session_id, relay.run)
    for nonsense in ({"first": 2**70}, {"written": 2**63}, {"pid": 2**70}):
        told = {"session_id": session_id, "run": relay.run, "first": 1, "written": 0, **nonsense}
        frame = Frame(FrameKind.HELLO, 1, 0, json.dumps(told).encode())
        with reachable(str(state / SOCKET_NAME)) as path:
            async with unix_connect(
                path,
                f"ws://localhost/relay/{session_id}",
                additional_headers={"Authorization": f"Bearer {token}"},
            ) as link:
                await link.send(door_frames.encode(frame))
                async with asyncio.timeout(DEADLINE):
                    await link.wait_closed()
                assert link.close_code == Refusal.FRAME_REFUSED
    assert it.engine.journal.failed is None
    await it.done("second")


@pytest.mark.simulated
async def test_what_is_too_long_for_a_command_line_is_kept_with_the_relay_and_goes_with_it(
    relayed: OpenEngine,
) -> None:
    it = await relayed("One.", "Two.")
    prompt = "Be brief. " * 12_000
    session_id = await it.done(append_system_prompt=prompt)
    [relay] = it.relays()
    folder = it.settings().state_dir / "relays" / relay.run
    [file] = (folder / "arguments").glob("*.md")
    assert (file.read_text(), file.stat().st_mode & 0o077) == (prompt, 0)
    await reopened(it)
    assert file.exists()
    await it.engine.stop(session_id)
    await it.gone(relay.relay_pid)
    assert not folder.exists()
