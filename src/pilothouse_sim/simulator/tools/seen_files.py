"""Files as tools look at them: which one a path means, its text, what the model has seen."""

from __future__ import annotations

import os
from pathlib import Path

from pilothouse_sim.simulator.tools.base import SeenFile, ToolSurroundings

__all__ = ["MODIFIED", "UNREAD", "decoded", "is_stale", "located", "missing", "see"]

MODIFIED = (
    "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it."
)
UNREAD = "File has not been read yet. Read it first before writing to it."


def located(name: str, place: ToolSurroundings) -> Path:
    """The file a tool's path means."""
    if name == "~" or name.startswith("~/"):
        return Path(os.path.normpath(place.home / name[2:]))
    return Path(os.path.normpath(place.cwd / name))


def missing(path: Path, place: ToolSurroundings) -> str:
    """What the CLI says of a file that is not there."""
    words = f"File does not exist. Note: your current working directory is {place.cwd}."
    similar = _similar(path)
    return f"{words} Did you mean {similar}?" if similar else words


def _similar(path: Path) -> str | None:
    """A file beside it whose name differs only in its ending."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return None
    return next((name for name in names if Path(name).stem == path.stem), None)


def decoded(data: bytes) -> str:
    """A file's text with the CLI's line ends."""
    if data.startswith(b"\xff\xfe"):
        words = data[2:].decode("utf-16-le", "replace")
    else:
        words = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return words.replace("\r\n", "\n")


def see(path: Path, place: ToolSurroundings, text: str, *, whole: bool = True) -> None:
    """Remember a file as the model now knows it."""
    place.seen[path] = SeenFile(text, path.stat().st_mtime_ns, whole)


def is_stale(path: Path, place: ToolSurroundings) -> bool:
    """Whether a file the model has seen was changed by somebody else."""
    seen = place.seen.get(path)
    if seen is None or path.stat().st_mtime_ns <= seen.mtime:
        return False
    return decoded(path.read_bytes()) != seen.text
