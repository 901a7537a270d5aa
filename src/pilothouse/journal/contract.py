"""What a journal promises.

One writer. `post` numbers entries at once and never waits; its `committed` is done when they are
on disk, and only then does any reader see them. Numbers only grow, are never used twice, and stay
valid as cursors whatever is removed later: a reader gets a gap in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

from pilothouse.api.events import Batch
from pilothouse.api.questions import Question, QuestionState
from pilothouse.api.results import Activity, CostGroup, CostLine
from pilothouse.api.statuses import ModelSpent, Tokens

__all__ = [
    "EVERY_SESSION",
    "MAX_BATCH_BYTES",
    "Changes",
    "CostRow",
    "Draft",
    "Journal",
    "KeyRow",
    "Posted",
    "ReceivedRow",
    "RestingPage",
    "RunRow",
    "SendingRow",
    "SessionFilter",
    "SessionRow",
    "Snapshot",
    "Sums",
    "TakenRow",
    "Touched",
]

MAX_BATCH_BYTES: Final = 256 << 10
"""What the bodies of a batch may have together: a watcher that is stuck holds one batch."""


class Draft(Struct, frozen=True, gc=False):
    """An entry to be."""

    session_id: str
    kind: str
    at: int
    """Milliseconds since the epoch."""
    body: bytes
    told: bytes | None = None
    """What readers get instead, where the body is a line that not every one of them takes."""


class Posted(NamedTuple):
    """The numbers that drafts got, and when they are safe."""

    first: int
    last: int
    committed: asyncio.Future[None]


class CostRow(Struct, frozen=True, kw_only=True):
    """What one turn cost."""

    session_id: str
    project: str
    at: int
    day: str
    """The local date, as 2026-01-31."""
    usd: float
    tokens: Tokens
    models: Mapping[str, ModelSpent] = field(default_factory=dict[str, ModelSpent])
    """What each model had of it."""
    duration_ms: int = 0


class KeyRow(Struct, frozen=True, kw_only=True):
    """An idempotency key, what it was given for, and what was answered."""

    key: str
    digest: bytes
    result: bytes


class Snapshot(Struct, frozen=True, kw_only=True):
    """What is known of a session up to an entry, so that not all of it must be read again."""

    session_id: str
    upto: int
    body: bytes


class SessionRow(Struct, frozen=True, kw_only=True):
    """How a session is found, and whether an engine that opens the journal must restore it."""

    session_id: str
    at_work: bool
    conversation: str
    """The id of its conversation at the CLI."""
    updated_at: int = 0
    cwd: str = ""
    state: str = ""
    label: str | None = None
    machine: str | None = None
    archived: bool = False
    search: str = ""
    """What a search looks through."""
    summary: bytes | None = None
    """Its line of a list, as JSON; with those above, from `updated_at` on, of a session that
    rests."""


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions are meant; None leaves nothing out."""

    cwd: str | None = None
    state: str | None = None
    label: str | None = None
    machine: str | None = None
    archived: bool | None = None
    words: tuple[str, ...] = ()
    """All of them must be in what a search looks through; in one case."""


EVERY_SESSION: Final = SessionFilter()


class RestingPage(Struct, frozen=True, kw_only=True):
    """The newest of some sessions, and how many of them are in which state."""

    summaries: list[bytes]
    states: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.states.values())


class Touched(Struct, frozen=True, kw_only=True):
    """Which sessions have entries after a cursor, and which questions they are about."""

    cursor: int
    """The newest entry that was looked at."""
    sessions: list[str]
    summaries: dict[str, bytes]
    """Their rows, as they were when they last came to rest, without those that the caller knows
    better."""
    questions: list[Question]
    """Those that were asked or settled, as they are now; perhaps others of that time."""


class ReceivedRow(NamedTuple):
    """How far the lines of a run's CLI have come; it replaces the row before it."""

    session_id: str
    run: str
    upto: int


class SendingRow(NamedTuple):
    """Something for a run's CLI, under its own number."""

    session_id: str
    run: str
    number: int
    kind: int
    ref: str
    """What it is: the id of the message or of the request that it answers; empty: nothing."""
    body: bytes


class TakenRow(NamedTuple):
    """The CLI has what was sent up to here: the bodies can go, the refs stay."""

    run: str
    upto: int


class RunRow(NamedTuple):
    """What is stored of a run that goes on."""

    received: int = 0
    """The last line of the CLI's that is committed."""
    sent: int = 0
    """The last number that was used for sending."""
    untaken: Sequence[SendingRow] = ()
    """What the CLI may not have yet, in order."""
    refs: frozenset[str] = frozenset()
    """Everything that was ever sent to it."""


class Changes(Struct, frozen=True, kw_only=True):
    """Rows that are written in the same transaction as the entries they come from."""

    received: Sequence[ReceivedRow] = ()
    sending: Sequence[SendingRow] = ()
    taken: Sequence[TakenRow] = ()
    ended_runs: Sequence[str] = ()
    """Runs whose CLI is gone: nothing of them stays but their entries."""

    questions: Sequence[Question] = ()
    """New, or in their new state: a row is replaced by its id."""
    costs: Sequence[CostRow] = ()
    keys: Sequence[KeyRow] = ()
    snapshots: Sequence[Snapshot] = ()
    sessions: Sequence[SessionRow] = ()


class Sums(Protocol):
    """What the journal adds up; nobody who reads a page waits for it."""

    async def costs(
        self,
        by: CostGroup,
        *,
        session_id: str | None = None,
        since: int | None = None,
        day: str | None = None,
    ) -> list[CostLine]:
        """Sums; a turn's group is its session and the number of the entry that ended it."""
        ...

    async def activity(self, since: int, until: int) -> Activity:
        """What happened between two moments, added up by day and by rule."""
        ...


class Journal(Protocol):
    """The durable log of everything that happens."""

    @property
    def last(self) -> int:
        """The number of the newest committed entry."""
        ...

    @property
    def sums(self) -> Sums: ...

    @property
    def next(self) -> int:
        """The number the next draft will get."""
        ...

    @property
    def failed(self) -> BaseException | None:
        """Why nothing can be written any more, if so: a full disk, for example."""
        ...

    async def broken(self) -> None:
        """Return once nothing can be written any more."""
        ...

    def post(self, drafts: Sequence[Draft], changes: Changes | None = None) -> Posted:
        """Number the entries and hand them to the writer."""
        ...

    async def read(
        self,
        after: int,
        *,
        session_id: str | None = None,
        limit: int = 500,
        partials: bool = True,
    ) -> Batch:
        """Up to `limit` committed entries after the cursor, and the gaps among them.

        The batch's cursor is where to go on: the newest committed one once all are read, although
        the last entry of this session may be older. Fewer than `limit` need not be all: a batch
        has up to `MAX_BATCH_BYTES` of bodies, and one entry in any case. A number that no
        draft ever got is a cursor of another journal, or of this one before a backup was put
        back: it gets a gap with the reason `reset`, and the cursor of the newest entry.
        """
        ...

    async def read_back(
        self, before: int | None, *, session_id: str, limit: int = 500, partials: bool = False
    ) -> Batch:
        """The last `limit` entries before a cursor (None: the end), in order."""
        ...

    async def lines_with(
        self, after: int, words: Sequence[bytes], *, session_id: str
    ) -> list[bytes]:
        """The CLI's lines after a cursor that have one of these words in them, in order."""
        ...

    async def wait(self, after: int, *, session_id: str | None = None) -> None:
        """Return once an entry after the cursor is committed, of this session or of any."""
        ...

    async def sessions(self, *, at_work: bool = False, near: str | None = None) -> list[str]:
        """The ids of every session, or of every one at work, in the order they were begun; or of
        some that begin like the id `near`.

        A session is at work until a row marks it as resting.
        """
        ...

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """A session's newest snapshot (`upto` 0 and no body: none was taken); None: no session."""
        ...

    async def holder(self, conversation: str) -> str | None:
        """Return the session whose row has this conversation."""
        ...

    async def owned(self, names: Collection[str]) -> set[str]:
        """Return those names that are a session's or a conversation's in the rows."""
        ...

    async def resting(
        self,
        which: SessionFilter = EVERY_SESSION,
        *,
        limit: int = 0,
        besides: Collection[str] = (),
    ) -> RestingPage:
        """The newest sessions, as their rows were when they last came to rest.

        `besides` names sessions that the caller knows better, and that are left out.
        """
        ...

    async def touched(
        self, after: int, *, most: int, besides: Collection[str] = ()
    ) -> Touched | None:
        """Which sessions changed after a cursor; pieces of messages are no change.

        `besides` names sessions whose rows the caller knows better. None: more than `most` have
        changed, the cursor is of another journal, or what came after it is lost.
        """
        ...

    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: QuestionState | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Question]:
        """Questions in the order they were asked; with a limit, the last of them.

        `before` is the id of the question that follows them.
        """
        ...

    async def question(self, question_id: str) -> Question | None: ...

    async def key(self, key: str) -> KeyRow | None: ...

    async def run(self, run: str) -> RunRow:
        """How far a run has come; of one that is unknown, nothing."""
        ...

    async def prune_partials(self, session_id: str, first: int, last: int) -> int:
        """Remove the pieces of an ended turn between two entries; how many there were."""
        ...

    async def retain(self, *, before: int, keep: Collection[str] = ()) -> int:
        """Remove entries older than this moment, of sessions at rest since; how many.

        Sessions with an open question, and those in `keep`, are left alone.
        """
        ...

    async def backup(self, path: Path) -> None:
        """A consistent copy, while the journal is in use."""
        ...

    async def aclose(self) -> None:
        """Commit what was posted, and close."""
        ...
