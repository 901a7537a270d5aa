"""What a person reads of a session, page by page, whoever began it."""

from __future__ import annotations

import pytest

from pilothouse.api.items import Item, PromptItem, TextItem, ToolItem, TurnItem
from pilothouse.api.requests import Say
from pilothouse.errors import UnknownSession, UsageError
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli

pytestmark = pytest.mark.simulated

LOOK = tool("Bash", command="pwd", description="Look")


def words(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, PromptItem | TextItem)]


async def read_all(it: EngineHarness, session_id: str) -> list[Item]:
    return (await it.engine.conversation(session_id, limit=1000)).items


async def test_a_turn_is_a_prompt_an_answer_and_an_end(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.start()
    await it.until(session_id, "done")
    prompt, text, end = await read_all(it, session_id)
    assert isinstance(prompt, PromptItem)
    assert prompt.state == "taken"
    assert isinstance(text, TextItem)
    assert (text.text, text.state) == ("One.", "done")
    assert isinstance(end, TurnItem)
    assert end.outcome == "finished"
    assert prompt.seq < text.seq < end.seq


async def test_pages_backwards_and_forwards_hold_every_item_once(house: OpenEngine) -> None:
    it = await house("One.", "Two.", "Three.")
    session_id = await it.start()
    await it.until(session_id, "done")
    for content in ("more", "and more"):
        await it.engine.say(session_id, Say(content=content))
        await it.until(session_id, "done")
    whole = await read_all(it, session_id)
    page = await it.engine.conversation(session_id, limit=2)
    back = page.items
    assert not page.later
    while page.earlier:
        page = await it.engine.conversation(session_id, before=back[0].id, limit=2)
        back = [*page.items, *back]
    assert back == whole
    page = await it.engine.conversation(session_id, after=whole[0].id, limit=3)
    forth = [whole[0], *page.items]
    while page.later:
        page = await it.engine.conversation(session_id, after=forth[-1].id, limit=3)
        forth += page.items
    assert forth == whole


async def test_a_conversation_grows_with_its_session(house: OpenEngine) -> None:
    it = await house("One.", reply("I look.", LOOK), "Two.")
    session_id = await it.start()
    await it.until(session_id, "done")
    before = await read_all(it, session_id)
    await it.engine.say(session_id, Say(content="more"))
    await it.until(session_id, "done")
    after = await read_all(it, session_id)
    assert after[: len(before)] == before
    assert words(after[len(before) :]) == ["more", "I look.", "Two."]
    (call,) = (item for item in after if isinstance(item, ToolItem))
    assert (call.tool, call.state) == ("Bash", "done")


async def test_a_session_begun_in_a_terminal_has_its_past(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await run_bare_cli(it, "a question of old")
    assert words(await read_all(it, session_id)) == ["a question of old", "One."]
    await it.engine.say(session_id, Say(content="more"))
    await it.until(session_id, "done")
    items = await read_all(it, session_id)
    assert words(items) == ["a question of old", "One.", "more", "Two."]
    assert all(item.seq < 0 for item in items[:2])


async def test_what_cannot_be_read_is_an_error(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.start()
    await it.until(session_id, "done")
    with pytest.raises(UnknownSession):
        await it.engine.conversation("3f1c8a52-0000-4000-8000-00000000000f")
    with pytest.raises(UsageError, match="exclude"):
        await it.engine.conversation(session_id, before="a", after="b")
    with pytest.raises(UsageError, match="no item"):
        await it.engine.conversation(session_id, before="none-of-these")
    with pytest.raises(UsageError, match="no item"):
        await it.engine.conversation(session_id, search="One", before="none-of-these")
    with pytest.raises(UsageError, match="goes back"):
        await it.engine.conversation(session_id, search="One", after="a")


async def test_a_search_gives_pieces_of_text_newest_first_and_goes_on_before_the_last(
    house: OpenEngine,
) -> None:
    look = tool("Bash", command="echo The HARBOUR", description="Look")
    it = await house(
        reply("To the harbour. " + "Far " * 100, look), "I saw the Harbour.", "Of the sea."
    )
    session_id = await it.start()
    await it.until(session_id, "done")
    await it.engine.say(session_id, Say(content="What of the sea?"))
    await it.until(session_id, "done")
    page = await it.engine.conversation(session_id, search="the harbour", limit=2)
    assert page.items == []
    assert [hit.kind for hit in page.hits] == ["text", "tool"]
    assert page.hits[0].text == "I saw the Harbour."
    assert page.hits[1].text == "echo The HARBOUR"
    assert page.earlier
    rest = await it.engine.conversation(session_id, search="the harbour", before=page.hits[1].id)
    (first,) = rest.hits
    assert first.text.startswith("To the harbour. Far")
    assert first.text.endswith("…")
    assert len(first.text) < 150
    assert not rest.earlier
    none = await it.engine.conversation(session_id, search="the .arbour")
    assert (none.hits, none.earlier) == ([], False)
