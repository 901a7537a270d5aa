"""CLIs that a person starts by hand for a server: expected, taken in as sessions, and refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pilothouse import (
    Allow,
    BypassNotAllowed,
    DirectoryRefused,
    InvalidOption,
    NotNow,
    SessionEngine,
    SqliteJournal,
    load_settings,
)
from pilothouse.api.requests import DialIn, Say
from pilothouse.api.results import DialInOpened
from pilothouse.doors.door import TAKEN, WORDS
from pilothouse.engine.recovery import HAND_STARTED
from pilothouse.relay.refusals import Refusal
from pilothouse_sim import RealCLIMaker, SimulatedCLIMaker, gate, reply, tool
from tests.support.doors.pasted import pasted, program
from tests.support.engine.harness import EngineHarness, OpenEngine, harnesses
from tests.support.versions import NATIVE
from tests.support.waiting import DEADLINE

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
SLOW = reply("Some ", gate("middle"), "words.")


@pytest.fixture
async def served(simulated_cli: SimulatedCLIMaker, tmp_path: Any) -> AsyncIterator[OpenEngine]:
    """Engines with a door that CLIs can dial."""
    async with harnesses(simulated_cli, tmp_path, "sdk-url") as make:
        yield make


@pytest.fixture(params=["simulated", NATIVE])
async def anyones(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[OpenEngine]:
    """The same, for the simulator and a real CLI."""
    maker: Any = request.getfixturevalue("simulated_cli")
    if request.param != "simulated":
        real: RealCLIMaker = request.getfixturevalue("real_cli")
        maker = partial(real, version=request.param)
    async with harnesses(maker, tmp_path, "sdk-url") as make:
        yield make


async def expect(it: EngineHarness, **wanted: Any) -> DialInOpened:
    return await it.engine.dial_in(DialIn(cwd=str(it.cwd), **wanted))


def line(it: EngineHarness, opened: DialInOpened) -> str:
    """The command, with the CLI of the test in the place of the person's own."""
    words = opened.command.split(" --print ", 1)
    return f"{words[0].rpartition(' ')[0]} {program(it.cli)} --print {words[1]}"


async def dial(opened: DialInOpened, **headers: str) -> Any:
    given = {"Authorization": f"Bearer {opened.token}", **headers}
    async with asyncio.timeout(DEADLINE):
        return await connect(opened.url, additional_headers=given)


async def refusal(opened: DialInOpened) -> str:
    with pytest.raises(InvalidStatus) as refused:
        await dial(opened)
    return refused.value.response.body.decode().strip()


async def begun(it: EngineHarness, session_id: str) -> None:
    """Wait until the CLI is there and its session in the journal."""
    async with asyncio.timeout(DEADLINE):
        async for batch in it.engine.watch(0):
            if any(each.session_id == session_id for each in batch.events):
                return


async def test_a_cli_that_dials_in_is_a_session_like_any_other(anyones: OpenEngine) -> None:
    it = await anyones(TOUCH, reply("done"), reply("again"))
    opened = await expect(it, label="mine", prompt="go", mode="default")
    [waiting] = await it.engine.dial_ins()
    assert (waiting.session_id, waiting.label) == (opened.session_id, "mine")
    async with pasted(line(it, opened), it.cli) as process:
        await begun(it, opened.session_id)
        assert await it.engine.dial_ins() == []
        question = await it.answer(opened.session_id, Allow())
        assert question.tool_name == "Bash"
        status = await it.until(opened.session_id, "done")
        assert (status.via, status.label, status.live) == ("dial-in", "mine", True)
        assert status.claude_session_id == opened.session_id
        assert (it.cwd / "made").exists()
        await it.say(opened.session_id, "more")
        await it.when(opened.session_id, lambda each: each.result == "again")
        kinds = [each.kind for each in await it.events(opened.session_id)]
        assert {"session.started", "cli.started", "question.opened", "turn.ended"} <= {*kinds}
        await it.engine.stop(opened.session_id)
        async with asyncio.timeout(DEADLINE):
            assert await process.wait() == 0


async def test_once_it_has_ended_a_message_resumes_it_with_the_servers_own_cli(
    served: OpenEngine,
) -> None:
    it = await served(reply("one"), strict=False)
    opened = await expect(it, prompt="go")
    async with pasted(line(it, opened), it.cli):
        await begun(it, opened.session_id)
        await it.until(opened.session_id, "done")
        await it.engine.stop(opened.session_id)
    said = await it.engine.say(opened.session_id, Say(content="more"))
    assert said.resumed
    status = await it.when(opened.session_id, lambda each: each.turns == 2)
    assert status.via == "stdio"


async def test_a_conversation_that_is_elsewhere_is_not_begun_anew(served: OpenEngine) -> None:
    it = await served(reply("one"))
    opened = await expect(it, prompt="go")
    async with pasted(line(it, opened), it.cli):
        await begun(it, opened.session_id)
        await it.until(opened.session_id, "done")
        await it.engine.stop(opened.session_id)
    for each in (it.cli.home / ".claude/projects").glob(f"*/{opened.session_id}.jsonl"):
        each.unlink()
    with pytest.raises(NotNow, match="not on this machine"):
        await it.say(opened.session_id, "more")


async def test_a_token_is_for_one_cli(served: OpenEngine) -> None:
    it = await served(SLOW)
    opened = await expect(it, prompt="go")
    async with pasted(line(it, opened), it.cli):
        await begun(it, opened.session_id)
        await it.cli.reached("middle")
        assert await refusal(opened) == TAKEN
        it.cli.release("middle")
        await it.until(opened.session_id, "done")
        await it.engine.stop(opened.session_id)
    assert await refusal(opened) == WORDS[Refusal.SESSION_ENDED]


async def test_a_token_expires(served: OpenEngine) -> None:
    it = await served(reply("one"), strict=False)
    opened = await expect(it, expires_s=1)
    async with asyncio.timeout(DEADLINE):
        while await it.engine.dial_ins():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)
    assert await refusal(opened) == WORDS[Refusal.SESSION_ENDED]
    assert not await it.events(opened.session_id)


async def test_a_cli_for_which_there_is_no_room_is_told_so(served: OpenEngine) -> None:
    it = await served(SLOW, max_sessions=1)
    opened = await expect(it)
    busy = await it.start("go", via=None)
    await it.cli.reached("middle")
    caller = await dial(opened)
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(DEADLINE):
            await caller.recv()
    assert caller.close_code == 4001
    assert "1" in caller.close_reason
    assert await refusal(opened) == WORDS[Refusal.SESSION_ENDED]
    it.cli.release("middle")
    await it.until(busy, "done")


async def test_a_cli_that_a_person_has_started_is_not_closed_because_it_is_idle(
    served: OpenEngine,
) -> None:
    it = await served(reply("one"), strict=False)
    opened = await expect(it)
    async with pasted(line(it, opened), it.cli):
        await begun(it, opened.session_id)
        session = it.engine.sessions[opened.session_id]
        await it.when(opened.session_id, lambda each: each.live)
        assert await session.cli.connected() is not None
        assert not session.is_idle


async def test_the_next_server_does_not_take_it_up_and_says_so(served: OpenEngine) -> None:
    it = await served(SLOW)
    opened = await expect(it, prompt="go")
    async with pasted(line(it, opened), it.cli):
        await begun(it, opened.session_id)
        await it.cli.reached("middle")
        await it.when(opened.session_id, lambda each: each.claude_session_id is not None)
        other = await it.crashed()
        status = await other.status(opened.session_id)
        assert (status.state, status.live, status.reason) == ("error", False, HAND_STARTED)
        # It may still be at work, and would write to the same transcript.
        with pytest.raises(NotNow, match="may be at work"):
            await other.say(opened.session_id, Say(content="more"))
        it.cli.release("middle")
        await it.until(opened.session_id, "done")


async def test_a_directory_and_a_mode_are_checked_as_at_a_start(served: OpenEngine) -> None:
    it = await served(reply("one"), strict=False)
    with pytest.raises(DirectoryRefused, match="no-such-place"):
        await it.engine.dial_in(DialIn(cwd=str(it.cwd / "no-such-place")))
    with pytest.raises(BypassNotAllowed):
        await expect(it, mode="bypassPermissions")
    opened = await expect(it, mode="plan", model="opus")
    assert "--permission-mode=plan" in opened.command
    assert "--model=opus" in opened.command
    assert '"disableBypassPermissionsMode":"disable"' in opened.command
    # The simulator says what the newest CLI says, of its version too.
    assert opened.warning is not None
    assert "refuses --sdk-url" in opened.warning


async def test_without_a_server_nobody_can_dial(tmp_path: Any) -> None:
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    engine = SessionEngine(load_settings(env=env), await SqliteJournal.open(None))
    with pytest.raises(InvalidOption, match="pilothouse serve"):
        await engine.dial_in(DialIn(cwd=str(tmp_path)))
    await engine.aclose()
