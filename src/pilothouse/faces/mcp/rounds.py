"""A call that comes in several rounds: what it asks of the client, and what it is when it is back.

From 2026-07-28 on a client that was asked something calls again with what a person answered. What
it brings along to be recognised by was sealed here, under a key that ends with this process: so it
is what this process has said, and nobody else can say it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from pilothouse.errors import UsageError

from .operating import Act

__all__ = ["ROUNDS", "Round"]

ROUNDS: Final = 10
"""Clients give a call up that asks more often."""
LONGEST: Final = 100_000
KEY: Final = secrets.token_bytes(32)
LOST: Final = (
    "requestState is none of this server's; it may have been started anew since. What the call "
    "was to do may be done: claude_list lists the sessions, and claude_status tells of one, and "
    "asks what it asks again"
)


class Round(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was done, what the client was asked, and what nobody is to be asked again."""

    act: Act
    asked: list[str] = field(default_factory=list[str])
    """What the client may answer now."""
    noted: list[str] = field(default_factory=list[str])
    closed: list[str] = field(default_factory=list[str])
    """Questions whose form a person has closed without an answer."""
    number: Annotated[int, Meta(ge=0, le=ROUNDS)] = 0

    def sealed(self) -> str:
        """As the client carries it."""
        told = msgspec.json.encode(self)
        return f"{_seal(told)} {told.decode()}"

    @property
    def may_ask(self) -> bool:
        """Whether the client would answer once more."""
        return self.act.wait_s > 0 and self.number < ROUNDS

    def asking(self, asked: Iterable[str]) -> Round:
        """The next round."""
        return replace(self, asked=list(asked), number=self.number + 1)

    def answered(self, noted: Iterable[str], closed: Iterable[str]) -> Round:
        """What was asked has been answered, or not: what matters from now on is what comes next."""
        return replace(
            self,
            act=replace(self.act, after=None),
            asked=[],
            noted=sorted({*self.noted, *noted}),
            closed=sorted({*self.closed, *closed}),
        )

    @classmethod
    def opened(cls, state: str, tool: str) -> Round:
        """What the client has brought back."""
        seal, _, told = state[:LONGEST].partition(" ")
        try:
            if not hmac.compare_digest(seal.encode(), _seal(told.encode()).encode()):
                raise UsageError(LOST)
            found = msgspec.json.decode(told, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            raise UsageError(LOST) from None
        if found.act.tool != tool:
            raise UsageError(f"requestState is of another tool: {found.act.tool}")
        return found


def _seal(told: bytes) -> str:
    return hmac.new(KEY, told, hashlib.sha256).hexdigest()
