"""Turns of real CLIs: which turn answers which prompt, when the CLI is idle, what a turn cost.

Covers section A of the protocol's rows from A9 on, as far as they are about turns, and G9.
"""

from __future__ import annotations

import asyncio

import pytest

from pilothouse import (
    Client,
    InitMessage,
    ResultMessage,
    Turn,
    Unsupported,
    UserMessage,
)
from pilothouse.protocol import (
    CommandLifecycleMessage,
    CompactBoundaryMessage,
    SessionStateChangedMessage,
    StatusMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
)
from pilothouse_sim.scenario import (
    Branch,
    Usage,
    When,
    gate,
    reply,
    text,
    tool,
)
from tests.support.real.desk import OpenDesk, conversation
from tests.support.real.turns import HeldCommand, allow, next_of, unread
from tests.support.versions import NEWEST, Since, before, can, since
from tests.support.waiting import DEADLINE


def outcomes(*turns: Turn) -> list[tuple[str, str]]:
    return [(turn.outcome, turn.text) for turn in turns]


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_plain_turn_finishes_with_the_models_text(desk: OpenDesk) -> None:
    it = await desk(reply("Hello there"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
        await client.wait_idle()
    assert (turn.outcome, turn.reason, turn.text) == ("finished", "completed", "Hello there")
    assert client.last_turn is turn
    assert client.idle
    assert client.turns.unanswered == ()


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_a_later_turn_has_the_earlier_ones_before_it(desk: OpenDesk) -> None:
    it = await desk(reply("first answer"), reply("second answer"), reply("third answer"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turns = [await client.ask(f"question {n}") for n in (1, 2, 3)]
    assert [turn.text for turn in turns] == ["first answer", "second answer", "third answer"]
    assert len({turn.prompts for turn in turns}) == 3
    told = str(conversation(it)[-1].body["messages"])
    assert all(words in told for words in ("question 1", "first answer", "second answer"))


async def test_a_prompt_is_answered_while_nobody_reads(desk: OpenDesk) -> None:
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        assert (await first).text == "one"
        second = await client.say("2")
        assert (await second).text == "two"
        await client.wait_idle()
        results = [event for event in await unread(client) if isinstance(event, ResultMessage)]
    assert [result.result for result in results] == ["one", "two"]


async def test_two_prompts_written_at_once_get_a_turn_each(desk: OpenDesk) -> None:
    # A22
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first, second = await client.say("1"), await client.say("2")
        turns = await first, await second
    assert [turn.prompts for turn in turns] == [(first.uuid,), (second.uuid,)]
    assert outcomes(*turns) == [("finished", "one"), ("finished", "two")]


async def test_a_prompt_sent_while_a_tool_runs_is_answered_by_the_same_turn(desk: OpenDesk) -> None:
    # A13: one result for two prompts; A9: both are echoed with the uuids they were sent with.
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.call), reply("both done"))
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            first = await client.say("start the work")
            await held.running.wait()
            second = await client.say("and mind this too")
            await unread(client)
            held.release()
            turn = await first
            assert await second is turn
            await client.wait_idle()
            later = await unread(client)
    assert turn.prompts == (first.uuid, second.uuid)
    assert "and mind this too" in str(conversation(it)[-1].body["messages"])
    assert [event.result for event in later if isinstance(event, ResultMessage)] == ["both done"]
    echoed = [event.uuid for event in later if isinstance(event, UserMessage) and event.is_replay]
    assert second.uuid in echoed


async def test_a_prompt_sent_while_text_streams_gets_a_turn_of_its_own(desk: OpenDesk) -> None:
    # A13
    it = await desk(reply(text("one "), gate("held"), text("more")), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        second = await client.say("2")
        await unread(client)
        it.model.release("held")
        turns = await first, await second
    assert [turn.prompts for turn in turns] == [(first.uuid,), (second.uuid,)]
    assert outcomes(*turns) == [("finished", "one more"), ("finished", "two")]


async def test_prompts_that_wait_for_the_same_turn_all_get_its_outcome(desk: OpenDesk) -> None:
    # A13: newer CLIs merge queued prompts into one turn; old ones run them one by one.
    it = await desk(reply(text("one "), gate("held")), reply("two"), reply("three"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("say 1")
        await it.model.reached("held")
        second, third = await client.say("say 2"), await client.say("say 3")
        await unread(client)
        it.model.release("held")
        one, two, three = await first, await second, await third
        await client.wait_idle()
    assert one.prompts == (first.uuid,)
    if can(it.version, Since.MERGES_QUEUED):
        assert two is three
        assert (two.text, two.prompts) == ("two", (second.uuid, third.uuid))
        assert "say 2\nsay 3" in conversation(it)[-1].last
    else:
        assert (two.text, three.text) == ("two", "three")


async def test_a_repeated_uuid_starts_no_turn(desk: OpenDesk) -> None:
    # G9
    it = await desk(reply(gate("held"), "one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        assert await client.say("1", uuid=first.uuid) is first
        it.model.release("held")
        assert (await first).text == "one"
        again = await (await client.say("1", uuid=first.uuid))
        assert (await client.ask("2")).text == "two"
        await client.wait_idle()
    assert (again.outcome, again.reason, again.result) == ("cancelled", "duplicate", None)
    assert len(conversation(it)) == 2


async def test_a_uuid_of_the_resumed_transcript_starts_no_turn(desk: OpenDesk) -> None:
    # G9, A26: the CLI itself says so, with an echo outside of any turn.
    it = await desk(reply("one"), reply("two"))
    async with asyncio.timeout(DEADLINE):
        async with Client(it.options()) as earlier:
            first = await earlier.say("1")
            await first
        client = await it.client(resume=earlier.session_id)
        again = await (await client.say("1", uuid=first.uuid))
        await client.wait_idle()
        told = await unread(client)
        assert (await client.ask("2")).text == "two"
    assert (again.outcome, again.reason) == ("cancelled", "duplicate")
    [echo] = [event for event in told if isinstance(event, UserMessage)]
    assert (echo.uuid, echo.is_replay) == (first.uuid, True)
    lives = [event for event in told if isinstance(event, CommandLifecycleMessage)]
    is_told = can(it.version, Since.TELLS_OF_PROMPTS)
    completed = [(first.uuid, "completed")] if is_told else []
    assert [(each.command_uuid, each.state) for each in lives] == completed
    assert [event for event in told if isinstance(event, ResultMessage)] == []
    assert len(conversation(it)) == 2


@since(Since.TAKES_PROMPTS_BACK)
async def test_a_queued_prompt_can_be_taken_back(desk: OpenDesk) -> None:
    it = await desk(reply(text("one "), gate("held")), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        taken, kept = await client.say("take this back"), await client.say("keep this")
        assert await client.cancel_prompt(taken.uuid)
        assert (await taken).outcome == "cancelled"
        assert not await client.cancel_prompt(taken.uuid)
        it.model.release("held")
        assert (await first).text == "one "
        assert (await kept).prompts == (kept.uuid,)
        await client.wait_idle()
    assert "take this back" not in str(conversation(it)[-1].body["messages"])


@before(Since.TAKES_PROMPTS_BACK)
async def test_taking_a_prompt_back_is_refused_where_the_cli_cannot(desk: OpenDesk) -> None:
    it = await desk(reply(text("one "), gate("held")), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        queued = await client.say("2")
        with pytest.raises(Unsupported):
            await client.cancel_prompt(queued.uuid)
        it.model.release("held")
        assert (await first).text == "one "
        assert (await queued).text == "two"


@since(Since.TELLS_WHAT_IS_QUEUED)
async def test_an_interrupt_can_take_back_what_is_queued(desk: OpenDesk) -> None:
    it = await desk(reply(text("one "), gate("held")), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        first = await client.say("1")
        await it.model.reached("held")
        queued = await client.say("2")
        receipt = await client.interrupt(cancel_queued=True)
        assert (receipt.still_queued, receipt.cancelled) == ([], [queued.uuid])
        assert (await first).outcome == "interrupted"
        assert (await queued).outcome == "cancelled"
        await client.wait_idle()
        assert (await client.ask("3")).text == "two"


@since(Since.TURNS_ABOUT_TASKS)
async def test_the_end_of_background_work_starts_a_turn_nobody_asked_for(desk: OpenDesk) -> None:
    # A13
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.background_call), reply("it runs"), reply("it is over"))
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            turn = await client.ask("start it in the background")
            await held.running.wait()
            assert [task.kind for task in client.turns.tasks.values()] == ["local_bash"]
            held.release()
            result = await next_of(client, ResultMessage)
            await client.wait_idle()
    own = client.last_turn
    assert turn.text == "it runs"
    assert own is not None
    assert (own.prompts, own.text, own.outcome) == ((), "it is over", "finished")
    assert own.result is result
    assert (result.origin is not None) == can(it.version, Since.GIVES_ORIGINS)
    assert client.turns.tasks == {}


@since(Since.TURNS_ABOUT_TASKS)
async def test_a_prompt_keeps_its_own_turn_when_background_work_ends_beside_it(
    desk: OpenDesk,
) -> None:
    async with HeldCommand().serving() as held:
        it = await desk(
            reply(held.background_call),
            reply("it runs"),
            reply(gate("held"), "the answer"),
            reply("over"),
        )
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            await client.ask("start it in the background")
            await held.running.wait()
            prompt = await client.say("another question")
            await it.model.reached("held")
            held.release()
            await held.ended.wait()
            it.model.release("held")
            turn = await prompt
    assert (turn.prompts, turn.text) == ((prompt.uuid,), "the answer")


async def test_idle_means_that_nothing_runs_and_nothing_is_queued(desk: OpenDesk) -> None:
    # A14: newer CLIs say so themselves, the oldest one leaves it to be inferred.
    it = await desk(reply(gate("first"), "one"), reply(gate("second"), "two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert client.idle
        first, second = await client.say("1"), await client.say("2")
        assert not client.idle
        it.model.release("first")
        await first
        assert not client.idle
        await it.model.reached("second")
        assert not client.idle
        it.model.release("second")
        await second
        await client.wait_idle()
        events = await unread(client)
    assert client.idle
    states = [event.state for event in events if isinstance(event, SessionStateChangedMessage)]
    is_told = can(it.version, Since.REPORTS_IDLE)
    assert client.turns.reports_idle == is_told
    # A CLI that reads the second prompt only after its first turn says idle in between: it is.
    assert states[-1:] == (["idle"] if is_told else [])


async def test_the_cost_of_a_turn_is_its_own(desk: OpenDesk) -> None:
    # A11: the CLI tells the sum since its start, and `usage` of the turn.
    it = await desk(
        reply("cheap", usage=Usage(input_tokens=1000, output_tokens=10)),
        reply("dear", usage=Usage(input_tokens=2000, output_tokens=20)),
    )
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        cheap, dear = await client.ask("1"), await client.ask("2")
    assert cheap.result is not None
    assert dear.result is not None
    assert cheap.cost_usd > 0
    assert dear.cost_usd == pytest.approx(2 * cheap.cost_usd)
    assert dear.result.total_cost_usd == pytest.approx(3 * cheap.cost_usd)
    assert (cheap.result.usage.input_tokens, dear.result.usage.input_tokens) == (1000, 2000)
    assert (cheap.result.num_turns, dear.result.num_turns) == (1, 1)


async def test_a_slash_command_is_answered_although_old_clis_do_not_echo_it(desk: OpenDesk) -> None:
    # A19
    it = await desk(reply("one"), reply("two"), reply("three"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("1")
        await client.ask("2")
        compacted = await client.say("/compact")
        turn = await compacted
        echoed = [event for event in await unread(client) if isinstance(event, UserMessage)]
        after = await client.ask("3")
        await client.wait_idle()
    assert (turn.outcome, turn.prompts) == ("finished", (compacted.uuid,))
    lines = {line.uuid: line.text for line in echoed if line.is_replay}
    assert (compacted.uuid in lines) == can(it.version, Since.ECHOES_COMMANDS)
    assert "<local-command-stdout>Compacted </local-command-stdout>" in lines.values()
    assert after.text == "three"
    assert "The conversation so far, in short." in str(conversation(it)[-1].body["messages"])


async def test_an_unknown_command_is_words_for_the_model_on_newer_clis_only(
    desk: OpenDesk,
) -> None:
    # A19
    it = await desk(reply("I know no such command."))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("/no-such-command at all")
    heard = [request.last for request in conversation(it)]
    is_passed_on = can(it.version, Since.PASSES_UNKNOWN_COMMANDS)
    assert len(heard) == (1 if is_passed_on else 0)
    assert all("/no-such-command at all" in words for words in heard)
    assert (turn.text == "I know no such command.") == is_passed_on


async def test_a_compaction_is_told_step_by_step(desk: OpenDesk) -> None:
    # H1, H7
    it = await desk(reply("one"), reply("two"))
    client = await it.client(include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        await (await client.say("1"))
        await (await client.say("2"))
        await client.wait_idle()
        said = await unread(client)
        turn = await (await client.say("/compact"))
        await client.wait_idle()
        told = await unread(client)
    states = [event.status for event in said + told if isinstance(event, StatusMessage)]
    requests = ["requesting"] * 2 if can(it.version, Since.TELLS_OF_REQUESTS) else []
    assert states == [*requests, "compacting", None]
    steps = (StatusMessage, InitMessage, CompactBoundaryMessage, UserMessage, ResultMessage)
    order = [type(event) for event in told if isinstance(event, steps)]
    assert order[:5] == [StatusMessage, *steps[:4]]
    assert order[-1] is ResultMessage
    [summary] = [event for event in told if isinstance(event, UserMessage) and not event.is_replay]
    assert "The conversation so far, in short." in summary.text
    assert turn.text == ""


async def test_a_conversation_of_one_turn_is_too_short_for_clis_that_keep_its_end(
    desk: OpenDesk,
) -> None:
    # H7
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("1")
        turn = await (await client.say("/compact"))
        told = await unread(client)
        assert (await client.ask("2")).text == "two"
    is_kept = can(it.version, Since.SPARES_LAST_MESSAGE)
    is_too_short = is_kept and not can(it.version, Since.COMPACTS_ONE_TURN)
    assert turn.outcome == "finished"
    assert turn.text == ("Not enough messages to compact." if is_too_short else "")
    boundaries = [event for event in told if isinstance(event, CompactBoundaryMessage)]
    assert len(boundaries) == (0 if is_too_short else 1)


async def test_a_background_shell_keeps_some_clis_from_being_idle(desk: OpenDesk) -> None:
    # A24: newer ones call themselves idle beside it. The oldest tells of its end with the first
    # prompt after it has noticed, which need not be the next one.
    async with HeldCommand().serving() as held:
        over = [reply("over")] * 5
        it = await desk(reply(held.background_call), reply("it runs"), *over)
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            await (await client.say("start it in the background"))
            await held.running.wait()
            if can(it.version, Since.IS_IDLE_BESIDE_SHELLS):
                await client.wait_idle()
            earlier = await unread(client)
            held.release()
            await held.ended.wait()
            if can(it.version, Since.TURNS_ABOUT_TASKS):
                await next_of(client, TaskNotificationMessage)
                assert (await next_of(client, ResultMessage)).result == "over"
            else:
                told: list[object] = []
                for _ in over:
                    assert (await (await client.say("and now?"))).text == "over"
                    told += await unread(client)
                    if any(isinstance(event, TaskNotificationMessage) for event in told):
                        break
                assert sum(isinstance(event, TaskNotificationMessage) for event in told) == 1
    states = [event.state for event in earlier if isinstance(event, SessionStateChangedMessage)]
    assert ("idle" in states) == can(it.version, Since.IS_IDLE_BESIDE_SHELLS)
    started = [event for event in earlier if isinstance(event, TaskStartedMessage)]
    assert len(started) == (1 if can(it.version, Since.TURNS_ABOUT_TASKS) else 0)


async def test_waiting_until_idle_means_the_same_on_every_version(desk: OpenDesk) -> None:
    # A24: a shell may run for ever, and does not count; the turn about its end does.
    async with HeldCommand().serving() as held:
        it = await desk(reply(held.background_call), reply("it runs"), reply("it is over"))
        client = await it.client(on_permission=allow)
        async with asyncio.timeout(DEADLINE):
            await client.ask("start it in the background")
            await held.running.wait()
            await client.wait_idle()
            if not can(it.version, Since.TURNS_ABOUT_TASKS):
                return
            held.release()
            await next_of(client, TaskNotificationMessage)
            await client.wait_idle()
    assert client.last_turn is not None
    assert client.last_turn.text == "it is over"


@before(Since.NOTES_PROMPTS)
async def test_older_clis_answer_a_prompt_that_asks_nothing(desk: OpenDesk) -> None:
    # A25
    it = await desk(reply("noted"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await (await client.say("remember the number 7", should_query=False))
    assert turn.text == "noted"


@since(Since.NOTES_PROMPTS)
async def test_a_prompt_that_asks_nothing_is_read_with_the_next_one(desk: OpenDesk) -> None:
    # A25
    it = await desk(reply("noted"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        noted = await client.say("remember the number 7", should_query=False)
        turn = await client.ask("now answer")
        assert (await noted).text == ""
    assert turn.text == "noted"
    assert "remember the number 7" in str(conversation(it)[-1].body["messages"])
    assert len(conversation(it)) == 1


async def test_a_sub_agent_is_background_work_on_newer_clis_only(desk: OpenDesk) -> None:
    # A17: there it ends with a turn nobody asked for; on older ones it is a tool like any other.
    child = Branch(when=When(prompt_contains="count the files"), replies=(reply("seven"),))
    call = tool("Task", description="count", prompt="count the files", subagent_type="Explore")
    it = await desk(reply(call), reply("asked"), reply("it says seven"), branches=[child])
    client = await it.client(on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("how many files?")
        await client.wait_idle()
    assert (turn.outcome, turn.text) == ("finished", "asked")
    assert client.last_turn is not None
    is_beside = can(it.version, Since.AGENTS_IN_BACKGROUND)
    assert client.last_turn.text == ("it says seven" if is_beside else "asked")
    assert "seven" in conversation(it)[-1].last
    assert client.turns.tasks == {}


async def test_what_a_sub_agent_has_used_is_known_to_the_turn_that_waited(desk: OpenDesk) -> None:
    # A30: by the result of its call on every CLI; on newer ones also as it ends.
    child = Branch(when=When(prompt_contains="count the files"), replies=(reply("seven"),))
    call = tool(
        "Task",
        description="count",
        prompt="count the files",
        subagent_type="Explore",
        run_in_background=False,
    )
    it = await desk(reply(call), reply("seven, it says"), branches=[child])
    client = await it.client(on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        turn = await (await client.say("how many files?"))
        events = await unread(client)
    assert turn.text == "seven, it says"
    told = [each.tool_use_result for each in events if isinstance(each, UserMessage)]
    [used] = [each for each in told if isinstance(each, dict) and "totalTokens" in each]
    assert used["totalTokens"] == 105
    ended = [each for each in events if isinstance(each, TaskNotificationMessage)]
    is_told = any(each.usage is not None and each.usage.total_tokens > 0 for each in ended)
    assert is_told == can(it.version, Since.REPORTS_PROGRESS)
