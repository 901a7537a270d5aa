"""What is refused before anything happens: directories, keys, a second writer, spending."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.requests import Caps, Fork, Say, SessionOptions, Start
from pilothouse.engine import session_verbs
from pilothouse.errors import (
    CapReached,
    DirectoryRefused,
    InvalidOption,
    KeyReused,
    SessionTaken,
    UsageError,
)
from pilothouse_sim.scenario import gate, reply
from tests.support.engine.harness import OpenEngine
from tests.support.versions import NEWEST
from tests.support.waiting import DEADLINE

CENT = 0.000001
"""Less than any turn costs."""


# Directories


async def test_a_directory_that_is_none_is_refused_before_anything_is_kept(
    house: OpenEngine,
) -> None:
    it = await house("One.", strict=False)
    (it.cwd / "file").touch()
    for wrong in (str(it.cwd / "missing"), str(it.cwd / "file"), "project", "", "\0"):
        with pytest.raises(DirectoryRefused) as refused:
            await it.engine.start(Start(prompt="go", cwd=wrong))
        assert refused.value.advice
    assert await it.events() == []
    assert (await it.engine.health()).sessions == 0


@pytest.mark.simulated
async def test_only_what_is_below_the_allowed_roots_is_allowed(
    house: OpenEngine, tmp_path: Path
) -> None:
    root, outside = tmp_path / "root", tmp_path / "rooted"
    for each in (root / "within", outside):
        each.mkdir(parents=True)
    (root / "link").symlink_to(outside)
    it = await house("One.", allowed_roots=[str(root)])
    for wrong in (outside, root / "link", root / "within/../../rooted", tmp_path):
        with pytest.raises(DirectoryRefused, match="outside the allowed roots"):
            await it.engine.start(Start(prompt="go", cwd=str(wrong)))
    assert await it.events() == []
    started = await it.engine.start(Start(prompt="go", cwd=str(root / "within")))
    status = await it.until(started.session_id, "done")
    assert status.cwd == str(root / "within")


# Idempotency keys


@pytest.mark.simulated
async def test_the_same_key_starts_one_session(house: OpenEngine) -> None:
    it = await house("One.")
    request = Start(prompt="go", cwd=str(it.cwd), key="k")
    first, second = await asyncio.gather(it.engine.start(request), it.engine.start(request))
    assert first.session_id == second.session_id
    assert (first.repeated, second.repeated) == (False, True)
    await it.until(first.session_id, "done")
    await it.close()
    await it.open()
    later = await it.engine.start(request)
    assert (later.session_id, later.prompt_id, later.repeated) == (
        first.session_id,
        first.prompt_id,
        True,
    )
    assert (await it.engine.health()).sessions == 1


@pytest.mark.simulated
async def test_the_same_key_says_it_once(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    request = Say(content="more", key="k")
    told = await asyncio.gather(*(it.engine.say(session_id, request) for _ in range(3)))
    assert len({each.prompt_id for each in told}) == 1
    assert sorted(each.repeated for each in told) == [False, True, True]
    await it.when(session_id, lambda status: status.turns == 2)
    assert (await it.engine.say(session_id, request)).repeated
    assert len(await it.records(session_id, "prompt.said")) == 2


@pytest.mark.simulated
async def test_a_key_is_not_taken_for_another_request(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    request = Start(prompt="go", cwd=str(it.cwd), key="k")
    session_id = (await it.engine.start(request)).session_id
    await it.until(session_id, "done")
    with pytest.raises(KeyReused, match="use a new key"):
        await it.engine.start(Start(prompt="stay", cwd=str(it.cwd), key="k"))
    await it.engine.say(session_id, Say(content="more", key="k"))
    with pytest.raises(KeyReused):
        await it.engine.say(session_id, Say(content="less", key="k"))
    await it.when(session_id, lambda status: status.turns == 2)


@pytest.mark.simulated
async def test_a_request_that_was_refused_has_not_used_its_key(house: OpenEngine) -> None:
    it = await house("One.")
    missing = it.cwd / "later"
    request = Start(prompt="go", cwd=str(missing), key="k")
    with pytest.raises(DirectoryRefused):
        await it.engine.start(request)
    missing.mkdir()
    started = await it.engine.start(request)
    assert not started.repeated
    await it.until(started.session_id, "done")


# One writer


@pytest.mark.simulated
async def test_a_session_has_one_writer_also_across_processes(
    house: OpenEngine, tmp_path: Path
) -> None:
    shared = str(tmp_path / "run")
    it = await house("One.", "Two.", runtime_dir=shared)
    session_id = await it.done()
    other = await it.another(runtime_dir=shared, state_dir=str(tmp_path / "other"))
    with pytest.raises(SessionTaken, match=r"another process \(pid \d+\) runs session"):
        await other.say(session_id, Say(content="more"))
    await it.engine.stop(session_id)
    assert (await other.say(session_id, Say(content="more"))).resumed
    with pytest.raises(SessionTaken):
        await it.engine.say(session_id, Say(content="more"))
    await other.interrupt(session_id)


# Spending


async def test_a_session_that_spent_its_cap_gets_no_further_turn(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    request = Start(prompt="go", cwd=str(it.cwd), caps=Caps(session_usd=CENT))
    session_id = (await it.engine.start(request)).session_id
    status = await it.until(session_id, "done")
    assert status.cost_usd > CENT
    with pytest.raises(CapReached, match="start a new session, or raise session_cap_usd"):
        await it.say(session_id, "more")
    assert len(await it.records(session_id, "prompt.said")) == 1
    assert len(it.cli.requests) == 1


@pytest.mark.simulated
async def test_the_cap_of_the_settings_holds_where_a_session_has_none(house: OpenEngine) -> None:
    it = await house("One.", session_cap_usd=CENT)
    session_id = await it.done()
    with pytest.raises(CapReached, match="session_cap_usd"):
        await it.say(session_id, "more")


@pytest.mark.simulated
async def test_a_day_that_spent_its_cap_gets_no_further_turn_even_after_a_restart(
    house: OpenEngine,
) -> None:
    it = await house("One.", day_cap_usd=CENT)
    session_id = await it.done()
    for _ in range(2):
        with pytest.raises(CapReached, match="raise day_cap_usd"):
            await it.start("another")
        with pytest.raises(CapReached):
            await it.say(session_id, "more")
        await it.close()
        await it.open(day_cap_usd=CENT)
    report = await it.engine.cost("day")
    assert report.today_usd == report.total_usd > CENT
    assert report.day_cap_usd == CENT


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_what_is_queued_begins_no_turn_beyond_the_cap(house: OpenEngine) -> None:
    it = await house(reply("One", gate("held")), session_cap_usd=CENT)
    session_id = await it.start()
    await it.cli.reached("held")
    await it.when(session_id, lambda status: status.live and not status.queued)
    assert (await it.engine.say(session_id, Say(content="more"))).queued
    it.cli.release("held")
    status = await it.when(session_id, lambda status: status.turns == 1 and not status.queued)
    assert (status.state, status.result) == ("done", "One")
    assert len(it.cli.requests) == 1


@pytest.mark.simulated
async def test_below_the_cap_what_is_queued_runs_after_the_turn(house: OpenEngine) -> None:
    it = await house(reply("One", gate("held")), "Two.", "Three.", session_cap_usd=1000)
    session_id = await it.start()
    await it.cli.reached("held")
    for words in ("more", "and more"):
        await it.say(session_id, words)
    it.cli.release("held")
    status = await it.when(session_id, lambda status: status.turns == 3)
    assert (status.state, status.result, status.queued) == ("done", "Three.", [])


async def test_costs_are_summed_by_turn_session_project_and_day(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    await it.say(session_id, "more")
    await it.when(session_id, lambda status: status.turns == 2)
    await it.events()
    status = await it.engine.status(session_id)
    turns = await it.engine.cost("turn", session_id=session_id)
    assert [line.turns for line in turns.lines] == [1, 1]
    of_session, of_project = await it.engine.cost("session"), await it.engine.cost("project")
    for report, group in ((of_session, session_id), (of_project, str(it.cwd))):
        [line] = report.lines
        assert (line.group, line.turns) == (group, 2)
        assert line.usd == pytest.approx(status.cost_usd)
        assert line.tokens == status.tokens
    assert turns.total_usd == pytest.approx(status.cost_usd)


@pytest.mark.simulated
async def test_what_no_cli_can_be_given_is_refused_before_anything_is_kept(
    house: OpenEngine,
) -> None:
    it = await house("One.", strict=False)
    impossible: list[dict[str, Any]] = [
        {"max_turns": -5},
        {"model": "a\0b"},
        {"env": {"MY_TOKEN": "a\0b"}},
        {"env": {"MY_TOKEN": "x" * 200_000}},
        {"settings": {"a": "x" * 5_000_000}},
        {"settings": {"a": [[0]] * 500_000}},
        {"mcp_servers": {"a": {"b": "x" * 5_000_000}}},
    ]
    for given in impossible:
        with pytest.raises(InvalidOption):
            await it.start(**given)
    assert await it.events() == []
    session_id = await it.done()
    with pytest.raises(InvalidOption, match="model has a null byte"):
        await it.engine.set_model(session_id, "a\0b")
    with pytest.raises(InvalidOption, match="max_thinking_tokens is 0 to"):
        await it.engine.set_thinking(session_id, -5)
    with pytest.raises(InvalidOption, match="mcp_servers has"):
        await it.engine.mcp_set(session_id, {"a": {"b": "x" * 5_000_000}})
    with pytest.raises(UsageError, match="the uuid of a message"):
        await it.engine.fork(session_id, Fork(prompt="aside", at="a\0b"))
    fork = Fork(prompt="aside", options=SessionOptions(max_turns=-5))
    with pytest.raises(InvalidOption):
        await it.engine.fork(session_id, fork)
    assert await it.records(session_id, "options.changed") == []


@pytest.mark.simulated
async def test_others_are_served_while_long_options_are_looked_at(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await house("One.", strict=False)
    looking, looked = threading.Event(), threading.Event()

    def look(_: SessionOptions) -> None:
        looking.set()
        assert looked.wait(DEADLINE)

    monkeypatch.setattr(session_verbs, "check_values", look)
    starting = asyncio.ensure_future(it.start())
    assert await asyncio.to_thread(looking.wait, DEADLINE)
    assert (await it.engine.health()).ok
    looked.set()
    await it.until(await starting, "done")
