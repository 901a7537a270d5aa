"""What a person reads of a session is the same from what the CLI writes and from its transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse import Allow, Client, Deny, Message, ToolRequest
from pilothouse.api.items import (
    CompactionItem,
    Item,
    PromptItem,
    TextItem,
    ThinkingItem,
    ToolItem,
)
from pilothouse.conversation import Conversation
from pilothouse.conversation.transcripts import fold_transcript
from pilothouse.protocol import StreamEvent
from pilothouse_sim.scenario import AnyReply, reply, text, thinking, tool
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.handlers import Handler, bash
from tests.support.real.turns import unread
from tests.support.versions import VERSIONS

IN_BOTH = (PromptItem, TextItem, ThinkingItem, ToolItem, CompactionItem)
"""Transcripts have no costs, retries, limits, hooks and questions."""
NOT_IN_TRANSCRIPTS = {"seq", "at", "result_seq", "ended_at", "elapsed_s", "reason", "task"}
"""Members that tell where and when something was read, and what only the stream says."""

Json = dict[str, Any]

WRITE = tool("Write", file_path="made.txt", content="one\ntwo\n")
TALKS: dict[str, tuple[list[AnyReply], list[str]]] = {
    "words": ([reply(text("Hello there.", chunk=3))], ["Hello."]),
    "thoughts": ([reply(thinking("Let me see.", chunk=4), "Done.")], ["Think."]),
    "two turns": ([reply("One."), reply("Two.")], ["First.", "Second."]),
    "a command": ([reply("I look.", bash("echo hi > a; cat a")), reply("It says hi.")], ["Look."]),
    "a failing command": ([reply(bash("touch b; exit 3")), reply("It failed.")], ["Fail."]),
    "calls side by side": (
        [reply(bash("touch c; echo c"), bash("touch d; echo d")), reply("Both.")],
        ["Do both."],
    ),
    "a file": ([reply(WRITE), reply("Written.")], ["Write it."]),
}


async def answer(request: Any) -> Any:
    return Allow() if isinstance(request, ToolRequest) else Deny("not now")


async def talk(it: Desk, prompts: list[str], **options: Any) -> list[Message]:
    """Every message of a session from its start to its end."""
    async with Client(it.options(include_partial_messages=True, **options)) as client:
        for prompt in prompts:
            await (await client.say(prompt))
        written = await unread(client)
    return [event for event in written if isinstance(event, Message)]


def from_stream(messages: list[Message], *, pieces: bool = True) -> list[Item]:
    conversation = Conversation()
    for seq, message in enumerate(messages, 1):
        if pieces or not isinstance(message, StreamEvent):
            conversation.apply(seq, "cli", 0, message.raw, message)
    return conversation.items


def from_disk(home: Path) -> list[Item]:
    projects = home / ".claude/projects"
    (session,) = (each for each in projects.glob("*/*.jsonl") if not is_of_agent(each))
    agents = [each for each in projects.glob("**/*.jsonl") if is_of_agent(each)]
    own = {each.stem.removeprefix("agent-"): lines(each) for each in agents}
    return fold_transcript(lines(session), own).items


def is_of_agent(path: Path) -> bool:
    return path.name.startswith("agent-")


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def shown(items: list[Item]) -> list[Json]:
    """What both can say, of the items that both have; an echo may come behind its answer."""
    both = [msgspec.to_builtins(item) for item in items if isinstance(item, IN_BOTH)]
    both.sort(key=lambda item: item["kind"] != "prompt")
    return [
        {name: value for name, value in item.items() if name not in NOT_IN_TRANSCRIPTS}
        for item in both
    ]


@pytest.mark.versions(*VERSIONS)
@pytest.mark.parametrize("name", TALKS)
async def test_a_transcript_gives_the_items_of_the_stream(desk: OpenDesk, name: str) -> None:
    replies, prompts = TALKS[name]
    it = await desk(*replies)
    messages = await talk(it, prompts, on_permission=answer)
    expected = shown(from_stream(messages))
    assert len(expected) > len(prompts)
    assert shown(from_disk(it.home)) == expected
    assert shown(from_stream(messages, pieces=False)) == expected


@pytest.mark.versions(*VERSIONS)
async def test_what_was_denied_is_a_failure_in_a_transcript(desk: OpenDesk) -> None:
    it = await desk(reply(bash("touch e")), reply("I will not."))
    messages = await talk(it, ["Try."], on_permission=Handler(Deny("hands off")))
    told, kept = shown(from_stream(messages)), shown(from_disk(it.home))
    assert [item.get("state") for item in told if item["kind"] == "tool"] == ["denied"]
    assert [item.get("state") for item in kept if item["kind"] == "tool"] == ["failed"]
    assert [item | {"state": ""} for item in kept] == [item | {"state": ""} for item in told]


@pytest.mark.versions(*VERSIONS)
async def test_a_compaction_is_in_both_with_its_summary(desk: OpenDesk) -> None:
    it = await desk(reply("One."), reply("Two."))
    messages = await talk(it, ["First.", "Second.", "/compact"])
    told, kept = shown(from_stream(messages)), shown(from_disk(it.home))
    (compaction,) = (item for item in told if item["kind"] == "compaction")
    assert compaction in kept
    assert [item for item in kept if item["kind"] == "text"] == [
        item for item in told if item["kind"] == "text"
    ]
