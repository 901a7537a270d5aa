"""What every answer to a control request is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import Session

__all__ = [
    "Answer",
    "Asked",
    "Handler",
    "Refused",
    "required",
]


class Asked(Struct, frozen=True):
    """A control request of the client's."""

    id: str
    fields: dict[str, Any]

    def get(self, name: str) -> Any:
        """A member of the request, or None."""
        return self.fields.get(name)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer with more to it than a body."""

    body: dict[str, Any] | None = None
    beside: dict[str, Any] = {}
    """Members that stand beside the body."""
    then: Callable[[], None] | None = None
    """What happens once the answer is written."""


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, text: str, code: str | None = None, **beside: Any) -> None:
        super().__init__(text)
        self.text = text
        self.beside: dict[str, Any] = ({"error_code": code} if code else {}) | beside


Reply = dict[str, Any] | Answer | None
Handler = Callable[["Session", Asked], "Reply | Awaitable[Reply]"]
"""Answers one kind of request. None is a success that says nothing more."""


def required(asked: Asked, name: str, subtype: str) -> str:
    """A member that must be text."""
    value = asked.get(name)
    if not isinstance(value, str):
        raise Refused(f"{subtype}: {name} must be a string")
    return value
