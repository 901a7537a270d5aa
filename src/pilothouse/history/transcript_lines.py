"""All lines of a session's transcript, and of its subagents'."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from .files import opened

__all__ = ["TranscriptLines", "read_lines"]

MOST_BYTES: Final = 64 << 20
"""Of a longer file the end is read: a person reads backwards from there."""
MOST_AGENTS: Final = 1000


class TranscriptLines(NamedTuple):
    """What a transcript has, line by line."""

    lines: list[bytes]
    agents: dict[str, list[bytes]]
    """The lines of its subagents, by their ids."""
    left_out: int = 0
    """Bytes at the beginning that were not read."""


def read_lines(path: str) -> TranscriptLines:
    """Read the transcript at this path. Raises OSError where it cannot be read."""
    lines, left_out = _lines(path)
    folder = Path(path).with_suffix("") / "subagents"
    agents: dict[str, list[bytes]] = {}
    for each in sorted(folder.glob("agent-*.jsonl"))[:MOST_AGENTS]:
        with suppress(OSError):
            agents[each.stem.removeprefix("agent-")] = _lines(str(each))[0]
    return TranscriptLines(lines, agents, left_out)


def _lines(path: str) -> tuple[list[bytes], int]:
    with opened(path) as (descriptor, status):
        left_out = max(status.st_size - MOST_BYTES, 0)
        os.lseek(descriptor, left_out, os.SEEK_SET)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            text = file.read(MOST_BYTES)
    lines = text.split(b"\n")
    return (lines[1:] if left_out else lines), left_out
