"""Folders and files for their user alone, whatever the umask is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["make_private", "replace_private"]

PRIVATE: Final = 0o700


def make_private(folder: Path) -> Path:
    """Make it, and those above it that are not there; `Path.mkdir` leaves these to the umask.

    What is there already stays as it is.
    """
    try:
        folder.mkdir(PRIVATE)
    except FileNotFoundError:
        make_private(folder.parent)
        return make_private(folder)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return folder
    # The umask may have taken from its owner, too.
    folder.chmod(PRIVATE)
    return folder


def replace_private(file: Path, content: bytes) -> None:
    """Write it, complete and on disk or not at all; its folder is made if it is not there."""
    make_private(file.parent)
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
    # The new name is on disk with the folder, and not before.
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
