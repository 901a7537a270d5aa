"""What shows that a relay or a CLI works for a session: a token for each run, kept nowhere.

A token is its run's name, a mark of the key, and a code over session and run, made with that key,
which only the server has. So tokens outlive restarts of the server, and one session's token opens
no other's door. By the mark a server knows that a token is not its own: the simulator's server and
the real CLI's have different keys and take turns at one address.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from pilothouse.errors import ServerError

__all__ = ["Keyring"]

SIZE: Final = 32
MARK: Final = 8
CODE: Final = 64


class Keyring:
    """Issues the tokens of runs, and knows them again."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._mark = hmac.new(key, b"mark", hashlib.sha256).hexdigest()[:MARK]

    @classmethod
    def open(cls, path: Path) -> Keyring:
        """With the key in this file, made if there is none; `ServerError` if it is unfit."""
        try:
            try:
                return cls(_read(path))
            except FileNotFoundError:
                _create(path)
                return cls(_read(path))
        except OSError as error:
            told = "it is a link" if path.is_symlink() else error.strerror
            raise ServerError(f"{path} cannot be used: {told}; see to it, or delete it") from None

    def issue(self, session_id: str, run: str) -> str:
        """The token for this run of this session; the same at every call."""
        return f"{run}.{self._mark}.{self._code(session_id, run)}"

    def run_of(self, session_id: str, token: str) -> str | None:
        """The run whose token it is, if it is one of this session's."""
        named, _, code = token.rpartition(".")
        run, _, mark = named.rpartition(".")
        expected = self._code(session_id, run)
        if (
            not run
            or mark != self._mark
            or not hmac.compare_digest(_bytes(code), expected.encode())
        ):
            return None
        return run

    def is_foreign(self, token: str) -> bool:
        """Whether it was issued with another key than ours."""
        match token.rsplit(".", 2):
            case [_, mark, code]:
                return len(mark) == MARK and len(code) == CODE and mark != self._mark
            case _:
                return False

    def _code(self, session_id: str, run: str) -> str:
        session = _bytes(session_id)
        # With its length before it, what belongs to which of the two cannot be mistaken.
        text = b"%d:%b%b" % (len(session), session, _bytes(run))
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    # What came over the wire may be no proper text.
    return text.encode(errors="surrogatepass")


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise ServerError(f"{path} belongs to another user; delete it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            told = "others may have read it, so every token could be forged"
            raise ServerError(f"{path} is open to other users: {told}; delete it")
        key = file.read(SIZE + 1)
    if len(key) != SIZE:
        raise ServerError(f"{path} holds no key; delete it, and the next start makes one")
    return key


def _create(path: Path) -> None:
    """Make the file; it appears complete, and if another process is quicker, its file stays."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return
    finally:
        part.unlink()
