"""How sessions with real CLIs end, and who hears of it: rows D4 to D12 of the protocol."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing, suppress
from typing import Any

import pytest

from pilothouse import (
    Client,
    PermissionRequest,
    Prompt,
    ResultMessage,
    SessionEnded,
    StreamEvent,
    Turn,
    Unsupported,
)
from pilothouse_sim.scenario import ApiError, Text, gate, reply, text, tool
from tests.support.real.desk import OpenDesk, conversation
from tests.support.real.turns import HeldCommand, allow
from tests.support.versions import Since, can
from tests.support.waiting import DEADLINE


def kill(client: Client, number: signal.Signals) -> None:
    assert client.pid is not None
    os.kill(client.pid, number)


async def read_all(client: Client) -> list[Any]:
    async with aclosing(client.read()) as events:
        return [event async for event in events]


async def error_of(awaitable: Any) -> SessionEnded:
    with pytest.raises(SessionEnded) as ended:
        await awaitable
    return ended.value


async def last_turn(client: Client, prompt: Prompt) -> tuple[Turn | None, SessionEnded]:
    """The turn of a prompt, if it had an end, and the end of the session."""
    turn = None
    with suppress(SessionEnded):
        turn = await prompt
    with suppress(SessionEnded):
        await read_all(client)
    return turn, await error_of(client.say("more"))


async def test_every_waiter_gets_the_same_end_when_the_cli_is_killed(desk: OpenDesk) -> None:
    asked, dropped = asyncio.Event(), asyncio.Event()

    async def think(_: PermissionRequest) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()

    it = await desk(reply(tool("Bash", command="touch made", description="make")))
    client = await it.client(on_permission=think)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("work")
        await asked.wait()
        queued = await client.say("and this")
        waiting = [
            asyncio.ensure_future(error_of(each))
            for each in (prompt, queued, client.wait_idle(), read_all(client))
        ]
        kill(client, signal.SIGKILL)
        errors = await asyncio.gather(*waiting)
        await dropped.wait()
        errors += [
            await error_of(late)
            for late in (client.say("late"), client.interrupt(), client.wait_idle())
        ]
    assert {id(error) for error in errors} == {id(errors[0])}
    assert (errors[0].signal, errors[0].exit_code) == (signal.SIGKILL, None)
    assert "signal 9" in str(errors[0])
    assert not (it.cwd / "made").exists()


async def test_a_request_that_waits_gets_the_end_too(desk: OpenDesk) -> None:
    it = await desk()
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        kill(client, signal.SIGSTOP)
        asking = asyncio.ensure_future(error_of(client.interrupt()))
        asyncio.get_running_loop().call_soon(kill, client, signal.SIGKILL)
        error = await asking
    assert error.signal == signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
async def test_a_terminated_cli_tells_how_it_ended(desk: OpenDesk, number: signal.Signals) -> None:
    # D5: the oldest leave it to the kernel, or not, as it happens. 2.1.235 alone may interrupt the
    # turn before it ends.
    it = await desk(reply(text("one "), gate("held")))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        kill(client, number)
        turn, error = await last_turn(client, prompt)
    ending = (error.exit_code, error.signal)
    is_left_to_kernel = not can(it.version, Since.ENDS_BY_ITSELF)
    assert ending == (128 + number, None) or (is_left_to_kernel and ending == (None, number))
    may_be_told = can(it.version, Since.MAY_INTERRUPT_AT_TERM)
    may_be_told = may_be_told and not can(it.version, Since.JUST_ENDS_AT_TERM)
    assert turn is None or (may_be_told and turn.outcome == "interrupted")


async def test_sigint_ends_the_process_not_the_turn(desk: OpenDesk) -> None:
    # D4: newer CLIs give the turn an end first, in most runs; the oldest just end, by the signal or
    # with 0.
    it = await desk(reply(text("one "), gate("held")))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        kill(client, signal.SIGINT)
        turn, error = await last_turn(client, prompt)
    ending = (error.exit_code, error.signal)
    is_left_to_kernel = not can(it.version, Since.ENDS_BY_ITSELF)
    assert ending == (0, None) or (is_left_to_kernel and ending == (None, signal.SIGINT))
    may_be_told = can(it.version, Since.GIVES_REASONS)
    assert turn is None or (may_be_told and turn.outcome == "interrupted")


async def test_the_input_may_end_while_the_turn_goes_on(desk: OpenDesk) -> None:
    # D6
    it = await desk(reply(text("one "), gate("held"), text("two")))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        client.close_input()
        it.model.release("held")
        assert (await prompt).text == "one two"
        assert [e.result for e in await read_all(client) if isinstance(e, ResultMessage)] == [
            "one two"
        ]
        assert (await error_of(client.wait_idle())).exit_code == 0


async def test_the_end_of_the_input_denies_what_is_being_asked(desk: OpenDesk) -> None:
    # D7
    asked = asyncio.Event()

    async def think(_: PermissionRequest) -> Any:
        asked.set()
        await asyncio.Event().wait()

    it = await desk(reply(tool("Bash", command="touch made", description="m")), reply("I see"))
    client = await it.client(on_permission=think)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("make it")
        await asked.wait()
        client.close_input()
        assert (await prompt).text == "I see"
        await read_all(client)
    assert "closed" in conversation(it)[-1].last
    assert not (it.cwd / "made").exists()


async def test_the_exit_code_repeats_how_the_last_turn_ended(desk: OpenDesk) -> None:
    # D9: 1 after a failed turn. It is no error of its own: the turn has told it.
    refused = [ApiError(status=400) for _ in range(10)]
    it = await desk(*refused)
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        client.close_input()
        assert (await prompt).outcome == "failed"
        await read_all(client)
        assert (await error_of(client.say("more"))).exit_code == 1


async def test_a_reached_limit_is_an_error_code_on_newer_clis_only(desk: OpenDesk) -> None:
    # D9
    call = tool("Bash", command="ls", description="list")
    it = await desk(reply(call), reply(call), reply("done"))
    client = await it.client(max_turns=1, on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        client.close_input()
        assert (await prompt).reason in ("max_turns", "error_max_turns")
        await read_all(client)
        code = (await error_of(client.say("more"))).exit_code
    assert code == (1 if can(it.version, Since.GIVES_REASONS) else 0)


async def test_end_session_lets_the_cli_go_where_it_knows_how(desk: OpenDesk) -> None:
    it = await desk(reply("one"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("1")
        if can(it.version, Since.ENDS_SESSIONS):
            await client.end_session()
            await read_all(client)
            assert (await error_of(client.say("more"))).exit_code == 0
        else:
            with pytest.raises(Unsupported):
                await client.end_session()


async def test_closing_a_client_stops_its_turn_and_its_tool(desk: OpenDesk) -> None:
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.call))
        async with asyncio.timeout(DEADLINE):
            async with Client(it.options(on_permission=allow)) as client:
                prompt = await client.say("work")
                await held.running.wait()
            await held.ended.wait()
        assert not held.released
    assert prompt.answered
    with pytest.raises(ProcessLookupError):
        kill(client, signal.SIGCONT)


async def test_a_session_closed_twice_is_closed_once(desk: OpenDesk) -> None:
    it = await desk(reply("one"))
    async with asyncio.timeout(DEADLINE):
        async with Client(it.options()) as client:
            await client.ask("1")
            await asyncio.gather(client.aclose(), client.aclose())
        await client.aclose()
        assert (await error_of(client.say("more"))).exit_code == 0


async def test_a_reader_that_stalls_loses_nothing_and_holds_nobody_up(desk: OpenDesk) -> None:
    # D12
    asked: list[str] = []

    async def remember(request: PermissionRequest) -> Any:
        asked.append(request.tool_name)
        return await allow(request)

    pieces = [f"{n:05d}-{'z' * 250} " for n in range(4000)]
    it = await desk(
        reply(
            Text(chunks=tuple(pieces)),
            tool("Bash", command="touch made", description="make"),
        ),
        reply("done"),
    )
    client = await it.client(include_partial_messages=True, on_permission=remember)
    async with asyncio.timeout(DEADLINE):
        turn = await (await client.say("talk"))
        client.close_input()
        events = await read_all(client)
    heard = "".join(e.text for e in events if isinstance(e, StreamEvent) and e.text)
    assert heard == "".join(pieces) + "done"
    assert (turn.outcome, asked) == ("finished", ["Bash"])
    assert (it.cwd / "made").exists()
