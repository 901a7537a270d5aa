"""How turns of real CLIs end, and how the ends are told apart: section E of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from pilothouse import AssistantMessage, ResultMessage, StreamEvent, Turn
from pilothouse.protocol import ApiRetryMessage
from pilothouse_sim.scenario import (
    ApiError,
    Broken,
    Usage,
    gate,
    reply,
    text,
    tool,
)
from tests.support.real.desk import OpenDesk, conversation
from tests.support.real.turns import allow, next_of, unread
from tests.support.versions import Since, before, can, since
from tests.support.waiting import DEADLINE

LIST = tool("Bash", command="ls", description="list")
DEAR = Usage(input_tokens=2_000_000, output_tokens=1000)
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
}


def of(kind: type[Any], events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def result_of(turn: Turn) -> ResultMessage:
    assert turn.result is not None
    return turn.result


# Errors of the API


async def test_an_api_error_is_a_failure_although_it_is_called_success(
    desk: OpenDesk, version: str
) -> None:
    # E1: newer CLIs ask again, in other forms, before they believe a 400.
    is_asked_twice = can(version, Since.ASKS_REFUSED_TWICE)
    tries = 6 if can(version, Since.DOUBTS_REFUSALS) else 2 if is_asked_twice else 1
    refusals = [ApiError(status=400, message="No such luck.")] * tries
    it = await desk(*refusals, reply("better now"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        turn = await prompt
        events = await unread(client)
        assert (await client.ask("again")).text == "better now"
    result = result_of(turn)
    assert (turn.outcome, turn.reason) == ("failed", "api_error")
    assert "No such luck." in turn.text
    assert (result.subtype, result.is_error) == ("success", True)
    assert result.api_error_status == (400 if can(it.version, Since.GIVES_API_STATUS) else None)
    [synthetic] = of(AssistantMessage, events)
    assert synthetic.message.model == "<synthetic>"
    assert synthetic.error is not None


async def test_an_overloaded_api_is_tried_again(desk: OpenDesk) -> None:
    # E2: the oldest CLIs do so without a word.
    it = await desk(ApiError(status=529), reply("there you are"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await (await client.say("hi"))
        retries: list[ApiRetryMessage] = of(ApiRetryMessage, await unread(client))
    assert (turn.outcome, turn.text) == ("finished", "there you are")
    expected = [(1, 529)] if can(it.version, Since.REPORTS_RETRIES) else []
    assert [(each.attempt, each.error_status) for each in retries] == expected
    assert len(conversation(it)) == 2


async def test_retries_come_to_an_end_that_is_a_failure(desk: OpenDesk) -> None:
    # E2
    it = await desk(*[ApiError(status=500)] * 10)
    client = await it.client(env={"CLAUDE_CODE_MAX_RETRIES": "1"})
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
    assert (turn.outcome, turn.reason) == ("failed", "api_error")
    told = result_of(turn).api_error_status
    assert told == (500 if can(it.version, Since.GIVES_API_STATUS) else None)


async def test_a_refused_key_is_tried_again_too(desk: OpenDesk) -> None:
    # E2: the oldest CLIs do so without a word.
    it = await desk(ApiError(status=401), reply("welcome"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await (await client.say("hi"))
        retries: list[ApiRetryMessage] = of(ApiRetryMessage, await unread(client))
    assert turn.text == "welcome"
    is_told = can(it.version, Since.REPORTS_RETRIES)
    expected = [(401, "authentication_failed")] if is_told else []
    assert [(each.error_status, each.error) for each in retries] == expected
    assert len(conversation(it)) == 2


async def test_without_a_key_the_turn_fails_at_once(desk: OpenDesk) -> None:
    # E2
    it = await desk(reply("never said"))
    client = await it.client(env={"ANTHROPIC_API_KEY": ""})
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
    assert turn.outcome == "failed"
    assert "/login" in turn.text
    assert it.model.requests == []


async def test_a_malformed_event_of_the_model_is_passed_over(desk: OpenDesk) -> None:
    # E6
    it = await desk(Broken(reply=reply("whole"), after=2, how="malformed"), reply("again"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
    assert turn.outcome == "finished"
    assert turn.text in ("whole", "again")


async def test_a_stream_that_breaks_off_is_asked_for_again(desk: OpenDesk) -> None:
    # E6, A23: newer CLIs end the broken message before they begin another. Of the older ones some
    # have the reply in one piece, and some have it streamed once more.
    broken = reply(text("half "), gate("cut"), text("a sentence"))
    it = await desk(Broken(reply=broken, after=3), reply("a whole sentence"))
    client = await it.client(include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        while (await next_of(client, StreamEvent)).text != "half ":
            pass
        it.model.release("cut")
        turn = await prompt
        events = await unread(client)
    assert (turn.outcome, turn.text) == ("finished", "a whole sentence")
    assert [line.text for line in of(AssistantMessage, events)] == ["a whole sentence"]
    is_told = can(it.version, Since.RETRIES_BROKEN_STREAMS)
    is_streamed = "stream" in conversation(it)[-1].body
    ended = ["content_block_stop", "message_stop"] if is_told else []
    begun = ["message_start", "content_block_start"] if is_streamed else []
    streamed = [each.event.type for each in of(StreamEvent, events)]
    assert streamed[: len(ended + begun) or None] == ended + begun
    assert is_streamed or not is_told
    assert len(of(ApiRetryMessage, events)) == (1 if is_told else 0)


# Limits


async def test_a_turn_out_of_turns_failed_and_the_next_counts_anew(desk: OpenDesk) -> None:
    # E4
    it = await desk(reply(LIST), reply("next is fine"), reply("unused"))
    client = await it.client(max_turns=1, on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
        after = await client.ask("next")
    result = result_of(turn)
    assert (turn.outcome, result.subtype) == ("failed", "error_max_turns")
    is_told = can(it.version, Since.GIVES_REASONS)
    assert turn.reason == ("max_turns" if is_told else "error_max_turns")
    assert result.is_error == is_told
    assert turn.text == ("Reached maximum number of turns (1)" if is_told else "")
    assert (after.outcome, after.text) == ("finished", "next is fine")


async def test_a_spent_budget_stays_spent(desk: OpenDesk) -> None:
    # E4
    it = await desk(reply(LIST, usage=DEAR), reply("one", usage=DEAR), reply("two"))
    client = await it.client(max_budget_usd=0.01, on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        first, second = await client.ask("hi"), await client.ask("again")
    for turn in (first, second):
        assert (turn.outcome, result_of(turn).subtype) == ("failed", "error_max_budget_usd")
    assert first.cost_usd > 0.01


# What a result carries


async def test_structured_output_comes_with_the_turn(desk: OpenDesk) -> None:
    # E5
    it = await desk(reply(tool("StructuredOutput", answer=42)), reply("forty-two"))
    client = await it.client(json_schema=SCHEMA)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("what is it?")
    assert (turn.outcome, turn.structured_output) == ("finished", {"answer": 42})
    is_last_word = can(it.version, Since.ENDS_WITH_OUTPUT)
    assert len(conversation(it)) == (1 if is_last_word else 2)
    assert turn.text == ('{"answer":42}' if is_last_word else "forty-two")


async def test_a_model_that_misses_the_schema_five_times_failed(desk: OpenDesk) -> None:
    # E5
    it = await desk(*[reply(tool("StructuredOutput", answer="many"))] * 8)
    client = await it.client(json_schema=SCHEMA)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("what is it?")
    assert turn.outcome == "failed"
    assert result_of(turn).subtype == "error_max_structured_output_retries"
    assert turn.structured_output is None
    assert len(conversation(it)) == 5


@since(Since.STOPS_PRESSING)
async def test_a_model_that_ignores_the_schema_finishes_without_output(desk: OpenDesk) -> None:
    # E5, E7: 2.1.176 presses it eight times, newer CLIs once.
    it = await desk(*[reply("I would rather talk")] * 10)
    client = await it.client(json_schema=SCHEMA)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("what is it?")
    assert (turn.outcome, turn.structured_output) == ("finished", None)
    assert len(conversation(it)) == (2 if can(it.version, Since.PRESSES_ONCE) else 9)


@before(Since.STOPS_PRESSING)
async def test_older_clis_press_a_model_that_ignores_the_schema_without_end(desk: OpenDesk) -> None:
    # E5, E7: an interrupt ends it.
    it = await desk(*[reply("I would rather talk")] * 20, reply(gate("held"), "enough"))
    client = await it.client(json_schema=SCHEMA)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("what is it?")
        await it.model.reached("held")
        await client.interrupt()
        turn = await prompt
    assert (turn.outcome, turn.structured_output) == ("interrupted", None)
    assert "You MUST call the StructuredOutput tool" in conversation(it)[-1].last


@before(Since.PRESSES_ONCE)
async def test_a_limit_of_turns_ends_the_pressing_but_not_of_the_oldest(desk: OpenDesk) -> None:
    # E7
    it = await desk(*[reply("I would rather talk")] * 20, reply(gate("held"), "enough"))
    client = await it.client(json_schema=SCHEMA, max_turns=4)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("what is it?")
        is_limited = can(it.version, Since.LIMITS_PRESSING)
        if not is_limited:
            await it.model.reached("held")
            await client.interrupt()
        turn = await prompt
    assert len(conversation(it)) == (4 if is_limited else 21)
    assert turn.outcome == ("failed" if is_limited else "interrupted")
    assert (result_of(turn).subtype == "error_max_turns") == is_limited


async def test_the_tools_that_were_denied_are_listed(desk: OpenDesk) -> None:
    it = await desk(reply(tool("Bash", command="touch made", description="make")), reply("ok"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("make it")
    [denial] = result_of(turn).permission_denials
    assert (turn.outcome, denial.tool_name) == ("finished", "Bash")
    assert denial.tool_input["command"] == "touch made"
    assert not (it.cwd / "made").exists()
