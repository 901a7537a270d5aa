"""Takes the token of a session from where nobody else can read it."""

from __future__ import annotations

import os
import stat
from typing import Final

__all__ = ["TokenRefused", "from_fd", "from_file"]

LIMIT: Final = 4096


class TokenRefused(ValueError):
    """There is no token, or others could have read it."""


def from_fd(fd: int) -> str:
    """All there is to read from a descriptor, which is closed then."""
    try:
        with os.fdopen(fd, "rb") as file:
            return _checked(file.read(LIMIT), f"descriptor {fd}")
    except OSError as error:
        raise TokenRefused(f"no token at descriptor {fd}: {error.strerror}") from error


def from_file(path: str) -> str:
    """The contents of a file that is ours and closed to everybody else."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - checked and read by one descriptor
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise TokenRefused(f"{path} must be yours, and closed to others: chmod 600")
            return _checked(file.read(LIMIT), path)
    except OSError as error:
        told = f"no token in {path}: {error.strerror}"
        raise TokenRefused(f"{told}; name the file that the server gave") from error


def _checked(data: bytes, where: str) -> str:
    token = data.strip().decode("ascii", errors="replace")
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        told = f"no token in {where}: it is empty or has characters that a header cannot carry"
        raise TokenRefused(f"{told}; take the one that the server gave")
    return token
