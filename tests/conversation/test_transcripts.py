"""Transcripts whose lines do not simply follow each other."""

from __future__ import annotations

from typing import Any

from pilothouse.api.items import CompactionItem, PromptItem, TextItem
from pilothouse.conversation.transcripts import fold_transcript
from pilothouse.protocol.wire import encode_json


def line(uuid: str, parent: str | None, kind: str, **members: Any) -> bytes:
    return encode_json({"type": kind, "uuid": uuid, "parentUuid": parent, **members})


def said(uuid: str, parent: str | None, words: str) -> bytes:
    return line(uuid, parent, "user", message={"role": "user", "content": words})


def replied(uuid: str, parent: str, words: str) -> bytes:
    content = [{"type": "text", "text": words}]
    message = {"id": f"msg_{uuid}", "role": "assistant", "content": content}
    return line(uuid, parent, "assistant", message=message)


def compacted(uuid: str, behind: str, *, summary: str) -> bytes:
    """The boundary of a compaction that keeps the last message as it is."""
    segment = {"headUuid": behind, "tailUuid": behind, "anchorUuid": summary}
    metadata = {"trigger": "manual", "preTokens": 100, "preservedSegment": segment}
    return line(
        uuid,
        None,
        "system",
        subtype="compact_boundary",
        logicalParentUuid=behind,
        compactMetadata=metadata,
    )


SUMMARY = "This session is being continued from a previous conversation that ran out of context."
BEFORE = [said("p1", None, "First."), replied("r1", "p1", "One.")]
COMPACTION = [compacted("c", "r1", summary="s"), said("s", "c", SUMMARY)]


def told(*lines: bytes) -> list[str]:
    return [
        item.summary or "" if isinstance(item, CompactionItem) else item.text
        for item in fold_transcript(lines).items
        if isinstance(item, CompactionItem | PromptItem | TextItem)
    ]


def test_a_compaction_is_there_when_what_follows_names_the_message_it_kept() -> None:
    after = [said("p2", "r1", "Second."), replied("r2", "p2", "Two.")]
    assert told(*BEFORE, *COMPACTION, *after) == ["First.", "One.", SUMMARY, "Second.", "Two."]


def test_a_compaction_is_there_when_what_follows_names_its_summary() -> None:
    after = [said("p2", "s", "Second."), replied("r2", "p2", "Two.")]
    assert told(*BEFORE, *COMPACTION, *after) == ["First.", "One.", SUMMARY, "Second.", "Two."]


def test_a_compaction_of_a_branch_that_was_left_is_not_there() -> None:
    other = [said("p2", None, "Anew."), replied("r2", "p2", "Two.")]
    assert told(*BEFORE, *COMPACTION, *other) == ["Anew.", "Two."]


def test_a_line_with_half_a_character_takes_nothing_with_it() -> None:
    cut = said("p2", "r1", "cut").replace(b"cut", b"cut \\ud83d")
    after = [cut, b"no JSON", b"\xff", b"[" * 100_000, replied("r2", "p2", "Two.")]
    assert told(*BEFORE, *after) == ["First.", "One.", "cut \ud83d", "Two."]
