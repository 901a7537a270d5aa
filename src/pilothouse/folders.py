"""Folders for their user alone, whatever the umask is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["make_private"]

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
