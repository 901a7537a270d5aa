"""The client against a CLI played in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from pilothouse import (
    Allow,
    Client,
    ControlError,
    ControlTimeout,
    Deny,
    InvalidOption,
    LineRejected,
    Options,
    PermissionRequest,
    ResultMessage,
    SessionEnded,
    Stalled,
    ToolServer,
    Unsupported,
    UsageError,
    UserMessage,
    WithUpdates,
)
from pilothouse.client.turns import Turn, TurnTracker
from pilothouse.protocol import ControlResponse, Message
from pilothouse.transport.base import LONGEST_LINE
from pilothouse_sim.scripted_cli import ScriptedCLI
from tests.support.waiting import DEADLINE

BASH = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1"}


@pytest.fixture(autouse=True)
async def deadline() -> Any:
    async with asyncio.timeout(DEADLINE):
        yield


def done(uuid: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "user_message_uuid": uuid, **fields}


async def ask(cli: ScriptedCLI, **fields: Any) -> ControlResponse:
    return await cli.ask("can_use_tool", **{**BASH, **fields})[1]


# Prompts and turns


async def test_a_prompt_carries_our_own_uuid_and_no_session() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say(["look", {"type": "image", "source": {}}])
        sent = await cli.prompts.get()
        assert sent.uuid == prompt.uuid
        assert sent.session_id == ""
        assert [block.type for block in sent.content] == ["text", "image"]


async def test_awaiting_a_prompt_gives_its_turn() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
        cli.write(done(prompt.uuid, result="hello", total_cost_usd=0.5))
        turn = await prompt
        assert (turn.outcome, turn.text, turn.cost_usd) == ("finished", "hello", 0.5)
        assert await prompt is turn
        assert client.last_turn is turn


async def test_a_cancelled_waiter_does_not_lose_the_turn() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(prompt, 0.01)
        cli.write(done(prompt.uuid))
        assert (await prompt).outcome == "finished"


async def test_every_message_is_read_in_order_and_none_is_lost_when_reading_stops() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        cli.write(*({"type": "new_kind", "n": n} for n in range(10)))
        seen = []
        async for event in client:
            if getattr(event, "type", "") == "new_kind":
                seen.append(event.extra["n"])  # pyright: ignore[reportAttributeAccessIssue]
            if len(seen) == 4:
                break
        async for event in client:
            seen.append(event.extra["n"])  # pyright: ignore[reportAttributeAccessIssue]
            if len(seen) == 10:
                break
        assert seen == list(range(10))


async def test_two_readers_at_once_are_refused() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        async for event in client:
            if isinstance(event, ControlResponse):
                break
        first = asyncio.ensure_future(anext(client.read()))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="already reading"):
            await anext(client.read())
        first.cancel()


async def test_noise_is_shown_and_the_session_goes_on() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        cli.write_bytes(b"[debug] hello\n")
        cli.write({"type": "user", "message": {"role": "user", "content": "x"}})
        kinds = []
        async for event in client:
            kinds.append(type(event))
            if isinstance(event, UserMessage):
                break
        assert LineRejected in kinds


async def test_a_line_without_end_is_dropped_alone_and_shown_with_its_size() -> None:
    cli = ScriptedCLI()
    part = b"x" * (1024 * 1024)
    parts = LONGEST_LINE // len(part) + 8
    async with Client(transport=cli.transport) as client:
        for _ in range(parts):
            cli.write_bytes(part)
        cli.write_bytes(b"\n")
        cli.write({"type": "user", "message": {"role": "user", "content": "x"}})
        events = [event async for event in until(client, UserMessage)]
    [rejected] = [event for event in events if isinstance(event, LineRejected)]
    assert rejected.size == parts * len(part)
    assert len(rejected.line) < 10_000


async def until(client: Client, kind: type[Message]) -> AsyncIterator[object]:
    async for event in client:
        yield event
        if isinstance(event, kind):
            return


async def test_an_empty_prompt_is_refused_before_it_is_sent() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        for empty in ("", []):
            with pytest.raises(UsageError):
                await client.say(empty)
        assert cli.prompts.empty()


# The reader waits for nobody


async def test_a_permission_is_answered_before_ten_thousand_unread_messages_are_read() -> None:
    cli = ScriptedCLI()
    asked: list[str] = []

    async def allow(request: PermissionRequest) -> Allow:
        asked.append(request.tool_name)
        return Allow()

    async with Client(Options(on_permission=allow), transport=cli.transport) as client:
        cli.write(*({"type": "new_kind", "n": n} for n in range(10_000)))
        answer = await ask(cli)
        assert answer.response["behavior"] == "allow"
        assert asked == ["Bash"]
        unread = [event async for event in _until_closed(client)]
        assert sum(getattr(event, "type", "") == "new_kind" for event in unread) == 10_000


async def _until_closed(client: Client) -> AsyncIterator[Any]:
    events = client.read()
    await client.aclose()
    async for event in events:
        yield event


async def test_a_slow_handler_holds_up_neither_messages_nor_other_requests() -> None:
    cli, hold = ScriptedCLI(), asyncio.Event()

    async def decide(request: PermissionRequest) -> Allow:
        if request.tool_name == "Slow":
            await hold.wait()
        return Allow()

    async with Client(Options(on_permission=decide), transport=cli.transport) as client:
        _, slow = cli.ask("can_use_tool", **{**BASH, "tool_name": "Slow"})
        prompt = await client.say("hi")
        assert (await ask(cli)).response["behavior"] == "allow"
        cli.write(done(prompt.uuid))
        assert (await prompt).outcome == "finished"
        assert not slow.done()
        hold.set()
        assert (await slow).response["behavior"] == "allow"


# Permissions


async def test_a_withdrawn_permission_cancels_its_handler_and_gets_no_answer() -> None:
    cli = ScriptedCLI()
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(request: PermissionRequest) -> Allow:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Allow()

    async with Client(Options(on_permission=wait), transport=cli.transport):
        request_id, answer = cli.ask("can_use_tool", **BASH)
        await asked.wait()
        cli.withdraw(request_id)
        await cancelled.wait()
        assert not answer.done()


async def test_a_permission_withdrawn_at_once_leaves_the_next_answer_alone() -> None:
    async def allow(request: PermissionRequest) -> Allow:
        return Allow()

    cli = ScriptedCLI()
    async with Client(Options(on_permission=allow), transport=cli.transport):
        request = {"subtype": "can_use_tool", **BASH}
        asked = {"type": "control_request", "request_id": "x", "request": request}
        cli.write(asked, {"type": "control_cancel_request", "request_id": "x"})
        assert (await ask(cli)).response["behavior"] == "allow"


async def test_a_handler_that_raises_denies_with_the_reason() -> None:
    async def broken(request: PermissionRequest) -> Allow:
        raise LookupError("no policy for this")

    cli = ScriptedCLI()
    async with Client(Options(on_permission=broken), transport=cli.transport):
        response = (await ask(cli)).response
        assert response["behavior"] == "deny"
        assert "no policy for this" in response["message"]


async def test_an_answer_that_is_none_denies() -> None:
    async def forgetful(request: PermissionRequest) -> Any:
        return None

    cli = ScriptedCLI()
    async with Client(Options(on_permission=forgetful), transport=cli.transport):
        assert (await ask(cli)).response["behavior"] == "deny"


async def test_bypass_in_an_answer_is_refused() -> None:
    async def generous(request: PermissionRequest) -> WithUpdates:
        return WithUpdates(Allow(), mode="bypassPermissions")

    cli = ScriptedCLI()
    async with Client(Options(on_permission=generous), transport=cli.transport):
        response = (await ask(cli)).response
        assert response["behavior"] == "deny"
        assert "allow_bypass" in response["message"]


async def test_a_special_handler_goes_before_the_general_one() -> None:
    async def general(request: PermissionRequest) -> Deny:
        return Deny("general")

    async def for_plans(request: PermissionRequest) -> Deny:
        return Deny("for plans")

    cli = ScriptedCLI()
    options = Options(on_permission=general, on_plan=for_plans)
    async with Client(options, transport=cli.transport):
        assert (await ask(cli, tool_name="ExitPlanMode")).response["message"] == "for plans"
        assert (await ask(cli)).response["message"] == "general"


async def test_what_nobody_answers_for_is_denied() -> None:
    async def for_plans(request: PermissionRequest) -> Deny:
        return Deny("for plans")

    cli = ScriptedCLI()
    async with Client(Options(on_plan=for_plans), transport=cli.transport):
        assert "Nobody" in (await ask(cli)).response["message"]


async def test_an_unknown_request_is_refused_by_name() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport):
        answer = await cli.ask("new_question")[1]
        assert answer.subtype == "error"
        assert answer.error_code == "unsupported_request"


async def test_a_dialog_of_a_kind_we_did_not_declare_gets_no_answer() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        _, silent = cli.ask("request_user_dialog", dialog_kind="survey", payload={})
        answer = await cli.ask("elicitation", mcp_server_name="x", message="name?")[1]
        assert answer.response == {"action": "decline"}
        assert not silent.done()
        waiting = client.waiting_on
        assert waiting is not None
        assert (waiting.what, waiting.detail) == ("person", "survey")


# Control


async def test_a_refusal_carries_its_code() -> None:
    cli = ScriptedCLI({"set_model": "no such model", "get_plan": "Unsupported control request"})
    async with Client(transport=cli.transport) as client:
        with pytest.raises(ControlError, match="no such model") as caught:
            await client.set_model("x")
        assert not isinstance(caught.value, Unsupported)
        with pytest.raises(Unsupported):
            await client.plan()


async def test_a_request_without_an_answer_times_out_by_name() -> None:
    cli = ScriptedCLI({"set_model": None})
    options = Options(deadlines={"set_model": 0.01})
    async with Client(options, transport=cli.transport) as client:
        with pytest.raises(ControlTimeout, match="set_model"):
            await client.set_model("x")
        assert (await client.control("anything", deadline=5)) == {}


async def test_a_control_without_a_method_is_sent_as_it_is() -> None:
    cli = ScriptedCLI({"brand_new": {"answer": 42}})
    async with Client(transport=cli.transport) as client:
        assert await client.control("brand_new", someField=1) == {"answer": 42}
        sent = cli.requests[-1].client_request
        assert sent.extra == {"someField": 1} or b'"someField":1' in sent.raw


async def test_an_old_cli_is_not_asked_what_it_would_not_answer() -> None:
    greeting = {"commands": [], "models": [], "account": {}}
    cli = ScriptedCLI({"initialize": greeting})
    async with Client(transport=cli.transport) as client:
        with pytest.raises(Unsupported):
            await client.context_usage()
        await client.set_permission_mode("plan")


async def test_environment_updates_are_refused_where_they_have_no_effect() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        with pytest.raises(Unsupported):
            await client.update_environment({"A": "1"})
        client.keep_alive()


UNNAMED = {"commands": [], "models": [], "account": {}, "output_style": "default", "pid": 1}
"""The greeting of a CLI that does not tell its version."""


async def test_a_cli_is_asked_for_its_version_before_its_environment_is_changed() -> None:
    cli = ScriptedCLI({"initialize": UNNAMED, "get_binary_version": {"version": "2.1.176"}})
    async with Client(transport=cli.transport) as client:
        with pytest.raises(Unsupported):
            await client.update_environment({"A": "1"})
        assert client.version == (2, 1, 176)


@pytest.mark.parametrize(
    "told",
    [{"version": "2.1.139"}, "Unsupported control request subtype: get_binary_version"],
)
async def test_the_environment_is_changed_where_that_has_an_effect(told: Any) -> None:
    cli = ScriptedCLI({"initialize": UNNAMED, "get_binary_version": told})
    async with Client(transport=cli.transport) as client:
        await client.update_environment({"A": "1"})
        prompt = await client.say("hi")
        cli.write(done((await cli.prompts.get()).uuid))
        await prompt
    assert b'"variables":{"A":"1"}' in b"".join(cli.lines)


async def test_a_cli_that_leaves_what_it_does_not_know_unanswered_is_not_asked() -> None:
    cli = ScriptedCLI({"initialize": {**UNNAMED, "pid": None}, "get_binary_version": None})
    async with Client(transport=cli.transport) as client:
        await client.update_environment({"A": "1"})
    assert [each.client_request.subtype for each in cli.requests][:1] == ["initialize"]
    assert "get_binary_version" not in [each.client_request.subtype for each in cli.requests]


# Asking


async def test_prompts_can_be_asked_side_by_side() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        both = asyncio.gather(client.ask("a"), client.ask("b"))
        for _ in range(2):
            sent = await cli.prompts.get()
            cli.write(done(sent.uuid, result=sent.text))
        assert [turn.text for turn in await both] == ["a", "b"]


async def test_asking_beside_a_reader_leaves_the_reading_to_it() -> None:
    cli, seen = ScriptedCLI(), asyncio.Event()

    async def read(client: Client) -> None:
        async for event in client:
            if isinstance(event, ResultMessage):
                seen.set()

    async with Client(transport=cli.transport) as client:
        reader = asyncio.ensure_future(read(client))
        await asyncio.sleep(0)
        asking = asyncio.ensure_future(client.ask("a"))
        cli.write(done((await cli.prompts.get()).uuid))
        assert (await asking).outcome == "finished"
        await seen.wait()
    await reader


# The end


async def test_nothing_is_sent_into_a_closed_input() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        client.close_input()
        with pytest.raises(UsageError, match="input was closed"):
            await client.say("hi")
        with pytest.raises(UsageError, match="input was closed"):
            await client.set_model("x")
        assert client.idle
        client.close_input()


async def test_closing_does_not_wait_for_a_handler_that_will_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pilothouse.client.channel.END_FOLLOWS", 0.01)
    cli, started, let_go = ScriptedCLI(), asyncio.Event(), asyncio.Event()

    async def stubborn(request: PermissionRequest) -> Allow:
        started.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        return Allow()

    async with Client(Options(on_permission=stubborn), transport=cli.transport):
        cli.ask("can_use_tool", **BASH)
        await started.wait()
    let_go.set()


async def test_an_id_that_is_asked_again_after_its_withdrawal_is_served_and_ended() -> None:
    cli, started, ended = ScriptedCLI(), asyncio.Queue[int](), asyncio.Queue[int]()

    async def wait(request: PermissionRequest) -> Allow:
        started.put_nowait(1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.put_nowait(1)
        return Allow()

    asked = {
        "type": "control_request",
        "request_id": "x",
        "request": {"subtype": "can_use_tool", **BASH},
    }
    async with Client(Options(on_permission=wait), transport=cli.transport):
        cli.write(asked)
        await started.get()
        cli.write({"type": "control_cancel_request", "request_id": "x"}, asked)
        await started.get()
        await ended.get()
    await ended.get()


async def test_a_server_that_fails_to_end_keeps_nothing_else_from_ending() -> None:
    class Stuck(ToolServer):
        async def aclose(self) -> None:
            raise OSError("stuck")

        def copy(self, name: str) -> Stuck:
            return self

    cli = ScriptedCLI()
    servers = {"stuck": Stuck([], name="stuck")}
    async with Client(Options(mcp_servers=servers), transport=cli.transport) as client:
        pass
    with pytest.raises(SessionEnded):
        await client.say("hi")


async def test_options_that_no_cli_takes_are_refused_by_type() -> None:
    for options in (
        Options(mcp_servers={"bad name!": object()}),
        Options(settings={"a": object()}),
    ):
        with pytest.raises(InvalidOption):
            await Client(options, transport=ScriptedCLI().transport).connect()


async def test_every_waiter_gets_the_same_error_with_code_and_stderr() -> None:
    cli = ScriptedCLI({"set_model": None})
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
        control = asyncio.ensure_future(client.set_model("x"))
        await asyncio.sleep(0)
        cli.exit(7, stderr="out of memory")
        with pytest.raises(SessionEnded) as first:
            await prompt
        with pytest.raises(SessionEnded) as second:
            await control
        with pytest.raises(SessionEnded) as third:
            async for _ in client:
                pass
        with pytest.raises(SessionEnded) as late:
            await client.say("still there?")
        assert first.value is second.value is third.value is late.value
        assert first.value.exit_code == 7
        assert "out of memory" in str(first.value)


async def test_an_orderly_end_just_ends_the_reading() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        cli.exit(0)
        assert [event async for event in client]


async def test_a_failed_turn_explains_exit_code_one() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
        cli.write(done(prompt.uuid, is_error=True))
        cli.exit(1)
        events = [event async for event in client]
        assert isinstance(events[-1], ResultMessage)


async def test_closing_interrupts_a_running_turn_first() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        prompt = await client.say("hi")
    subtypes = [request.client_request.subtype for request in cli.requests]
    assert subtypes == ["initialize", "interrupt"]
    with pytest.raises(SessionEnded):
        await prompt


async def test_closing_an_idle_client_interrupts_nothing() -> None:
    cli = ScriptedCLI()
    async with Client(transport=cli.transport) as client:
        await asyncio.gather(client.aclose(), client.aclose())
    assert [request.client_request.subtype for request in cli.requests] == ["initialize"]


async def test_closing_ends_the_handlers_that_still_run() -> None:
    cli, started, ended = ScriptedCLI(), asyncio.Event(), asyncio.Event()

    async def wait(request: PermissionRequest) -> Allow:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Allow()

    async with Client(Options(on_permission=wait), transport=cli.transport):
        cli.ask("can_use_tool", **BASH)
        await started.wait()
    assert ended.is_set()


async def test_a_client_is_used_once() -> None:
    cli = ScriptedCLI()
    client = Client(transport=cli.transport)
    with pytest.raises(UsageError, match="not connected"):
        await client.say("hi")
    async with client:
        with pytest.raises(UsageError, match="connected before"):
            await client.connect()


# Silence


async def test_silence_in_a_turn_is_reported_with_what_it_waits_for() -> None:
    cli = ScriptedCLI()
    async with Client(Options(stall_after=0.01), transport=cli.transport) as client:
        await client.say("hi")
        async for event in client:
            if isinstance(event, Stalled):
                assert event.waiting_on.what == "api"
                break


async def test_silence_while_a_person_decides_is_the_persons() -> None:
    async def never(request: PermissionRequest) -> Allow:
        await asyncio.Event().wait()
        return Allow()

    cli = ScriptedCLI()
    options = Options(stall_after=0.01, on_permission=never)
    async with Client(options, transport=cli.transport) as client:
        await client.say("hi")
        cli.ask("can_use_tool", **BASH)
        async for event in client:
            if isinstance(event, Stalled) and event.waiting_on.what == "person":
                assert event.waiting_on.detail == "Bash"
                break


# Sinks


class Kept:
    """A sink that keeps what it gets, in order."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.tracker = TurnTracker()

    def received(self, events: Any, kinds: set[type[Any]], lines: Any = None) -> list[Turn]:
        assert kinds == {type(event) for event in events}
        self.got += events
        return self.tracker.receive(events)

    def ended(self, error: SessionEnded) -> None:
        self.got.append(error)


async def test_a_sink_gets_everything_in_order_and_the_end_last() -> None:
    cli, sink = ScriptedCLI(), Kept()
    async with Client(transport=cli.transport, sink=sink) as client:
        sink.tracker.prompt_sent("mine")
        prompt = await client.say("hi", uuid="mine")
        cli.write({"type": "odd"}, done((await cli.prompts.get()).uuid))
        await prompt
    greeting, odd, result, end = sink.got
    assert [each.type for each in (greeting, odd, result)] == ["control_response", "odd", "result"]
    assert isinstance(end, SessionEnded)


async def test_a_sink_follows_the_turns_and_the_client_looks_at_what_it_knows() -> None:
    cli, sink = ScriptedCLI(), Kept()
    async with Client(transport=cli.transport, sink=sink) as client:
        assert client.turns is sink.tracker
        # A prompt that the sink does not know of is none, as far as the client can tell.
        await client.say("hi", uuid="unknown")
        assert client.idle
        sink.tracker.prompt_sent("mine")
        prompt = await client.say("hi", uuid="mine")
        assert not client.idle
        cli.write(done("mine", total_cost_usd=0.5))
        turn = await prompt
        # Followed twice, its cost would be none.
        assert (turn.cost_usd, client.last_turn, client.idle) == (0.5, turn, True)


async def test_a_prompt_is_taken_back_whoever_follows() -> None:
    cli, sink = ScriptedCLI({"cancel_async_message": {"cancelled": True}}), Kept()
    async with Client(transport=cli.transport, sink=sink) as client:
        sink.tracker.prompt_sent("mine")
        prompt = await client.say("hi", uuid="mine")
        assert await client.cancel_prompt("mine")
        assert (await prompt).outcome == "cancelled"
        # That is for the sink to note, with whatever else it keeps of it.
        assert sink.tracker.unanswered == ("mine",)


async def test_a_sink_has_a_request_before_its_handler_is_called() -> None:
    cli, sink = ScriptedCLI(), Kept()

    async def decide(_: PermissionRequest) -> Allow:
        assert sink.got[-1].type == "control_request"
        return Allow()

    async with Client(Options(on_permission=decide), transport=cli.transport, sink=sink):
        answer = await ask(cli)
    assert answer.subtype == "success"
    assert b'"allow"' in answer.raw
