"""A conversation while it is held: its changes lead every reader to the same items."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.engine import Engine
from pilothouse.api.items import ConversationPatches, Item, TextItem, ToolItem
from pilothouse.api.requests import Say
from pilothouse.conversation import apply_patches
from pilothouse.engine import conversations
from pilothouse.errors import UnknownSession, UsageError
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.simulated

LONG = " ".join(f"word{number}" for number in range(200))
LOOK = tool("Bash", command="pwd", description="Look")
Changes = AsyncGenerator[ConversationPatches]


class Reader:
    """What a client has of a conversation: items as JSON, and a cursor."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor = 0
        self.items: dict[str, dict[str, Any]] = {}
        self.seen: list[ConversationPatches] = []

    async def read_page(self, engine: Engine, limit: int = 50) -> None:
        page = await engine.conversation(self.session_id, limit=limit)
        self.items = {item.id: as_json(item) for item in page.items}
        self.cursor = page.cursor

    async def follow(self, engine: Engine, cursor: int) -> None:
        """Take in changes up to this cursor."""
        async with (
            asyncio.timeout(DEADLINE),
            aclosing(engine.follow(self.session_id, self.cursor)) as changes,
        ):
            while self.cursor < cursor:
                await self.take(changes)

    async def take(self, changes: Changes) -> None:
        told = await anext(changes)
        self.seen.append(told)
        self.cursor = told.cursor
        apply_patches(self.items, as_json(told))

    async def check(self, engine: Engine) -> None:
        """It has what one has who reads all of it now."""
        page = await engine.conversation(self.session_id, limit=1000)
        assert [msgspec.convert(item, Item) for item in self.items.values()] == page.items


def as_json(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return found


async def cursor_of(it: EngineHarness) -> int:
    await it.engine.journal.post([]).committed
    return (await it.engine.health()).cursor


async def last_change(it: EngineHarness, session_id: str) -> int:
    """The cursor of the last entry that changes the conversation: the end of a turn."""
    ends = [each.seq for each in await it.events(session_id) if each.kind == "turn.ended"]
    return ends[-1]


async def test_changes_lead_from_the_first_page_to_the_last(house: OpenEngine) -> None:
    it = await house("One.", reply("I look.", LOOK), LONG)
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    following = asyncio.ensure_future(reader.follow(it.engine, await cursor_of(it) + 1))
    await asyncio.sleep(0)
    await it.say(session_id, "more")
    await it.until(session_id, "done")
    await following
    await reader.follow(it.engine, await last_change(it, session_id))
    await reader.check(it.engine)


async def test_text_comes_in_pieces_as_it_is_written(house: OpenEngine) -> None:
    it = await house(LONG)
    session_id = await it.start()
    reader = Reader(session_id)
    texts: list[str] = []
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow(session_id, 0)) as changes:
        while not any(item["kind"] == "turn" for item in reader.items.values()):
            await reader.take(changes)
            texts += [each["text"] for each in reader.items.values() if each["kind"] == "text"]
    assert texts[-1] == LONG
    assert all(LONG.startswith(text) for text in texts)


async def test_a_slow_reader_gets_its_changes_joined(house: OpenEngine) -> None:
    it = await house("One.", reply("I look.", LOOK), "Two.")
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow(session_id)) as slow:
        first = asyncio.ensure_future(reader.take(slow))
        await asyncio.sleep(0)
        await it.say(session_id, "more")
        await first
        # Another one reads on, so every step is taken while the slow one does not.
        quick = Reader(session_id)
        await quick.read_page(it.engine)
        await it.until(session_id, "done")
        await quick.follow(it.engine, await last_change(it, session_id))
        await reader.take(slow)
    ids = [patch.id for patch in reader.seen[-1].patches]
    assert len(ids) == len(set(ids))
    await reader.check(it.engine)


async def test_a_reader_of_long_ago_gets_whole_items(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "RECENT", 1)
    monkeypatch.setattr(conversations, "IN_ONE", 2)
    it = await house("One.", reply("I look.", LOOK), "Two.")
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    stays = it.engine.follow(session_id, 0)
    await anext(stays)
    await it.say(session_id, "more")
    await it.until(session_id, "done")
    await reader.follow(it.engine, await last_change(it, session_id))
    assert reader.seen[0].unfinished == []
    await reader.check(it.engine)
    await stays.aclose()


async def test_changes_go_on_after_a_restart(house: OpenEngine) -> None:
    it = await house(reply("I look.", LOOK), "One.", "Two.")
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    await it.say(session_id, "more")
    await it.until(session_id, "done")
    await it.close()
    await it.open()
    await reader.follow(it.engine, await last_change(it, session_id))
    await reader.check(it.engine)
    texts = [item for item in reader.items.values() if item["kind"] == "text"]
    assert [each["text"] for each in texts] == ["I look.", "One.", "Two."]


async def test_what_was_only_in_pieces_is_gone_after_a_restart(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    lost = TextItem(id="msg_lost/text0", seq=1, text="Half a sen", state="streaming")
    reader.items[lost.id] = as_json(lost)
    reader.cursor = 1
    await reader.follow(it.engine, await last_change(it, session_id))
    await reader.check(it.engine)


async def test_a_page_that_is_not_the_whole_stays_without_what_is_before_it(
    house: OpenEngine,
) -> None:
    it = await house(reply("I look.", LOOK), "One.", "Two.")
    session_id = await it.done()
    reader = Reader(session_id)
    await reader.read_page(it.engine, limit=2)
    (first, *_) = reader.items
    await it.say(session_id, "more")
    await it.until(session_id, "done")
    await it.close()
    await it.open()
    await reader.follow(it.engine, await last_change(it, session_id))
    whole = [item.id for item in (await it.engine.conversation(session_id, limit=100)).items]
    assert list(reader.items) == whole[whole.index(first) :]


async def test_a_session_on_disk_is_followed_once_it_is_taken_up(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await run_bare_cli(it, "a question of old")
    reader = Reader(session_id)
    await reader.read_page(it.engine)
    assert len(reader.items) >= 2
    async with asyncio.timeout(DEADLINE), aclosing(it.engine.follow(session_id)) as changes:
        first = asyncio.ensure_future(reader.take(changes))
        await asyncio.sleep(0)
        await it.engine.say(session_id, Say(content="more"))
        await first
    await it.until(session_id, "done")
    await reader.follow(it.engine, await last_change(it, session_id))
    await reader.check(it.engine)


async def test_who_has_a_page_has_it_as_it_was(house: OpenEngine) -> None:
    it = await house(reply("I write.", tool("Write", file_path="a.txt", content="a")), "One.")
    session_id = await it.start()
    question = await it.asked(session_id)
    page = await it.engine.conversation(session_id)
    before = [as_json(item) for item in page.items]
    await it.engine.answer(question.id, Allow())
    await it.until(session_id, "done")
    now = (await it.engine.conversation(session_id)).items
    assert [as_json(item) for item in page.items] == before
    assert [as_json(item) for item in now[: len(before)]] != before


async def test_a_cursor_of_another_journal_is_refused(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    with pytest.raises(UsageError, match="read the conversation again"):
        await anext(it.engine.follow(session_id, 10**9))
    with pytest.raises(UnknownSession):
        await anext(it.engine.follow("nobody", 0))


async def test_every_follower_gets_every_change(house: OpenEngine) -> None:
    it = await house("One.", LONG)
    session_id = await it.done()
    readers = [Reader(session_id) for _ in range(5)]
    for reader in readers:
        await reader.read_page(it.engine)
    ahead = await cursor_of(it) + 1
    following = [asyncio.ensure_future(each.follow(it.engine, ahead)) for each in readers]
    await asyncio.sleep(0)
    await it.say(session_id, "more")
    await it.until(session_id, "done")
    await asyncio.gather(*following)
    end = await last_change(it, session_id)
    for reader in readers:
        await reader.follow(it.engine, end)
        await reader.check(it.engine)


# The lines behind an item


async def lines_of(it: EngineHarness, session_id: str, item: Item) -> list[dict[str, Any]]:
    source = await it.engine.item_source(session_id, item.id)
    assert source.item == item
    found = [bytes(each.body) for each in source.entries] + list(map(bytes, source.transcript))
    return [json.loads(line) for line in found]


async def test_an_item_has_the_lines_that_it_was_made_of(house: OpenEngine) -> None:
    it = await house(reply("I look.", LOOK), "One.")
    session_id = await it.done()
    items = (await it.engine.conversation(session_id)).items
    (call,) = (item for item in items if isinstance(item, ToolItem))
    asked, told = await lines_of(it, session_id, call)
    assert asked["type"] == "assistant"
    assert told["message"]["content"][0]["tool_use_id"] == call.id
    with pytest.raises(UsageError, match="no item"):
        await it.engine.item_source(session_id, "none-of-these")


async def test_an_item_of_a_transcript_has_its_line(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "a question of old")
    prompt, text = (await it.engine.conversation(session_id)).items[:2]
    (line,) = await lines_of(it, session_id, prompt)
    assert line["message"]["content"] == "a question of old"
    (line,) = await lines_of(it, session_id, text)
    assert line["message"]["content"][0]["text"] == "One."
