"""The codes of links: each works once, for some minutes, and only in the server that made it."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Final

__all__ = ["LASTS_S", "OneTimeCodes"]

CODE_BYTES: Final = 32
LASTS_S: Final = 600.0
MOST: Final = 100
"""Unused codes; with one more the oldest is good for nothing."""


class OneTimeCodes:
    """Codes that were made and not used. Of each there is only a hash here."""

    def __init__(self, *, lasts_s: float = LASTS_S, most: int = MOST) -> None:
        self._lasts_s = lasts_s
        self._most = most
        self._until: dict[bytes, float] = {}

    def make(self) -> tuple[str, int]:
        """Return a new code, and the time of day at which it ends, in milliseconds."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._until[_hash(code)] = time.monotonic() + self._lasts_s
        while len(self._until) > self._most:
            del self._until[next(iter(self._until))]
        return code, int((time.time() + self._lasts_s) * 1000)

    def clear(self) -> None:
        """Let none of them work any more."""
        self._until.clear()

    def take(self, code: str) -> bool:
        """Return whether the code works; it does not again."""
        until = self._until.pop(_hash(code), None)
        return until is not None and time.monotonic() < until


def _hash(code: str) -> bytes:
    # Of 256 random bits; what is looked up is the hash, so no time tells how near a guess is.
    return hashlib.sha256(code.encode(errors="replace")).digest()
