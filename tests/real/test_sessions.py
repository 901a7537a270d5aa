"""Sessions of real CLIs on disk: kept, resumed, continued, forked. Section F of the protocol."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pilothouse import AssistantMessage, Client, SessionEnded, Turn
from pilothouse.protocol import ConversationResetMessage
from pilothouse_sim.scenario import reply
from tests.support.real.desk import Desk, OpenDesk, conversation
from tests.support.real.turns import unread
from tests.support.versions import NEWEST, Since, can
from tests.support.waiting import DEADLINE


def transcripts(it: Desk) -> list[Path]:
    return sorted((it.home / ".claude/projects").glob("*/*.jsonl"))


def told(it: Desk) -> str:
    """The whole conversation the model was last given."""
    return json.dumps(conversation(it)[-1].body["messages"])


async def talk(it: Desk, *prompts: str, **options: Any) -> tuple[Client, list[Turn]]:
    """A session from its start to its end."""
    async with Client(it.options(**options)) as client:
        turns = [await client.ask(prompt) for prompt in prompts]
    return client, turns


async def test_a_session_is_kept_under_its_directory_and_id(desk: OpenDesk) -> None:
    # F1, F2, F3
    it = await desk(reply("noted"))
    async with asyncio.timeout(DEADLINE):
        client, [turn] = await talk(it, "remember the number 7")
    [kept] = transcripts(it)
    assert kept.parent.name == re.sub(r"[^A-Za-z0-9]", "-", str(it.cwd.resolve()))
    assert kept.stem == client.session_id
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    [prompt] = [line for line in lines if line["type"] == "user"]
    assert prompt["message"]["content"] == "remember the number 7"
    assert prompt["uuid"] == turn.prompts[0]
    assert prompt["sessionId"] == client.session_id
    assert "assistant" in {line["type"] for line in lines}
    assert not (it.home / ".claude/history.jsonl").exists()


async def test_a_session_that_is_not_kept_leaves_no_file(desk: OpenDesk) -> None:
    # F4
    it = await desk(reply("noted"))
    async with asyncio.timeout(DEADLINE):
        _, [turn] = await talk(it, "keep nothing", persist_session=False)
    assert turn.outcome == "finished"
    assert transcripts(it) == []


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_a_resumed_session_goes_on_under_its_id(desk: OpenDesk) -> None:
    # F4: what was said before reaches the model, not our stdout.
    it = await desk(reply("noted"), reply("it was 7"))
    async with asyncio.timeout(DEADLINE):
        earlier, _ = await talk(it, "remember the number 7")
        client = await it.client(resume=earlier.session_id)
        assert client.session_id == earlier.session_id
        turn = await (await client.say("which number?"))
        events = await unread(client)
    assert (turn.outcome, turn.text) == ("finished", "it was 7")
    assert turn.result is not None
    assert turn.result.session_id == earlier.session_id
    said = [event.text for event in events if isinstance(event, AssistantMessage)]
    assert said == ["it was 7"]
    assert "remember the number 7" in told(it)
    assert len(transcripts(it)) == 1


async def test_the_cost_of_a_resumed_turn_is_its_own(desk: OpenDesk) -> None:
    # E8: the newest counts on from what the session had cost.
    it = await desk(reply("one"), reply("two"))
    async with asyncio.timeout(DEADLINE):
        earlier, [one] = await talk(it, "1")
        _, [two] = await talk(it, "2", resume=earlier.session_id)
    assert two.cost_usd == pytest.approx(one.cost_usd)
    assert two.result is not None
    is_counted_on = can(it.version, Since.RESUMES_COSTS)
    total = two.result.total_cost_usd
    assert total == pytest.approx((2 if is_counted_on else 1) * one.cost_usd)
    own = [each.cost_usd for each in two.result.model_usage_since_last_result.values()]
    assert own == ([pytest.approx(one.cost_usd)] if is_counted_on else [])


async def test_the_latest_session_of_a_directory_is_continued(desk: OpenDesk) -> None:
    it = await desk(reply("noted"), reply("it was 7"))
    async with asyncio.timeout(DEADLINE):
        earlier, _ = await talk(it, "remember the number 7")
        client = await it.client(continue_latest=True)
        assert client.session_id is None
        turn = await client.ask("which number?")
    assert turn.text == "it was 7"
    # 2.1.92 begins anew.
    is_passed_over = can(it.version, Since.PASSES_OVER_PROGRAMS)
    is_found = not is_passed_over or can(it.version, Since.CONTINUES_PROGRAMS_AGAIN)
    assert (client.session_id == earlier.session_id) == is_found
    assert ("remember the number 7" in told(it)) == is_found


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_fork_goes_on_under_an_id_of_its_own(desk: OpenDesk) -> None:
    # F4
    it = await desk(reply("noted"), reply("forked"), reply("original"))
    async with asyncio.timeout(DEADLINE):
        earlier, _ = await talk(it, "remember the number 7")
        fork, _ = await talk(it, "in the fork", resume=earlier.session_id, fork_session=True)
        assert "remember the number 7" in told(it)
        await talk(it, "in the original", resume=earlier.session_id)
    assert fork.session_id is not None
    assert fork.session_id != earlier.session_id
    assert "in the fork" not in told(it)
    assert {path.stem for path in transcripts(it)} == {fork.session_id, earlier.session_id}


async def test_a_session_can_be_resumed_at_an_earlier_message(desk: OpenDesk) -> None:
    # F4
    it = await desk(reply("one"), reply("two"), reply("three"))
    async with asyncio.timeout(DEADLINE):
        async with Client(it.options()) as earlier:
            await (await earlier.say("first words"))
            [line] = [e for e in await unread(earlier) if isinstance(e, AssistantMessage)]
            await earlier.ask("second words")
        _, [turn] = await talk(
            it, "third words", resume=earlier.session_id, resume_session_at=line.uuid
        )
    assert turn.text == "three"
    assert "first words" in told(it)
    assert "second words" not in told(it)


async def test_a_session_that_is_not_there_cannot_be_resumed(desk: OpenDesk) -> None:
    # F4
    missing = "00000000-0000-4000-8000-000000000000"
    it = await desk(reply("never said"))
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded) as ended:
            async with Client(it.options(resume=missing)) as client:
                await client.ask("hi")
    assert ended.value.exit_code == 1
    assert "No conversation found with session ID" in str(ended.value)
    assert it.model.requests == []


async def test_a_session_id_cannot_be_given_to_a_second_session(desk: OpenDesk) -> None:
    # F4
    it = await desk(reply("one"), reply("never said"))
    async with asyncio.timeout(DEADLINE):
        earlier, _ = await talk(it, "1")
        with pytest.raises(SessionEnded, match="already in use") as ended:
            await talk(it, "2", session_id=earlier.session_id)
    assert ended.value.exit_code == 1


async def test_two_processes_may_hold_one_session(desk: OpenDesk) -> None:
    # F4: there is no lock.
    it = await desk(reply("one"), reply("two"), reply("three"))
    async with asyncio.timeout(DEADLINE):
        first = await it.client()
        await first.ask("1")
        second = await it.client(resume=first.session_id)
        assert (await second.ask("2")).text == "two"
        assert (await first.ask("3")).text == "three"


async def test_clear_begins_a_new_conversation(desk: OpenDesk) -> None:
    # F4, A21: 2.1.119 takes another id and keeps the conversation; older ones keep both.
    it = await desk(reply("noted"), reply("which one?"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        noted = await client.ask("remember the number 7")
        before = client.session_id
        cleared = await (await client.say("/clear"))
        await client.wait_idle()
        lines = await unread(client)
        after = await client.ask("which number?")
        await client.wait_idle()
    resets = [event for event in lines if isinstance(event, ConversationResetMessage)]
    assert len(resets) == (1 if can(it.version, Since.TELLS_RESETS) else 0)
    assert cleared.outcome == "finished"
    assert after.text == "which one?"
    assert (client.session_id != before) == can(it.version, Since.RENAMES_WHEN_CLEARED)
    is_forgotten = "remember the number 7" not in told(it)
    assert is_forgotten == can(it.version, Since.FORGETS_WHEN_CLEARED)
    assert after.cost_usd == pytest.approx(noted.cost_usd)
    assert after.result is not None
    assert after.result.session_id == client.session_id


async def test_a_session_moves_with_its_configuration_not_its_directory(desk: OpenDesk) -> None:
    # F4: newer CLIs find it from another directory.
    it = await desk(reply("noted"), reply("found"))
    elsewhere = it.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    async with asyncio.timeout(DEADLINE):
        earlier, _ = await talk(it, "remember the number 7")
        if can(it.version, Since.RESUMES_FROM_ELSEWHERE):
            _, [turn] = await talk(it, "hi", resume=earlier.session_id, cwd=elsewhere)
            assert turn.text == "found"
        else:
            with pytest.raises(SessionEnded, match="No conversation found"):
                await talk(it, "hi", resume=earlier.session_id, cwd=elsewhere)
