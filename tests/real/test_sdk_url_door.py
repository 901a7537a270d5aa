"""The older CLIs that dial, at our own door: what they carry, and what they lose and we tell."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from pilothouse import Allow, Client, SessionEnded
from pilothouse.client.versions import parse_version
from pilothouse.doors.dialect import refuses
from pilothouse.protocol import StreamEvent
from pilothouse_sim.scenario import gate, reply, text
from tests.support.real.dialling import REPEATING, hall
from tests.support.real.handlers import Handler, bash
from tests.support.versions import BUILDS, NATIVE, NEWEST, NODE, OLD
from tests.support.waiting import DEADLINE

every_build = pytest.mark.parametrize("build", BUILDS)

TOUCH = bash("touch made")


async def bounded(work: Any) -> Any:
    async with asyncio.timeout(DEADLINE):
        return await work


class Ears:
    """Reads a client, and keeps the text of the stream as it came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._news = asyncio.Condition()
        self.text = ""
        self.uuids: list[str | None] = []

    async def listen(self) -> None:
        async for event in self._client.read():
            self.uuids.append(getattr(event, "uuid", None))
            if isinstance(event, StreamEvent):
                self.text += json.loads(event.raw)["event"].get("delta", {}).get("text", "")
            async with self._news:
                self._news.notify_all()

    async def until(self, words: str) -> None:
        async with self._news:
            await self._news.wait_for(lambda: words in self.text)


def proc(pid: int | None, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


@every_build
async def test_a_turn_with_a_permission(build: str, tmp_path: Path) -> None:
    asked = Handler(Allow())
    async with (
        hall(build, tmp_path, reply(TOUCH), reply("done")) as it,
        it.dialling(on_permission=asked) as (client, transport),
    ):
        await bounded(client.connect())
        turn = await bounded(client.ask("go"))
        assert turn.text == "done"
        assert (it.cwd / "made").exists()
        assert len(asked.requests) == 1
        assert transport.runner_version is not None
        assert transport.runner_version.startswith("pilothouse/")
        assert client.pid == transport.pid
    assert it.lost == []


@every_build
@pytest.mark.versions(OLD)
async def test_the_token_is_in_no_argument_and_no_environment(build: str, tmp_path: Path) -> None:
    async with hall(build, tmp_path) as it, it.dialling() as (client, _):
        await bounded(client.connect())
        shown = proc(client.pid, "cmdline") + proc(client.pid, "environ")
        assert it.session_id.encode() in shown
        assert it.token.encode() not in shown
        assert it.token.rpartition(".")[2].encode() not in shown


@every_build
@pytest.mark.versions(NATIVE, OLD)
async def test_a_cut_in_the_middle_of_a_turn(build: str, tmp_path: Path) -> None:
    said = reply(text("one "), gate("a"), text("two "), gate("b"), text("three"))
    async with hall(build, tmp_path, said) as it, it.dialling() as (client, _):
        await bounded(client.connect())
        ears = Ears(client)
        listening = asyncio.create_task(ears.listen())
        prompt = await client.say("go")
        await bounded(ears.until("one "))
        await bounded(it.model.reached("a"))
        it.wire.cut()
        it.model.release("a")
        await bounded(it.model.reached("b"))
        await bounded(it.reconnects.acquire())
        it.model.release("b")
        turn = await bounded(prompt)
        assert turn.outcome == "finished"
        uuids = [each for each in ears.uuids if each]
        assert len(set(uuids)) == len(uuids)
        if build in REPEATING:
            assert (ears.text, it.lost) == ("one two three", [])
        else:
            assert ears.text == "one three"
            assert len(it.lost) == 1
            assert "gone" in it.lost[0]
        client.stop_reading()
        await bounded(listening)


@every_build
@pytest.mark.versions(NATIVE, NODE)
async def test_a_question_that_was_lost_on_the_way_is_asked_again(
    build: str, tmp_path: Path
) -> None:
    asked = Handler(Allow())
    replies = (reply(gate("a"), TOUCH), reply("done"))
    async with (
        hall(build, tmp_path, *replies) as it,
        it.dialling(on_permission=asked) as (client, _),
    ):
        await bounded(client.connect())
        prompt = await client.say("go")
        await bounded(it.model.reached("a"))
        it.wire.cut()
        it.model.release("a")
        turn = await bounded(prompt)
        assert turn.text == "done"
        assert (it.cwd / "made").exists()
        assert len(asked.requests) == 1
        assert bool(it.lost) is (build not in REPEATING)


@every_build
@pytest.mark.versions(OLD)
async def test_an_answer_given_while_nobody_is_connected_arrives(
    build: str, tmp_path: Path
) -> None:
    async with hall(build, tmp_path, reply(TOUCH), reply("done")) as it:

        async def cut_and_allow(_: Any) -> Allow:
            it.wire.cut()
            return Allow()

        async with it.dialling(on_permission=cut_and_allow) as (client, _):
            await bounded(client.connect())
            turn = await bounded(client.ask("go"))
            assert turn.text == "done"
    assert it.lost == []


@every_build
@pytest.mark.versions(OLD)
async def test_the_hybrid_mode_loses_nothing(build: str, tmp_path: Path) -> None:
    said = reply(text("one "), gate("a"), text("two "), gate("b"), text("three"))
    asked = Handler(Allow())
    async with (
        hall(build, tmp_path, reply(TOUCH), said) as it,
        it.dialling(hybrid=True, on_permission=asked) as (client, _),
    ):
        await bounded(client.connect())
        ears = Ears(client)
        listening = asyncio.create_task(ears.listen())
        prompt = await client.say("go")
        await bounded(it.model.reached("a"))
        it.wire.cut()
        it.model.release("a")
        await bounded(it.model.reached("b"))
        await bounded(it.reconnects.acquire())
        it.model.release("b")
        assert (await bounded(prompt)).outcome == "finished"
        client.stop_reading()
        await bounded(listening)
        assert ears.text == "one two three"
        assert len(asked.requests) == 1
    assert it.lost == []


@every_build
@pytest.mark.versions(NATIVE, NODE)
async def test_a_false_token_opens_nothing(build: str, tmp_path: Path) -> None:
    async with hall(build, tmp_path) as it, it.dialling(token=f"{it.run}.false") as (client, cli):
        connecting = asyncio.create_task(client.connect())
        await bounded(it.wire.dials.acquire())
        if build in REPEATING:
            with pytest.raises(SessionEnded):
                await bounded(connecting)
        else:
            # 2.1.37 knows no final close code and comes back.
            await bounded(it.wire.dials.acquire())
            assert not connecting.done()
            connecting.cancel()
            await asyncio.wait([connecting])
        assert not cli.connected
        assert cli.runner_version is None


@every_build
@pytest.mark.versions(NATIVE)
async def test_closing_ends_the_cli_in_order(build: str, tmp_path: Path) -> None:
    async with hall(build, tmp_path, reply("hello")) as it, it.dialling() as (client, cli):
        await bounded(client.connect())
        assert (await bounded(client.ask("go"))).text == "hello"
        exit_ = await bounded(cli.aclose(grace=30))
        # The native 2.1.37 is killed by SIGINT in most runs, and ends with 0 in some.
        orderly = {(0, None)} | ({(None, signal.SIGINT)} if build == OLD else set())
        assert (exit_.code, exit_.signal) in orderly


@every_build
@pytest.mark.versions(NODE)
async def test_a_kept_connection_outlives_a_second_turn(build: str, tmp_path: Path) -> None:
    async with (
        hall(build, tmp_path, reply("one"), reply("two")) as it,
        it.dialling() as (client, _),
    ):
        await bounded(client.connect())
        assert (await bounded(client.ask("go"))).text == "one"
        it.wire.cut()
        assert (await bounded(client.ask("on"))).text == "two"
    assert it.lost == []


async def test_a_newer_cli_refuses_by_itself_and_is_explained(tmp_path: Path) -> None:
    version = parse_version(NEWEST)
    assert version is not None
    assert "relay" in (refuses(version) or "")
    async with hall(NEWEST, tmp_path) as it, it.dialling() as (client, cli):
        with pytest.raises(SessionEnded):
            await bounded(client.connect())
        assert "--sdk-url rejected" in cli.stderr_tail
