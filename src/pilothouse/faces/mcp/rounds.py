"""A call that comes in several rounds: what it asks of the client, and what it is when it is back.

From 2026-07-28 on a client that was asked something calls again with what a person answered. What
it brings along to be recognised by is its own word: it names a session to wait on, nothing more.
"""

from __future__ import annotations

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
TOLD: Final = ("resumed", "parentSessionId", "newSessionId", "note")


class Round(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was done, what nobody is to be asked again, and how often the client was asked."""

    act: Act
    noted: list[str] = field(default_factory=list[str])
    number: Annotated[int, Meta(ge=0, le=ROUNDS)] = 0

    def sealed(self) -> str:
        """As the client carries it."""
        return msgspec.json.encode(self).decode()

    @property
    def may_ask(self) -> bool:
        """Whether the client would answer once more."""
        return self.act.wait_s > 0 and self.number < ROUNDS

    def asked(self) -> Round:
        """The next round."""
        return replace(self, number=self.number + 1)

    def answered(self, noted: set[str]) -> Round:
        """What was asked has been answered, or not: what matters from now on is what comes next."""
        return replace(
            self,
            act=replace(self.act, after=None),
            noted=sorted({*self.noted, *noted}),
        )

    @classmethod
    def opened(cls, state: str, tool: str) -> Round:
        """What the client has brought back."""
        try:
            if len(state) > LONGEST:
                raise msgspec.ValidationError("it is too long")
            found = msgspec.json.decode(state, type=cls)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise UsageError(f"requestState is none of this server's: {error}") from None
        if found.act.tool != tool:
            raise UsageError(f"requestState is of another tool: {found.act.tool[:100]!r}")
        told = {name: each for name, each in found.act.told.items() if name in TOLD}
        return replace(found, act=replace(found.act, told=told))
