"""Recorded streams of real CLIs as entries of a journal, with what an engine adds to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pilothouse.conversation import Conversation
from tests.support.places import DATA

STREAMS = DATA / "streams"
RECORDINGS = sorted(STREAMS.glob("*/*.jsonl"))


class Entry(NamedTuple):
    seq: int
    kind: str
    at: int
    body: bytes


def entries(recording: Path) -> list[Entry]:
    """The lines of a recording; each message of a person's is said before a CLI has it."""
    lines = [line for line in recording.read_bytes().splitlines() if line]
    said = [("prompt.said", body) for body in _said(lines)]
    written = [("partial" if _is_piece(line) else "cli", line) for line in lines]
    return [Entry(seq, kind, seq, body) for seq, (kind, body) in enumerate([*said, *written], 1)]


def without_pieces(given: list[Entry]) -> list[Entry]:
    """What is left of a journal when its turns are over."""
    return [entry for entry in given if entry.kind != "partial"]


def folded(given: list[Entry]) -> Conversation:
    conversation = Conversation()
    for entry in given:
        conversation.apply(*entry)
    return conversation


def _said(lines: list[bytes]) -> Iterator[bytes]:
    for line in map(json.loads, lines):
        if line.get("isReplay") and not line["message"]["content"].startswith("<"):
            record = {"record": "prompt.said", "id": line["uuid"]}
            yield json.dumps({**record, "content": line["message"]["content"]}).encode()


def _is_piece(line: bytes) -> bool:
    return bool(json.loads(line)["type"] == "stream_event")
