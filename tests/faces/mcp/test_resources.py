"""Sessions and transcripts as resources, with the official client in both eras of MCP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
)

from pilothouse.api.events import Gap
from pilothouse.api.items import ConversationPage
from pilothouse.api.records import PromptSaid, Record, TurnEnded, encode_record
from pilothouse.api.requests import Start
from pilothouse.api.statuses import Listed, Listing
from pilothouse.conversation import Conversation
from pilothouse.errors import ServerError, UsageError
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.resources import PAGE, Resources
from tests.support.http.fake_engine import NOW, FakeEngine

# Handshake versions have no other way to say it.
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

DEADLINE = 20
ERAS = ("legacy", "2026-07-28")
EVERY = "pilothouse://sessions"


class FoldingEngine(FakeEngine):
    """A fake engine whose conversations are those of its journal."""

    async def conversation(
        self,
        session_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        search: str = "",
    ) -> ConversationPage:
        folded = Conversation()
        folded.apply_all([each for each in self.journal if each.session_id == session_id])
        items = folded.items
        ids = [each.id for each in items]
        if before is not None and before not in ids:
            raise UsageError("no item of this conversation has that id")
        last = len(ids) if before is None else ids.index(before)
        first = max(last - limit, 0)
        return ConversationPage(items=items[first:last], cursor=self.cursor, earlier=first > 0)


class House:
    """A fake engine, the resources of it, and what clients were told."""

    def __init__(self, *, limit: int = 256 * 1024) -> None:
        self.engine = FoldingEngine()
        self.connected = 0
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.resources = Resources(EngineHandle(self.connect), every_s=0.01, limit=limit)

    async def connect(self) -> Any:
        self.connected += 1
        return self.engine

    def server(self) -> Server[Any]:
        offered = self.resources
        return Server(
            "test",
            on_list_resources=offered.list,
            on_list_resource_templates=offered.templates,
            on_read_resource=offered.read,
            on_subscribe_resource=offered.subscribe,
            on_unsubscribe_resource=offered.unsubscribe,
            on_subscriptions_listen=offered.listen,
        )

    @asynccontextmanager
    async def client(self, era: str = "legacy") -> AsyncIterator[Client]:
        async with Client(self.server(), mode=era, message_handler=self._heard) as client:
            yield client

    async def _heard(self, message: Any) -> None:
        match message:
            case ResourceUpdatedNotification():
                self.told.put_nowait(str(message.params.uri))
            case ResourceListChangedNotification():
                self.told.put_nowait("list")
            case _:
                pass

    async def start(self, label: str | None = None) -> str:
        return (await self.engine.start(Start(prompt="go", cwd="/w", label=label))).session_id

    def write(self, session_id: str, kind: str, **body: Any) -> int:
        return self.engine.append(session_id, kind, msgspec.json.encode(body))

    def said(self, session_id: str, prompt_id: str, words: str) -> None:
        self.record(session_id, PromptSaid(id=prompt_id, content=words))

    def record(self, session_id: str, record: Record) -> None:
        kind, body = encode_record(record)
        self.engine.append(session_id, kind, body)

    async def hears(self) -> str:
        return await asyncio.wait_for(self.told.get(), DEADLINE)


def text_of(result: Any) -> str:
    [content] = result.contents
    return content.text


def spoken(words: str) -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return {"type": "assistant", "uuid": "line", "message": {"id": "m", "content": content}}


async def until(holds: Any) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


# Reading


@pytest.mark.parametrize("era", ERAS)
async def test_every_session_is_listed_with_its_status_and_its_transcript(era: str):
    house = House()
    session_id = await house.start("repairs")
    async with house.client(era) as client:
        found = (await client.list_resources()).resources
    uris = [each.uri for each in found]
    assert uris == [EVERY, f"{EVERY}/{session_id}", f"{EVERY}/{session_id}/transcript"]
    assert [each.title for each in found][1] == "repairs"
    assert found[1].mime_type == "application/json"
    assert found[2].mime_type == "text/markdown"


async def test_the_list_is_told_in_pages():
    house = House()
    for _ in range(PAGE + 1):
        await house.start()
    async with house.client() as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
    assert len(first.resources) == 1 + 2 * PAGE
    assert len(second.resources) == 2
    assert second.next_cursor is None


@pytest.mark.parametrize("cursor", ["-1", "x", "9" * 30, "\u0661"])
async def test_a_cursor_that_was_never_given_out_is_refused(cursor: str):
    async with House().client() as client:
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor=cursor)


async def test_the_templates_say_how_an_address_is_made():
    async with House().client() as client:
        found = (await client.list_resource_templates()).resource_templates
    assert [each.uri_template for each in found] == [
        "pilothouse://sessions/{sessionId}",
        "pilothouse://sessions/{sessionId}/transcript{?before}",
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_is_read_as_the_http_api_tells_it(era: str):
    house = House()
    session_id = await house.start()
    async with house.client(era) as client:
        every = json.loads(text_of(await client.read_resource(EVERY)))
        one = json.loads(text_of(await client.read_resource(f"{EVERY}/{session_id}")))
    assert [each["session_id"] for each in every["sessions"]] == [session_id]
    assert one == msgspec.to_builtins(await house.engine.status(session_id))


@pytest.mark.parametrize(
    "uri", ["pilothouse://other", "file:///etc/passwd", f"{EVERY}/a/b", f"{EVERY}/a/transcript?x=1"]
)
async def test_an_address_with_nothing_at_it_is_refused_with_those_there_are(uri: str):
    async with House().client() as client:
        with pytest.raises(MCPError, match="there is no resource") as refused:
            await client.read_resource(uri)
    assert "{sessionId}/transcript" in str(refused.value)


async def test_a_session_nobody_knows_is_refused():
    async with House().client() as client:
        with pytest.raises(MCPError, match="no session has the id nope"):
            await client.read_resource(f"{EVERY}/nope")


async def test_a_session_made_elsewhere_is_told_as_far_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
):
    house = House()
    listed = Listed(session_id="old", cwd="/w", title="t", updated_at=NOW, source="transcript")

    async def listing(**_: Any) -> Listing:
        return Listing(sessions=[listed], total=1)

    monkeypatch.setattr(house.engine, "list", listing)
    known = await house.engine.status(await house.start())
    house.engine.sessions["old"] = msgspec.structs.replace(
        known, session_id="old", source="transcript"
    )
    house.write("old", "cli", **spoken("From a terminal."))
    async with house.client() as client:
        uris = [each.uri for each in (await client.list_resources()).resources]
        one = json.loads(text_of(await client.read_resource(f"{EVERY}/old")))
        said = text_of(await client.read_resource(f"{EVERY}/old/transcript"))
    assert uris == [EVERY, f"{EVERY}/old", f"{EVERY}/old/transcript"]
    assert one["source"] == "transcript"
    assert said.endswith("## Claude\n\nFrom a terminal.\n")


async def test_an_engine_that_cannot_be_reached_is_an_error_with_the_reason():
    house = House()

    async def nowhere() -> Any:
        raise ServerError("no server can be reached")

    house.resources = Resources(EngineHandle(nowhere))
    async with house.client() as client:
        with pytest.raises(MCPError, match="no server can be reached"):
            await client.list_resources()


async def test_a_long_transcript_is_told_from_its_end_and_leads_to_what_was_before():
    house = House(limit=2_000)
    session_id = await house.start()
    other = await house.start()
    for number in range(60):
        words = f"message {number:02} {'x' * 80}"
        house.said(session_id, f"p/{number}", words)
        house.said(other, f"o/{number}", "of another session")
    uri: str | None = f"{EVERY}/{session_id}/transcript"
    found: list[str] = []
    async with house.client() as client:
        while uri is not None:
            text = text_of(await client.read_resource(uri))
            assert len(text.encode()) < 2_200
            assert "another session" not in text
            lines = text.splitlines()
            found[:0] = [line[8:10] for line in lines if line.startswith("message")]
            earlier = [line for line in lines if line.startswith("_What came before: ")]
            uri = earlier[0].split(": ", 1)[1].rstrip("_") if earlier else None
    assert found == [f"{number:02}" for number in range(60)]


async def test_an_item_longer_than_all_that_is_told_at_once_is_told_alone():
    house = House(limit=10)
    session_id = await house.start()
    for number in range(3):
        house.said(session_id, f"p{number}", f"message {number}")
    async with house.client() as client:
        text = text_of(await client.read_resource(f"{EVERY}/{session_id}/transcript?before=p2"))
    assert "message 1" in text
    assert "message 0" not in text
    assert f"{EVERY}/{session_id}/transcript?before=p1_" in text


async def test_an_item_that_is_not_there_leads_nowhere():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        with pytest.raises(MCPError, match="no item of this conversation") as refused:
            await client.read_resource(f"{EVERY}/{session_id}/transcript?before=gone")
    assert refused.value.error.code == INVALID_PARAMS


async def test_a_conversation_is_told_behind_much_that_others_said():
    house = House()
    mine, other = await house.start(), await house.start()
    house.said(mine, "p", "long ago")
    for _ in range(1_000):
        house.write(other, "partial")
    house.record(mine, TurnEnded(outcome="finished", reason=""))
    house.write(mine, "noise")
    async with house.client() as client:
        text = text_of(await client.read_resource(f"{EVERY}/{mine}/transcript"))
    assert "long ago" in text
    assert text.rstrip().endswith("_The turn ended: finished._")


async def test_a_text_is_in_the_transcript_while_the_model_writes_it():
    house = House()
    session_id = await house.start()
    uri = f"{EVERY}/{session_id}/transcript"
    async with house.client() as client:
        await client.subscribe_resource(uri)
        for event in (
            {"type": "message_start", "message": {"id": "m", "model": "m"}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Ha"},
            },
        ):
            house.write(session_id, "partial", type="stream_event", event=event)
        assert await house.hears() == uri
        text = text_of(await client.read_resource(uri))
        house.write(session_id, "cli", **spoken("Half of it, and the rest."))
        later = text_of(await client.read_resource(uri))
    assert text.endswith("## Claude\n\nHa\n\n_(still writing)_\n")
    assert later.endswith("## Claude\n\nHalf of it, and the rest.\n")


async def test_a_session_in_which_nothing_was_said_has_a_transcript():
    house = House()
    session_id = await house.start()
    house.engine.journal.clear()
    async with house.client() as client:
        text = text_of(await client.read_resource(f"{EVERY}/{session_id}/transcript"))
    assert "Nothing was said yet" in text


# Notices, in handshake versions


async def test_the_server_says_that_changes_are_told():
    house = House()
    options = NotificationOptions(resources_changed=True)
    before = house.server().get_capabilities(options).resources
    since = house.server().get_capabilities(protocol_version="2026-07-28").resources
    assert before is not None
    assert since is not None
    assert (before.subscribe, before.list_changed) == (True, True)
    assert (since.subscribe, since.list_changed) == (True, True)


async def test_a_client_that_subscribed_is_told_of_changes_of_that_resource_alone():
    house = House()
    mine, other = await house.start(), await house.start()
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{mine}/transcript")
        house.write(other, "turn.ended", outcome="finished")
        house.write(mine, "turn.ended", outcome="finished")
        assert await house.hears() == f"{EVERY}/{mine}/transcript"
        assert house.told.empty()


@pytest.mark.parametrize("era", ERAS)
async def test_a_change_is_told_under_the_address_that_was_asked_for(
    era: str, monkeypatch: pytest.MonkeyPatch
):
    house = House()
    session_id = await house.start()
    known = house.engine.status

    async def status(named: str, **more: Any) -> Any:
        return await known(session_id if named == "conversation" else named, **more)

    monkeypatch.setattr(house.engine, "status", status)
    for uri in (
        f"{EVERY}/",
        f"{EVERY}/{session_id}/",
        f"{EVERY}/{session_id}/transcript/",
        f"{EVERY}/{session_id}/transcript?before=5",
        f"{EVERY}/%73{session_id[1:]}",
        f"{EVERY}/conversation",
    ):
        async with house.client(era) as client, listening(house, client, era, uri) as hears:
            house.write(session_id, "turn.ended", outcome="finished")
            assert await hears() == uri


@asynccontextmanager
async def listening(house: House, client: Client, era: str, uri: str) -> AsyncIterator[Any]:
    if era == "legacy":
        await client.subscribe_resource(uri)
        yield house.hears
        await client.unsubscribe_resource(uri)
        return
    async with client.listen(resource_subscriptions=[uri]) as stream:

        async def hears() -> str:
            async with asyncio.timeout(DEADLINE):
                event: Any = await anext(aiter(stream))
                return event.uri

        yield hears


async def test_pieces_of_messages_change_the_transcript_alone():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{session_id}")
        await client.subscribe_resource(f"{EVERY}/{session_id}/transcript")
        await client.subscribe_resource(EVERY)
        house.write(session_id, "noise")
        house.write(session_id, "partial")
        assert await house.hears() == f"{EVERY}/{session_id}/transcript"
        house.write(session_id, "cli", type="assistant")
        heard = {await house.hears(), await house.hears()}
    assert heard == {f"{EVERY}/{session_id}", f"{EVERY}/{session_id}/transcript"}


async def test_events_that_are_gone_may_have_changed_anything():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{session_id}")
        last = house.engine.cursor + 1
        house.engine.gaps.append(Gap(first=last, last=last, count=1, reason="retention"))
        house.write(session_id, "partial")
        assert await house.hears() == f"{EVERY}/{session_id}"


async def test_many_changes_soon_after_each_other_are_told_together():
    house = House()
    session_id = await house.start()
    house.resources = Resources(EngineHandle(house.connect), every_s=3600)
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{session_id}")
        house.write(session_id, "turn.ended")
        await house.hears()
        reads = house.engine.reads
        for _ in range(100):
            house.write(session_id, "turn.ended")
        await until(lambda: house.engine.reads > reads + 1)
    assert house.told.empty()


async def test_a_client_that_has_unsubscribed_is_told_nothing():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{session_id}")
        await client.subscribe_resource(EVERY)
        await client.unsubscribe_resource(f"{EVERY}/{session_id}")
        house.write(session_id, "turn.ended")
        assert await house.hears() == EVERY
        await client.unsubscribe_resource(EVERY)
        await until(lambda: not watchers())
        assert house.told.empty()


async def test_a_client_that_has_listed_is_told_of_new_sessions():
    house = House()
    async with house.client() as client:
        await client.list_resources()
        await house.start()
        assert await house.hears() == "list"


async def test_a_client_that_asked_for_nothing_has_nobody_watching():
    house = House()
    async with house.client() as client:
        await client.list_resource_templates()
    assert house.connected == 0


async def test_what_belongs_to_a_connection_ends_with_it():
    house = House()
    async with house.client() as client:
        await client.list_resources()
        await client.subscribe_resource(EVERY)
        await until(watchers)
    assert not watchers()


async def test_no_client_can_want_more_than_so_much(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pilothouse.faces.mcp.resources.MOST_WANTED", 1)
    async with House().client() as client:
        await client.subscribe_resource(EVERY)
        with pytest.raises(MCPError, match="at most 1"):
            await client.subscribe_resource(f"{EVERY}/a")


async def test_after_the_engine_was_away_the_next_request_goes_on_with_what_was_missed():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        await client.subscribe_resource(f"{EVERY}/{session_id}")
        await house.engine.watched()
        house.engine.fail(ServerError("it is gone"))
        await until(lambda: not watchers())
        connected = house.connected
        house.write(session_id, "turn.ended")
        assert (house.told.empty(), house.connected) == (True, connected)
        await client.read_resource(f"{EVERY}/{session_id}")
        assert await house.hears() == f"{EVERY}/{session_id}"


async def test_when_another_request_has_lost_the_engine_its_follower_is_watched():
    house = House()
    session_id = await house.start()
    async with house.client() as client:
        await client.subscribe_resource(EVERY)
        await house.engine.watched()
        lost, house.engine = house.engine, FoldingEngine()
        assert await house.start() == session_id
        lost.raises = ServerError("it is gone")
        await client.read_resource(f"{EVERY}/{session_id}")
        await house.engine.watched()
        house.write(session_id, "turn.ended")
        assert await house.hears() == EVERY
        assert (lost.closed, house.connected) == (True, 2)


# Notices, in 2026-07-28


async def test_a_stream_tells_what_was_asked_for():
    house = House()
    mine = await house.start()
    uri = f"{EVERY}/{mine}"
    async with (
        house.client("2026-07-28") as client,
        client.listen(resource_subscriptions=[uri], resources_list_changed=True) as stream,
        asyncio.timeout(DEADLINE),
    ):
        house.write(mine, "turn.ended")
        assert await anext(aiter(stream)) == ResourceUpdated(uri)
        await house.start()
        assert await anext(aiter(stream)) == ResourcesListChanged()
    await until(lambda: not watchers())


async def test_a_stream_that_asks_for_no_resources_needs_no_engine():
    house = House()
    async with (
        house.client("2026-07-28") as client,
        client.listen(tools_list_changed=True, resource_subscriptions=["odd://x"]),
    ):
        pass
    assert house.connected == 0


async def test_a_stream_ends_in_order_when_the_engine_is_gone():
    house = House()
    async with (
        house.client("2026-07-28") as client,
        client.listen(resources_list_changed=True) as stream,
        asyncio.timeout(DEADLINE),
    ):
        await house.engine.watched()
        house.engine.fail(ServerError("it is gone"))
        assert [each async for each in stream] == []


async def test_there_are_only_so_many_streams(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pilothouse.faces.mcp.resources.MOST_STREAMS", 1)
    house = House()
    async with house.client("2026-07-28") as client, client.listen(resources_list_changed=True):
        with pytest.raises(MCPError, match="too many"):
            async with client.listen(resources_list_changed=True):
                pass


async def test_listing_alone_makes_nobody_watch_in_2026():
    house = House()
    async with house.client("2026-07-28") as client:
        await client.list_resources()
        assert not watchers()


def watchers() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith("notices: watch")]
