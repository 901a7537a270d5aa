"""What the fold of a conversation costs: a session's lines into items, and one patch of many."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness

WORDS = 40
"""Pieces that a text comes in; a call comes in half as many."""
FEW, MANY = 10, 100_000
STEPS = 2_000


def main() -> None:
    """Fold and decode the same lines in turn; patch a short conversation and a long one in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 7)
    count = 2_000 if chosen.quick else 100_000
    many = 1_000 if chosen.quick else MANY
    folded = harness.interleave(["ours", "limit"], rounds, lambda who: task(who, count))
    patched = harness.interleave(
        ["few", "many"], rounds, lambda who: task("patch", FEW if who == "few" else many)
    )
    harness.report(
        {
            "name": "conversation",
            "unit": "lines folded a second of processor time",
            "ours": harness.middle(folded, "ours", "per_second"),
            "peer": None,
            "limit": harness.middle(folded, "limit", "per_second"),
            "vs_peer": None,
            "vs_limit": harness.ratio(folded, "ours", "limit", "per_second"),
            "target": {"vs_limit": 0.5, "patch": 1.5},
            "patch": {
                "unit": "us of processor time for an entry and its patch",
                "few": harness.middle(patched, "few", "us"),
                "many": harness.middle(patched, "many", "us"),
                "many_to_few": harness.ratio(patched, "many", "few", "us"),
                "items": [FEW, many],
            },
            "count": count,
            "rounds": rounds,
        }
    )


def task(name: str, count: int) -> harness.Figures:
    """One task in a fresh process."""
    output = harness.run([sys.executable, str(Path(__file__)), "task", name, str(count)])
    figures: harness.Figures = json.loads(output)
    return figures


# What runs in the fresh process


def perform(name: str, count: int) -> None:
    """Do one task and print its figures."""
    tasks: dict[str, Callable[[int], dict[str, float]]] = {
        "ours": fold,
        "limit": decode_and_read,
        "patch": patch,
    }
    print(json.dumps(tasks[name](count)))


def fold(count: int) -> dict[str, float]:
    """Every line into one conversation."""
    from pilothouse.conversation import Conversation

    given = lines(count)
    conversation = Conversation()
    started = time.process_time()
    for seq, (kind, line) in enumerate(given, 1):
        conversation.apply(seq, kind, 0, line)
    seconds = time.process_time() - started
    return {"per_second": count / seconds, "items": len(conversation)}


def decode_and_read(count: int) -> dict[str, float]:
    """The same lines as typed messages down to their blocks, and nothing done with them."""
    from pilothouse.protocol import AssistantMessage, StreamEvent, UserMessage, decode

    given = lines(count)
    read = 0
    started = time.process_time()
    for _, line in given:
        message = decode(line)
        if isinstance(message, StreamEvent):
            read += message.event is not None
        elif isinstance(message, AssistantMessage):
            read += len(message.content)
        elif isinstance(message, UserMessage):
            read += len(message.content) + (message.tool_use_result is not None)
    seconds = time.process_time() - started
    return {"per_second": count / seconds, "read": read}


def patch(count: int) -> dict[str, float]:
    """A piece of text and the patch that tells of it, behind as many items."""
    from pilothouse.conversation import Conversation

    conversation = Conversation()
    for seq in range(1, count + 1):
        message = {"id": f"msg_{seq}", "role": "assistant", "content": [text(f"Item {seq}")]}
        conversation.apply(seq, "cli", 0, line("assistant", message=message, uuid=f"u{seq}"))
    conversation.patches()
    (_, started_line), (_, piece), *_ = turn(count + 1)
    conversation.apply(count + 1, "partial", 0, started_line)
    began = time.process_time()
    for seq in range(STEPS):
        conversation.apply(count + 2 + seq, "partial", 0, piece)
        conversation.patches()
    return {"us": (time.process_time() - began) / STEPS * 1e6}


# What a CLI writes


def lines(count: int) -> list[tuple[str, bytes]]:
    """Turns of a CLI that sends the pieces of messages: text, a call, its result."""
    found: list[tuple[str, bytes]] = []
    number = 0
    while len(found) < count:
        number += 1
        found += turn(number)
    return found[:count]


def turn(number: int) -> Iterator[tuple[str, bytes]]:
    """One message of the model's, in pieces and whole, and what its tool gave back."""
    message = {"id": f"msg_{number}", "role": "assistant", "model": "m", "content": []}
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {}}
    command = {"command": "make test", "description": "Run the tests"}
    words = "some words "
    yield piece("message_start", message=message)
    for _ in range(WORDS):
        yield piece("content_block_delta", index=0, delta={"type": "text_delta", "text": words})
    yield piece("content_block_start", index=1, content_block=call)
    for _ in range(WORDS // 2):
        delta = {"type": "input_json_delta", "partial_json": '{"comm'}
        yield piece("content_block_delta", index=1, delta=delta)
    said = {**message, "content": [text(words * WORDS)]}
    yield "cli", line("assistant", message=said, uuid=f"a{number}")
    called = {**message, "content": [{**call, "input": command}]}
    yield "cli", line("assistant", message=called, uuid=f"b{number}")
    given = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok\n" * 20}
    result = {"stdout": "ok\n" * 20, "stderr": "", "interrupted": False}
    told = {"role": "user", "content": [given]}
    yield "cli", line("user", message=told, uuid=f"c{number}", tool_use_result=result)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def piece(kind: str, **members: Any) -> tuple[str, bytes]:
    return "partial", line("stream_event", event={"type": kind, **members})


def line(kind: str, **members: Any) -> bytes:
    session_id = "678f01dc-1155-4a61-be28-76ee99be754f"
    told = {"type": kind, "session_id": session_id, "parent_tool_use_id": None, **members}
    return json.dumps(told).encode()


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        perform(sys.argv[2], int(sys.argv[3]))
    else:
        main()
