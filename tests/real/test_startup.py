"""How real CLIs start and what they write: rows A1 to A12, A15, A16, A18 of the protocol."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import pytest

from pilothouse import (
    AssistantMessage,
    Client,
    CLINotStarted,
    InitMessage,
    Message,
    ResultMessage,
    SessionEnded,
    StreamEvent,
    TextBlock,
    ToolUseBlock,
    UserMessage,
)
from pilothouse.client.versions import parse_version
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Text, reply, text, tool
from tests.support.real.desk import Desk, OpenDesk, conversation
from tests.support.real.turns import allow, unread
from tests.support.versions import CACHE, Since, can, newest
from tests.support.waiting import DEADLINE

STREAMS = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
ONE_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def of(kind: type[Any], events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_nothing_is_written_before_the_first_prompt(desk: OpenDesk) -> None:
    # A2: whoever waits for init before the first prompt waits for ever.
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert {event.type for event in await unread(client)} == {"control_response"}
        await client.ask("hi")
    assert client.initialization is not None
    assert client.initialization.commands


async def test_every_turn_begins_with_the_sessions_present_state(desk: OpenDesk) -> None:
    # A4
    it = await desk(reply("one"), reply("two"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.ask("1")
        await client.set_permission_mode("acceptEdits")
        await client.say("2")
        await client.wait_idle()
        second = of(InitMessage, await unread(client))
    assert [init.permission_mode for init in second] == ["acceptEdits"]
    assert second[0].session_id == client.session_id
    assert second[0].cwd == str(it.cwd)


async def test_a_session_id_of_the_callers_is_honoured(desk: OpenDesk) -> None:
    # A5
    it = await desk(reply("hello"))
    given = str(uuid4())
    client = await it.client(session_id=given)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
    assert turn.result is not None
    assert turn.result.session_id == given


async def test_the_version_is_known_from_the_start_or_from_the_first_turn(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        assert (client.version is not None) == can(it.version, Since.TELLS_ITS_VERSION)
        await client.ask("hi")
    assert client.version == parse_version(it.version)


async def test_partial_messages_come_only_when_they_are_asked_for(desk: OpenDesk) -> None:
    # A6
    it = await desk(reply(Text(text="one two", chunk=4)), reply(Text(text="one two", chunk=4)))
    async with asyncio.timeout(DEADLINE):
        plain = await it.client()
        await plain.say("hi")
        await plain.wait_idle()
        assert of(StreamEvent, await unread(plain)) == []
        partial = await it.client(include_partial_messages=True)
        await partial.say("hi")
        await partial.wait_idle()
        pieces = [event.text for event in of(StreamEvent, await unread(partial)) if event.text]
    assert "".join(pieces) == "one two"
    assert len(pieces) > 1


async def test_each_line_of_the_models_carries_one_block(desk: OpenDesk) -> None:
    # A10
    it = await desk(
        reply("Let me look.", tool("Bash", command="ls", description="list")), reply("Done.")
    )
    client = await it.client(on_permission=allow)
    async with asyncio.timeout(DEADLINE):
        await client.say("look")
        await client.wait_idle()
        lines: list[AssistantMessage] = of(AssistantMessage, await unread(client))
    assert [type(block) for line in lines for block in line.content] == [
        TextBlock,
        ToolUseBlock,
        TextBlock,
    ]
    assert all(len(line.content) == 1 for line in lines)
    assert lines[0].message.id == lines[1].message.id != lines[2].message.id
    assert [line.message.stop_reason for line in lines] == [None, None, None]


async def test_type_is_not_always_the_first_member(desk: OpenDesk) -> None:
    # A12
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("hi")
    assert turn.result is not None
    is_first = next(iter(json.loads(turn.result.raw))) == "type"
    assert is_first != can(it.version, Since.SHUFFLES_MEMBERS)


async def test_every_line_is_a_message_we_know(desk: OpenDesk) -> None:
    # A8
    it = await desk(reply(tool("Bash", command="ls", description="list")), reply("done"))
    client = await it.client(on_permission=allow, include_partial_messages=True)
    async with asyncio.timeout(DEADLINE):
        await client.say("look")
        await client.wait_idle()
        events = await unread(client)
    assert all(isinstance(event, Message) for event in events)
    assert [event for event in events if type(event).__name__ == "UnknownMessage"] == []


async def test_lines_far_over_64_kib_pass_both_ways(desk: OpenDesk) -> None:
    # A16
    it = await desk(reply(text("y" * 300_000)))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("x" * 300_000)
    assert turn.text == "y" * 300_000
    assert "x" * 300_000 in str(conversation(it)[-1].body["messages"])


async def test_the_prompts_echo_is_a_user_line_with_our_uuid(desk: OpenDesk) -> None:
    # A9
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await client.wait_idle()
        users: list[UserMessage] = of(UserMessage, await unread(client))
    assert [(line.uuid, line.is_replay, line.text) for line in users] == [(prompt.uuid, True, "hi")]


async def test_the_built_in_tools_depend_on_the_version(desk: OpenDesk) -> None:
    # A18
    it = await desk(reply("hello"))
    client = await it.client()
    async with asyncio.timeout(DEADLINE):
        await client.say("hi")
        await client.wait_idle()
        [init] = of(InitMessage, await unread(client))
    assert "Bash" in init.tools
    for name in ("TodoWrite", "Grep"):
        assert (name in init.tools) != can(it.version, Since.LACKS_SEARCH_TOOLS)


# Starts that fail


async def test_a_flag_the_cli_does_not_know_ends_the_start_with_its_words(desk: OpenDesk) -> None:
    lines: list[str] = []
    it = await desk()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded) as ended:
            await it.client(extra_args={"no-such-flag": None}, on_stderr=lines.append)
    assert ended.value.exit_code == 1
    assert lines == ["error: unknown option '--no-such-flag'"]
    assert ended.value.stderr_tail == lines[0] + "\n"
    assert lines[0] in str(ended.value)


@newest
async def test_the_newest_cli_speaks_to_no_websocket_of_ours(desk: OpenDesk) -> None:
    # A1
    it = await desk()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded, match="--sdk-url rejected") as ended:
            await it.client(extra_args={"sdk-url": "ws://127.0.0.1:9/session"})
    assert ended.value.exit_code == 1


async def test_a_directory_that_is_not_there_is_named(desk: OpenDesk) -> None:
    it = await desk()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(CLINotStarted, match="nowhere"):
            await it.client(cwd=it.cwd / "nowhere")


# Without the library


async def started(it: Desk, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr of a CLI whose input ends at once."""
    process = await asyncio.create_subprocess_exec(
        CACHE / it.version / "claude",
        *arguments,
        cwd=it.cwd,
        env=environment(it.home, it.model.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate(b"")
    return process.returncode, stdout.decode(), stderr.decode()


async def test_a_prompt_argument_is_ignored(desk: OpenDesk) -> None:
    # A3, D8
    it = await desk(reply("hello"))
    async with asyncio.timeout(DEADLINE):
        assert await started(it, "-p", *STREAMS, "say hello") == (0, "", "")
    assert it.model.requests == []


async def test_stream_json_output_needs_verbose(desk: OpenDesk) -> None:
    # A6
    it = await desk()
    async with asyncio.timeout(DEADLINE):
        code, _, stderr = await started(it, "-p", *STREAMS[:2])
    assert code == 1
    assert "requires --verbose" in stderr


async def test_reading_ends_where_the_input_ends(desk: OpenDesk) -> None:
    # A7, D8: a session without a single prompt ends in order.
    it = await desk()
    async with asyncio.timeout(DEADLINE), Client(it.options()) as client:
        client.close_input()
        async with aclosing(client.read()) as events:
            kinds = [type(event) async for event in events]
    assert ResultMessage not in kinds
