"""Sessions that a bare `claude` made, and sessions whose transcript is gone."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from pilothouse.api.requests import Ask, Fork, Say, SessionOptions, Start
from pilothouse.errors import DirectoryRefused, UnknownSession
from pilothouse_sim.scenario import Branch, When, reply
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli
from tests.support.waiting import DEADLINE


async def test_a_session_of_a_bare_cli_is_listed_and_goes_on(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    session_id = await run_bare_cli(it, "a question of old")
    [listed] = (await it.engine.list()).sessions
    assert (listed.session_id, listed.source, listed.state) == (session_id, "transcript", None)
    assert (listed.title, listed.cwd) == ("a question of old", str(it.cwd))
    said = await it.engine.say(session_id, Say(content="more"))
    assert said.resumed
    status = await it.until(session_id, "done")
    assert (status.result, status.cwd, status.claude_session_id) == (
        "Two.",
        str(it.cwd),
        session_id,
    )
    assert "One." in it.heard()
    [listed] = (await it.engine.list()).sessions
    assert (listed.session_id, listed.source, listed.state) == (session_id, "engine", "done")
    await it.engine.stop(session_id)
    assert await bare_resumes(it, session_id)


@pytest.mark.simulated
async def test_every_session_that_is_listed_has_a_status(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await run_bare_cli(it, "a question of old")
    await it.until(await it.start(), "done")
    listed = (await it.engine.list()).sessions
    told = [await it.engine.status(each.session_id) for each in listed]
    assert [each.session_id for each in told] == [each.session_id for each in listed]
    assert [each.source for each in told] == [each.source for each in listed]
    [theirs] = [each for each in told if each.session_id == session_id]
    assert (theirs.state, theirs.live, theirs.title) == ("done", False, "a question of old")
    assert (theirs.cwd, theirs.claude_session_id) == (str(it.cwd), session_id)
    assert theirs.cli_version
    assert theirs.cursor == it.engine.journal.last
    with pytest.raises(UnknownSession):
        await it.engine.status("nobody")


async def bare_resumes(it: EngineHarness, session_id: str) -> bool:
    """Whether the bare CLI knows the session with what was said to it here."""
    process = await asyncio.create_subprocess_exec(
        it.cli.path,
        *("-p", "still there?", "--resume", session_id),
        cwd=it.cwd,
        env=it.cli.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        told, _ = await process.communicate()
    return told.strip() == b"Three." and "Two." in it.heard()


async def test_a_session_of_a_bare_cli_can_be_forked(house: OpenEngine) -> None:
    aside = Branch(when=When(last_contains="aside"), replies=(reply("Aside."),))
    it = await house("One.", branches=[aside])
    session_id = await run_bare_cli(it, "a question of old")
    started = await it.engine.fork(session_id, Fork(prompt="aside"))
    status = await it.until(started.session_id, "done")
    assert (status.result, status.parent) == ("Aside.", session_id)
    assert "One." in it.heard()


@pytest.mark.simulated
async def test_a_list_can_be_of_one_directory(house: OpenEngine) -> None:
    it = await house("One.")
    await it.done()
    assert (await it.engine.list(cwd=str(it.cwd))).total == 1
    assert (await it.engine.list(cwd=str(it.cli.home))).sessions == []


async def test_a_session_whose_transcript_is_gone_begins_anew(house: OpenEngine) -> None:
    it = await house(branches=[_on("first", "One."), _on("second", "Two.")])
    session_id = await it.done("first")
    await it.engine.stop(session_id)
    shutil.rmtree(it.cli.home / ".claude/projects")
    await it.say(session_id, "second")
    status = await it.when(session_id, lambda status: status.turns == 2)
    assert (status.result, status.claude_session_id) == ("Two.", session_id)
    assert "One." not in it.heard()


@pytest.mark.simulated
async def test_a_session_that_nobody_here_has_and_no_transcript_tells_of_is_unknown(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "hello")
    shutil.rmtree(it.cli.home / ".claude/projects")
    with pytest.raises(UnknownSession):
        await it.engine.say(session_id, Say(content="more"))
    assert await it.events() == []


@pytest.mark.simulated
async def test_a_session_of_a_bare_cli_whose_directory_is_gone_is_refused(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "hello")
    it.cwd.rename(it.cwd.with_name("elsewhere"))
    with pytest.raises(DirectoryRefused, match="give a directory that exists"):
        await it.engine.say(session_id, Say(content="more"))
    assert await it.events() == []


@pytest.mark.simulated
async def test_a_directory_whose_path_is_no_text_is_refused_before_anything_is_kept(
    house: OpenEngine,
) -> None:
    it = await house("One.", strict=False)
    odd = it.cwd / os.fsdecode(b"b\xff")
    link = it.cwd.with_name("link")
    odd.mkdir()
    link.symlink_to(odd)
    for cwd in (str(odd), str(link)):
        with pytest.raises(DirectoryRefused, match="is not UTF-8"):
            await it.engine.start(Start(prompt="go", cwd=cwd))
    with pytest.raises(DirectoryRefused, match="is not UTF-8"):
        await it.start(add_dirs=[str(link)])
    elsewhere = SessionOptions(machine="box")
    with pytest.raises(DirectoryRefused, match="is not UTF-8"):
        await it.engine.start(Start(prompt="go", cwd=str(odd), options=elsewhere))
    ask = Ask(tool_name="Bash", tool_use_id="t", input={}, cwd=str(link), session_id="s")
    with pytest.raises(DirectoryRefused, match="is not UTF-8"):
        await it.engine.ask(ask)
    assert await it.events() == []
    assert (await it.engine.health()).ok


@pytest.mark.simulated
async def test_a_session_whose_directory_became_a_link_to_one_that_is_no_text_is_refused(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "hello")
    odd = it.cwd.with_name(os.fsdecode(b"b\xff"))
    it.cwd.rename(odd)
    it.cwd.symlink_to(odd)
    with pytest.raises(DirectoryRefused, match="is not UTF-8"):
        await it.engine.say(session_id, Say(content="more"))
    assert await it.events() == []
    assert (await it.engine.list()).total == 1


def _on(words: str, answer: str) -> Branch:
    return Branch(when=When(last_contains=words), replies=(reply(answer),))
