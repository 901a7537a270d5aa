"""What an engine tells: statuses while something runs, events from a cursor, lists, settings."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pilothouse.api.answers import Allow, Deny
from pilothouse_sim.scenario import ApiError, Branch, When, gate, reply, tool
from tests.support.engine.harness import OpenEngine
from tests.support.real.turns import HeldCommand
from tests.support.versions import NEWEST
from tests.support.waiting import DEADLINE

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))


@pytest.mark.simulated
async def test_a_status_tells_what_a_session_waits_on(house: OpenEngine) -> None:
    async with HeldCommand().serving() as held:
        it = await house(reply("One", gate("model"), held.call), "Two.")
        session_id = await it.start()
        await it.cli.reached("model")
        status = await it.when(session_id, lambda status: status.waiting_on is not None)
        assert status.waiting_on is not None
        assert (status.state, status.waiting_on.what) == ("active", "api")
        it.cli.release("model")
        question = await it.asked(session_id)
        status = await it.engine.status(session_id)
        assert status.waiting_on is not None
        assert (status.state, status.waiting_on.what) == ("awaiting_input", "person")
        assert status.waiting_on.detail == question.title
        await it.engine.answer(question.id, Allow())
        await held.running.wait()
        status = await it.engine.status(session_id)
        assert status.waiting_on is not None
        assert status.waiting_on.what == "tool"
        assert [(each.name, each.state) for each in status.running_tools] == [("Bash", "running")]
        held.release()
        status = await it.until(session_id, "done")
    assert (status.waiting_on, status.running_tools) == (None, [])
    assert [(each.name, each.state) for each in status.recent_tools] == [("Bash", "completed")]


async def test_a_status_counts_turns_tokens_and_dollars(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    first = await it.engine.status(session_id)
    assert (first.turns, first.tokens.output) == (1, 5)
    assert first.cost_usd > 0
    assert first.cli_version == it.version
    assert first.simulated is not it.is_real
    await it.engine.stop(session_id)
    await it.say(session_id, "more")
    second = await it.when(session_id, lambda status: status.turns == 2)
    assert second.tokens.output == 10
    assert first.cost_usd < second.cost_usd < 3 * first.cost_usd


@pytest.mark.simulated
async def test_a_status_has_the_last_lines_of_the_model(house: OpenEngine) -> None:
    it = await house("One.\nTwo.", "Three.")
    session_id = await it.done()
    await it.say(session_id, "more")
    await it.when(session_id, lambda status: status.turns == 2)
    await it.events()
    assert (await it.engine.status(session_id, output_lines=2)).output == ["Two.", "Three."]
    assert (await it.engine.status(session_id)).output == []


@pytest.mark.simulated
@pytest.mark.parametrize("looked_through", [2, 500])
async def test_a_status_has_what_the_model_is_writing(
    house: OpenEngine, looked_through: int
) -> None:
    it = await house(
        reply("One.\nTw", gate("held"), "o."), event_buffer_size=looked_through, strict=False
    )
    session_id = await it.start()
    await it.until_written(session_id, "One")
    status = await it.engine.status(session_id, output_lines=9)
    assert (status.state, status.output) == ("active", ["One.", "Tw"])
    again = await it.engine.status(session_id, output_lines=9, after=status.cursor)
    assert again.output == []
    it.cli.release("held")
    await it.when(session_id, lambda status: status.turns == 1)
    since = await it.engine.status(session_id, output_lines=9, after=status.cursor)
    assert since.output == (["One.", "Two."] if looked_through > 2 else [])


@pytest.mark.simulated
async def test_a_status_after_a_cursor_has_what_came_since(house: OpenEngine) -> None:
    it = await house(
        "One.\nTwo.", TOUCH, reply("Three.\nFour.", tool("Read", file_path="no")), "So."
    )
    session_id = await it.done()
    await it.say(session_id, "more")
    question = await it.asked(session_id)
    before = await it.engine.status(session_id, output_lines=9)
    assert before.output == ["One.", "Two."]
    assert [each.name for each in before.running_tools] == ["Bash"]
    await it.engine.answer(question.id, Deny(reason="No."))
    await it.when(session_id, lambda status: status.turns == 2)
    since = await it.engine.status(session_id, output_lines=9, after=before.cursor)
    assert since.output == ["Three.", "Four.", "So."]
    ended = [(each.name, each.state) for each in since.recent_tools]
    assert ended == [("Bash", "denied"), ("Read", "failed")]
    assert (await it.engine.status(session_id, output_lines=1, after=0)).output == ["So."]
    none = await it.engine.status(session_id, output_lines=9, after=since.cursor)
    assert (none.output, none.recent_tools) == ([], [])


@pytest.mark.simulated
async def test_a_status_after_a_cursor_says_whether_lines_were_left_out(house: OpenEngine) -> None:
    it = await house("One.", "Two.\nThree.", event_buffer_size=200)
    session_id = await it.done()
    before = (await it.engine.status(session_id)).cursor
    await it.say(session_id, "more")
    await it.when(session_id, lambda status: status.turns == 2)

    async def told(lines: int, after: int | None = before) -> tuple[list[str], bool]:
        status = await it.engine.status(session_id, output_lines=lines, after=after)
        return status.output, status.output_cut

    assert await told(2) == (["Two.", "Three."], False)
    assert await told(1) == (["Three."], True)
    assert await told(0) == ([], False)
    assert await told(1, after=None) == (["Three."], False)
    assert await told(9, after=0) == (["One.", "Two.", "Three."], False)


@pytest.mark.simulated
async def test_a_status_after_a_cursor_says_that_not_everything_was_looked_through(
    house: OpenEngine,
) -> None:
    it = await house("One.", "Two.", "Three.", event_buffer_size=10)
    session_id = await it.done()
    before = (await it.engine.status(session_id)).cursor
    for turns in (2, 3):
        await it.say(session_id, "more")
        await it.when(session_id, lambda status, turns=turns: status.turns == turns)
    status = await it.engine.status(session_id, output_lines=100, after=before)
    assert status.output_cut
    assert "Two." not in status.output
    late = await it.engine.status(session_id, output_lines=100, after=status.cursor)
    assert (late.output, late.output_cut) == ([], False)


@pytest.mark.simulated
async def test_a_status_after_a_cursor_has_every_tool_that_ended_since(house: OpenEngine) -> None:
    calls = [tool("Read", file_path=f"{{{{cwd}}}}/{number}.txt") for number in range(12)]
    it = await house(reply(*calls), "Read.", event_buffer_size=100)
    for number in range(12):
        (it.cwd / f"{number}.txt").write_text("text")
    session_id = await it.done()
    since = await it.engine.status(session_id, after=0)
    assert [each.state for each in since.recent_tools] == ["completed"] * 12
    assert len({each.id for each in since.recent_tools}) == 12
    assert {each.name for each in since.recent_tools} == {"Read"}


@pytest.mark.simulated
async def test_a_status_with_output_has_every_tool_so_far(house: OpenEngine) -> None:
    calls = [tool("Read", file_path=f"{{{{cwd}}}}/{number}.txt") for number in range(14)]
    it = await house(reply(*calls), "Read.", "More.", event_buffer_size=10)
    session_id = await it.done()
    status = await it.engine.status(session_id, output_lines=50)
    assert (len(status.recent_tools), status.tools_ended) == (14, 14)
    assert len((await it.engine.status(session_id)).recent_tools) == 10


@pytest.mark.simulated
async def test_a_status_tells_of_an_api_that_is_tried_again(house: OpenEngine) -> None:
    it = await house(ApiError(status=529, headers={"retry-after": "30"}), "Two.", strict=False)
    session_id = await it.start()
    status = await it.when(session_id, lambda status: status.retry is not None)
    assert status.retry is not None
    assert (status.state, status.retry.attempt, status.retry.error_status) == ("active", 1, 529)
    assert status.waiting_on is not None
    assert status.waiting_on.what == "api"
    await it.engine.interrupt(session_id)
    assert (await it.until(session_id, "interrupted")).retry is None


@pytest.mark.versions(NEWEST, why="2.1.119 waits for its subagents")
async def test_a_subagent_is_told_while_it_works_and_the_cli_goes_on_by_itself(
    house: OpenEngine,
) -> None:
    errand = Branch(when=When(prompt_contains="fetch it"), replies=(reply(gate("away"), "Here."),))
    call = tool(
        "Agent", description="An errand", prompt="fetch it", subagent_type="general-purpose"
    )
    it = await house(reply(call), "Sent.", "Fetched.", branches=[errand], idle_close_s=0.01)
    session_id = await it.start(allowed_tools=["Agent"])
    await it.cli.reached("away")
    status = await it.when(session_id, lambda status: status.result == "Sent.")
    assert [each.description for each in status.subagents] == ["An errand"]
    assert status.live
    it.cli.release("away")
    status = await it.when(session_id, lambda status: status.result == "Fetched.")
    assert (status.subagents, status.turns, status.state) == ([], 2, "done")


@pytest.mark.simulated
async def test_every_entry_reaches_a_watcher_once_and_in_order(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    seen: list[int] = []
    session_id = await it.start()
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.watch(0)) as batches:
        async for batch in batches:
            assert batch.cursor == batch.events[-1].seq
            seen += [each.seq for each in batch.events]
            kinds = [each.kind for each in batch.events]
            if "question.opened" in kinds:
                await it.answer(session_id, Allow())
            if "turn.ended" in kinds:
                break
    assert seen == sorted(set(seen))
    records = [each.seq for each in await it.events() if each.kind != "partial"]
    assert set(records[: records.index(max(set(records) & set(seen))) + 1]) <= set(seen)


@pytest.mark.simulated
async def test_a_watcher_goes_on_after_its_cursor(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    await it.events()
    cursor = (await it.engine.health()).cursor
    await it.say(session_id, "more")
    async with asyncio.timeout(DEADLINE):
        async with aclosing(it.engine.watch(cursor, session_id=session_id)) as batches:
            first = await anext(batches)
        async with aclosing(it.engine.watch(session_id=session_id)) as batches:
            await it.when(session_id, lambda status: status.turns == 2)
    assert first.events[0].seq == cursor + 1
    assert first.events[0].kind == "prompt.said"


@pytest.mark.simulated
async def test_events_are_read_page_by_page(house: OpenEngine) -> None:
    it = await house("One.", event_buffer_size=3)
    await it.done()
    await it.events()
    batch = await it.engine.read(0)
    assert len(batch.events) == 3
    after = await it.engine.read(batch.cursor, limit=2)
    assert len(after.events) == 2
    assert after.events[0].seq > batch.events[-1].seq


@pytest.mark.simulated
async def test_the_newest_session_is_the_first_of_the_list(house: OpenEngine) -> None:
    branches = [
        Branch(when=When(last_contains=words), replies=(reply("So."), reply("So.")))
        for words in ("first", "second", "third")
    ]
    it = await house(branches=branches)
    first, second = await it.done("first"), await it.done("second")
    await it.say(first, "third")
    await it.when(first, lambda status: status.turns == 2)
    listing = await it.engine.list()
    assert [each.session_id for each in listing.sessions] == [first, second]
    assert [each.title for each in listing.sessions] == ["first", "second"]
    assert listing.total == 2
    page = await it.engine.list(limit=1, offset=1)
    assert [each.session_id for each in page.sessions] == [second]


@pytest.mark.simulated
async def test_an_engine_tells_how_it_is_and_how_it_is_set(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.", max_sessions=7)
    session_id = await it.start()
    await it.asked(session_id)
    health = await it.engine.health()
    assert (health.ok, health.live, health.sessions, health.questions) == (True, 1, 1, 1)
    assert health.simulated is not it.is_real
    settings = await it.engine.settings()
    assert settings["max_sessions"] == {"value": 7, "source": "--max-sessions"}
    await it.answer(session_id, Allow())
    await it.until(session_id, "done")
