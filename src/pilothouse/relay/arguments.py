"""Files that a CLI's command line names, kept in the relay's folder for as long as the relay is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pilothouse.folders import make_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["place", "remove"]

NAME: Final = "arguments"


def place(argv: Sequence[str], files: Mapping[str, str], folder: Path) -> list[str]:
    """Write the files, and name them in the place of those whose text they have."""
    here: dict[str, str] = {}
    if files:
        make_private(folder / NAME)
    for number, (path, text) in enumerate(files.items()):
        own = folder / NAME / f"{number}{Path(path).suffix}"
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        here[path] = str(own)
    return [_placed(word, here) for word in argv]


def _placed(word: str, here: Mapping[str, str]) -> str:
    flag, _, path = word.partition("=")
    return f"{flag}={here[path]}" if path in here else word


def remove(folder: Path) -> None:
    """Remove what was placed."""
    with suppress(OSError):
        for each in (folder / NAME).iterdir():
            each.unlink()
        (folder / NAME).rmdir()
