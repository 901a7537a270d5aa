"""What may stand after the question mark of each path."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pilothouse.api.proof import NONCE_LENGTH

from .questions import QuestionFilter
from .results import CostGroup
from .values import State

__all__ = [
    "ActivityQuery",
    "AnswerQuery",
    "ConversationQuery",
    "CostQuery",
    "DirectoriesQuery",
    "EventsQuery",
    "FilesQuery",
    "FollowQuery",
    "ItemQuery",
    "ListQuery",
    "ProofQuery",
    "QuestionsQuery",
    "SessionsQuery",
    "StatusQuery",
    "StreamQuery",
    "WaitQuery",
]

Cursor = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**63 - 1)]
SessionId = Annotated[str, Meta(min_length=1, max_length=128)]
QuestionId = Annotated[str, Meta(min_length=1, max_length=128)]
ItemId = Annotated[str, Meta(min_length=1, max_length=512)]
Directory = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")]
"""What a file system may have: none takes a NUL in a name."""


class _Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a request."""


class ListQuery(_Query, frozen=True):
    cwd: Directory | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 50
    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0


class SessionsQuery(ListQuery, frozen=True):
    """Which sessions. All words of `search` must be in what a row shows, in any case; `archived`
    asks for those that were put into the archive, which are left out otherwise."""

    live: bool = False
    search: Annotated[str, Meta(max_length=1000)] = ""
    state: State | None = None
    label: Annotated[str, Meta(max_length=1000)] | None = None
    machine: Annotated[str, Meta(max_length=1000)] | None = None
    archived: bool = False


class DirectoriesQuery(_Query, frozen=True):
    path: Directory


class FilesQuery(_Query, frozen=True):
    query: Annotated[str, Meta(max_length=1000)] = ""


class StatusQuery(_Query, frozen=True):
    output_lines: Annotated[int, Meta(ge=0, le=100_000)] = 0
    after: Cursor | None = None


class ConversationQuery(_Query, frozen=True):
    """Which items; with `search`, where these words stand in those before one, or in all."""

    search: Annotated[str, Meta(max_length=1000)] = ""
    before: ItemId | None = None
    after: ItemId | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class ItemQuery(_Query, frozen=True):
    item: ItemId


class WaitQuery(_Query, frozen=True):
    """How long at most; for the first thing that matters after a cursor, or else until the session
    waits for somebody, or with `at_rest` until it neither works nor asks."""

    seconds: Annotated[float, Meta(ge=0, le=240)] = 60.0
    after: Cursor | None = None
    at_rest: bool = False


class QuestionsQuery(_Query, frozen=True):
    session_id: SessionId | None = None
    state: QuestionFilter = "decidable"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500
    before: QuestionId | None = None


class AnswerQuery(_Query, frozen=True):
    by: Annotated[str, Meta(min_length=1, max_length=64)] = "person"


class CostQuery(_Query, frozen=True):
    by: CostGroup = "session"
    session_id: SessionId | None = None
    since: Millis | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    before: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None


class ActivityQuery(_Query, frozen=True):
    """What happened since a moment; ten years back at most."""

    since: Millis = 0


class EventsQuery(_Query, frozen=True):
    after: Cursor = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500
    session_id: SessionId | None = None


class ProofQuery(_Query, frozen=True):
    # The pattern alone would let a line break through at the end.
    nonce: Annotated[
        str, Meta(max_length=NONCE_LENGTH, pattern=rf"^[A-Za-z0-9_-]{{{NONCE_LENGTH}}}$")
    ]


class FollowQuery(_Query, frozen=True):
    """Where a stream begins (now, if left out)."""

    after: Cursor | None = None


class StreamQuery(FollowQuery, frozen=True):
    """Where a stream begins (now, if left out) and whose events it has (everybody's)."""

    session_id: SessionId | None = None
