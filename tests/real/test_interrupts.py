"""Interrupts of real CLIs, told apart from failures: rows D1 to D3 and B12 of the protocol."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pilothouse import (
    Allow,
    AssistantMessage,
    Client,
    Deny,
    PermissionRequest,
    ResultMessage,
    StreamEvent,
    Turn,
    UserMessage,
    WaitingOn,
)
from pilothouse.protocol import ControlCancelRequest
from pilothouse_sim.scenario import gate, reply, text, tool
from tests.support.real.desk import OpenDesk, conversation
from tests.support.real.turns import HeldCommand, allow, unread
from tests.support.versions import NEWEST, Since, can
from tests.support.waiting import DEADLINE

OLDEST = "2.1.37"


def result_of(turn: Turn) -> ResultMessage:
    assert turn.result is not None
    return turn.result


def check_interrupted(turn: Turn, version: str, reason: str) -> None:
    """An interrupt is told by the outcome; the fields it is told from differ by version."""
    result = result_of(turn)
    assert turn.outcome == "interrupted"
    is_told = can(version, Since.GIVES_REASONS)
    assert turn.reason == (reason if is_told else "error_during_execution")
    assert result.subtype == "error_during_execution"
    assert result.is_error == is_told
    assert bool(result.errors) == is_told


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_interrupt_in_the_middle_of_text(desk: OpenDesk) -> None:
    # D1
    it = await desk(reply(text("one "), gate("held"), text("two")), reply("again"))
    client = await it.client(include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await spoken(client, "one ")
        await client.interrupt()
        turn = await prompt
        events = await unread(client)
        assert (await client.ask("next")).outcome == "finished"
        await client.wait_idle()
    check_interrupted(turn, it.version, "aborted_streaming")
    assert turn.prompts == (prompt.uuid,)
    said = [event.text for event in events if isinstance(event, AssistantMessage)]
    assert said == (["one "] if can(it.version, Since.KEEPS_CUT_TEXT) else [])
    users = [event.text for event in events if isinstance(event, UserMessage)]
    assert "[Request interrupted by user]" in users
    assert "next" in conversation(it)[-1].last


async def test_interrupt_before_the_model_said_anything(desk: OpenDesk) -> None:
    it = await desk(reply(gate("held"), "too late"), reply("again"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        await client.interrupt()
        turn = await prompt
        assert (await client.ask("next")).text == "again"
    check_interrupted(turn, it.version, "aborted_streaming")


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_interrupt_in_the_middle_of_a_tool_kills_it(desk: OpenDesk) -> None:
    # D2
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.call), reply("again"))
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            prompt = await client.say("work")
            await held.running.wait()
            await client.interrupt()
            turn = await prompt
            await held.ended.wait()
            assert (await client.ask("next")).text == "again"
        assert not held.released
    check_interrupted(turn, it.version, "aborted_tools")
    assert client.turns.tools == {}


async def test_interrupt_while_a_person_is_asked_takes_the_question_back(desk: OpenDesk) -> None:
    # D3
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def think(_: PermissionRequest) -> Allow:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return Allow()

    it = await desk(reply(tool("Bash", command="touch made", description="make")), reply("again"))
    client = await it.client(on_permission=think)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("make it")
        await asked.wait()
        assert client.waiting_on == WaitingOn("person", "Bash")
        await client.interrupt()
        await withdrawn.wait()
        turn = await prompt
        events = await unread(client)
        assert client.waiting_on is None
        assert (await client.ask("next")).text == "again"
    check_interrupted(turn, it.version, "aborted_tools")
    assert [denial.tool_name for denial in result_of(turn).permission_denials] == ["Bash"]
    assert any(isinstance(event, ControlCancelRequest) for event in events)
    assert not (it.cwd / "made").exists()


async def test_interrupt_of_an_idle_session_changes_nothing(desk: OpenDesk) -> None:
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert (await client.interrupt()).still_queued == []
        assert (await client.ask("1")).text == "one"
        await client.wait_idle()
        await client.interrupt()
        assert client.idle
        assert (await client.ask("2")).outcome == "finished"


async def test_a_prompt_queued_before_an_interrupt_still_gets_its_turn(desk: OpenDesk) -> None:
    # D13
    it = await desk(reply(text("one "), gate("held")), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        second = await client.say("2")
        receipt = await client.interrupt()
        stopped, answered = await first, await second
        await client.wait_idle()
    is_told = can(it.version, Since.TELLS_WHAT_IS_QUEUED)
    assert receipt.still_queued == ([second.uuid] if is_told else [])
    assert (stopped.outcome, stopped.prompts) == ("interrupted", (first.uuid,))
    assert (answered.outcome, answered.prompts) == ("finished", (second.uuid,))
    assert answered.text == "two"


async def test_a_denial_that_stops_ends_the_turn_as_interrupted(desk: OpenDesk) -> None:
    # B12
    async def stop(_: PermissionRequest) -> Deny:
        return Deny("Enough.", stop=True)

    it = await desk(reply(tool("Bash", command="touch made", description="make")), reply("again"))
    client = await it.client(on_permission=stop)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
        assert len(conversation(it)) == 1
        assert (await client.ask("next")).text == "again"
    check_interrupted(turn, it.version, "aborted_tools")
    assert not (it.cwd / "made").exists()


async def spoken(client: Client, words: str) -> None:
    """Reads on until these words have come as partial text."""
    async with aclosing(client.read()) as events:
        async for event in events:
            if isinstance(event, StreamEvent) and event.text == words:
                return
