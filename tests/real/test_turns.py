"""Turns of real CLIs: plain, several, folded, started by the CLI itself, interrupted, failed."""

from __future__ import annotations

import asyncio

from pilothouse.testing.scenario import gate, reply, text

from tests.real.desk import DEADLINE, Setup


async def test_a_plain_turn_finishes_with_the_models_text(desk: Setup) -> None:
    it = await desk(reply("Hello there"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
        await client.wait_idle()
    assert (turn.outcome, turn.text) == ("finished", "Hello there")
    assert client.idle


async def test_interrupt_in_the_middle_of_text_is_told_apart(desk: Setup) -> None:
    it = await desk(reply(text("one "), gate("held"), text("two")), reply("again"))
    client = await it.client(include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        await client.interrupt()
        turn = await prompt
        assert turn.outcome == "interrupted"
        assert (await client.ask("next")).outcome == "finished"
