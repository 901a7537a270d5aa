"""The names of the runners there are, on disk, with what proves them.

A token is 256 random bits, so one round of a keyed hash hides it as well as many would.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.errors import ServerError
from pilothouse.folders import replace_private

__all__ = ["NAME", "Entry", "Roster"]

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TOKEN_BYTES: Final = 32
SALT_BYTES: Final = 16


class Entry(msgspec.Struct, frozen=True):
    """One runner as it is kept."""

    salt: str
    token_hash: str
    created_at: int
    revoked_at: int | None = None
    draining: bool = False
    seen_at: int | None = None
    """When it first came from this host; None if it never did."""
    host: str = ""


class Roster:
    """Names and their entries; every change is on disk when the call returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries = _read(file)

    def names(self) -> list[str]:
        """Those that are not revoked, sorted."""
        return sorted(name for name in self._entries if self.trusts(name))

    def entry(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def trusts(self, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.revoked_at is None

    def add(self, name: str) -> str:
        """Make a token for a new name; it is told this once. Raises `ValueError`."""
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name for a runner: up to 64 of a-z, 0-9, '.', '_' and '-', "
                "with a letter or a digit first"
            )
        if self.trusts(name):
            raise ValueError(f"there is a runner {name} already; revoke it first, or take another")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        salt = secrets.token_hex(SALT_BYTES)
        self._put(name, Entry(salt=salt, token_hash=_hash(salt, token), created_at=_now()))
        return token

    def revoke(self, name: str) -> None:
        self._change(name, revoked_at=_now(), token_hash="")

    def drain(self, name: str, *, on: bool) -> None:
        self._change(name, draining=on)

    def note(self, name: str, host: str) -> None:
        """Keep that it was here; on disk only what is new, as it may come often."""
        entry = self._entries.get(name)
        if entry is None or entry.seen_at is None or entry.host != host:
            self._change(name, seen_at=_now(), host=host)

    def name_of(self, token: str) -> str | None:
        """Whose token this is. As long as any other takes to be refused, whatever is wrong."""
        found = None
        for name, entry in self._entries.items():
            matches = hmac.compare_digest(_hash(entry.salt, token), entry.token_hash)
            if matches and entry.revoked_at is None:
                found = name
        return found

    def _change(self, name: str, **changes: object) -> None:
        if not self.trusts(name):
            raise ValueError(f"there is no runner {name}")
        self._put(name, msgspec.structs.replace(self._entries[name], **changes))

    def _put(self, name: str, entry: Entry) -> None:
        entries = {**self._entries, name: entry}
        try:
            _write(self._file, entries)
        except OSError as error:
            told = f"the runners' names cannot be written to {self._file}: {error.strerror}"
            raise ServerError(f"{told}; see to its disk, then repeat this") from error
        self._entries = entries


def _hash(salt: str, token: str) -> str:
    return hmac.new(bytes.fromhex(salt), token.encode(), hashlib.sha256).hexdigest()


def _now() -> int:
    return int(time.time() * 1000)


def _read(file: Path) -> dict[str, Entry]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Entry])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        told = f"the runners' names cannot be read from {file}: {reason}"
        raise ServerError(f"{told}; put back a copy, or delete it and add them again") from error


def _write(file: Path, entries: dict[str, Entry]) -> None:
    content = msgspec.json.format(msgspec.json.encode(entries, order="sorted"))
    replace_private(file, content + b"\n")
