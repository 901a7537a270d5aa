"""What anybody on the machine can read of its processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["showing"]


def showing(words: str) -> list[int]:
    """The processes that have these words in their command line; the rest is not ours to tell."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
