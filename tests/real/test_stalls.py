"""A real CLI that says nothing: what it waits for is told. Row E3 of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from pilothouse import Hooks, PermissionRequest, Stalled, WaitingOn
from pilothouse_sim.scenario import ApiError, gate, reply, text, tool
from tests.support.real.desk import OpenDesk
from tests.support.real.turns import HeldCommand, allow, next_of
from tests.support.versions import Since, since
from tests.support.waiting import DEADLINE

QUIET = 0.5
"""Seconds of silence that are told. Only what is told counts here, not when."""


async def test_a_model_that_falls_silent_is_told(desk: OpenDesk) -> None:
    # E3
    it = await desk(reply(text("one "), gate("held"), text("two")))
    client = await it.client(stall_after=QUIET)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        stalled = await next_of(client, Stalled)
        assert client.waiting_on == WaitingOn("api", "the model's answer")
        it.model.release("held")
        assert (await prompt).text == "one two"
        await client.wait_idle()
    assert stalled.waiting_on == WaitingOn("api", "the model's answer")
    assert stalled.seconds >= QUIET
    assert client.waiting_on is None


@since(Since.REPORTS_RETRIES)
async def test_a_call_that_is_tried_again_is_told_with_its_cause(desk: OpenDesk) -> None:
    it = await desk(ApiError(status=529, headers={"retry-after": "30"}))
    client = await it.client(stall_after=QUIET)
    async with asyncio.timeout(DEADLINE):
        await client.say("hi")
        while "retry" not in (stalled := await next_of(client, Stalled)).waiting_on.detail:
            pass
    assert stalled.waiting_on.what == "api"
    assert "529" in stalled.waiting_on.detail


async def test_a_tool_that_runs_long_is_named(desk: OpenDesk) -> None:
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.call), reply("done"))
        client = await it.client(stall_after=QUIET, on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            prompt = await client.say("work")
            await held.running.wait()
            while (stalled := await next_of(client, Stalled)).waiting_on.what != "tool":
                pass
            held.release()
            assert (await prompt).outcome == "finished"
    assert stalled.waiting_on == WaitingOn("tool", "Bash")


async def test_a_person_who_thinks_is_named_with_what_was_asked(desk: OpenDesk) -> None:
    # B13
    decided = asyncio.Event()

    async def think(request: PermissionRequest) -> Any:
        await decided.wait()
        return await allow(request)

    it = await desk(reply(tool("Bash", command="touch made", description="make")), reply("done"))
    client = await it.client(stall_after=QUIET, on_permission=think)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("make it")
        while (stalled := await next_of(client, Stalled)).waiting_on.what != "person":
            pass
        decided.set()
        await prompt
    assert stalled.waiting_on == WaitingOn("person", "Bash")
    assert (it.cwd / "made").exists()


async def test_a_hook_that_takes_long_is_named(desk: OpenDesk) -> None:
    hooks, decided = Hooks(), asyncio.Event()

    @hooks.on("UserPromptSubmit")
    async def ponder(_: Any) -> None:
        await decided.wait()

    it = await desk(reply("done"))
    client = await it.client(stall_after=QUIET, hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        while (stalled := await next_of(client, Stalled)).waiting_on.what != "hook":
            pass
        decided.set()
        assert (await prompt).outcome == "finished"
    assert stalled.waiting_on.detail


@since(Since.TURNS_ABOUT_TASKS)
async def test_background_work_is_named_when_nothing_else_runs(desk: OpenDesk) -> None:
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.background_call), reply("it runs"), reply("over"))
        client = await it.client(stall_after=QUIET, on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            await client.ask("start it")
            await held.running.wait()
            stalled = await next_of(client, Stalled)
            held.release()
    assert stalled.waiting_on == WaitingOn("background", "wait for the test")


async def test_an_idle_session_is_not_stalled(desk: OpenDesk) -> None:
    it = await desk(reply("one"), reply(gate("held"), "two"))
    client = await it.client(stall_after=QUIET)
    async with asyncio.timeout(DEADLINE):
        await client.ask("1")
        await client.wait_idle()
        assert client.waiting_on is None
        client._report_stall(QUIET)
        prompt = await client.say("2")
        await it.model.reached("held")
        stalled = await next_of(client, Stalled)
        it.model.release("held")
        await prompt
    assert stalled.waiting_on.what == "api"
