"""The WebSocket: its frames, and the token in its handshake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct, field

from .events import Event, Gap
from .items import Patch
from .problems import Problem
from .questions import Question
from .statuses import Listed

__all__ = [
    "SUBPROTOCOL",
    "TOKEN_PREFIX",
    "Done",
    "Events",
    "Failed",
    "Frame",
    "Patches",
    "Rows",
]

SUBPROTOCOL: Final = "pilothouse"
TOKEN_PREFIX: Final = "bearer."
"""A browser cannot set headers on a WebSocket: the token rides in an offered subprotocol."""


class Events(Struct, frozen=True, kw_only=True, tag_field="type", tag="events"):
    """What happened, in order, and where to go on."""

    events: Sequence[Event]
    cursor: int
    gaps: list[Gap] = field(default_factory=list[Gap])


class Patches(Struct, frozen=True, kw_only=True, tag_field="type", tag="patches"):
    """What changed of a conversation, in order, and where to go on."""

    patches: list[Patch]
    cursor: int
    unfinished: list[str] | None = None


class Rows(Struct, frozen=True, kw_only=True, tag_field="type", tag="sessions"):
    """What changed of the list of sessions, and where to go on."""

    cursor: int
    changed: list[Listed] = field(default_factory=list[Listed])
    questions: list[Question] = field(default_factory=list[Question])
    removed: list[str] = field(default_factory=list[str])
    reset: bool = False


class Done(Struct, frozen=True, kw_only=True, tag_field="type", tag="done"):
    """What came of a request."""

    id: str | int
    result: Raw


class Failed(Struct, frozen=True, kw_only=True, tag_field="type", tag="failed"):
    """Why a request was not done; without an id, why the socket closes."""

    problem: Problem
    id: str | int | None = None


Frame = Events | Patches | Rows | Done | Failed
