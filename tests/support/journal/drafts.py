"""What most tests of a journal do."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.questions import Question, QuestionState
from pilothouse.journal.contract import Draft
from pilothouse.journal.sqlite import SqliteJournal


def drafts(count: int, session_id: str = "one", kind: str = "cli", at: int = 1000) -> list[Draft]:
    return [Draft(session_id, kind, at, b'{"n":%d}' % n) for n in range(count)]


def seqs(batch: Batch) -> list[int]:
    return [event.seq for event in batch.events]


async def keep(journal: SqliteJournal, *posts: Sequence[Draft]) -> int:
    """Post, wait for the disk, and tell the last number."""
    posted = [journal.post(each) for each in posts]
    await posted[-1].committed
    return posted[-1].last


async def read_all(journal: SqliteJournal) -> Batch:
    """Everything there is, in one batch."""
    events, gaps, cursor = list[Event](), list[Gap](), 0
    while cursor < journal.last:
        batch = await journal.read(cursor, limit=10**7)
        events += batch.events
        gaps += batch.gaps
        cursor = batch.cursor
    return Batch(events=events, cursor=cursor, gaps=gaps)


def question(id: str, session_id: str = "one", state: QuestionState = "open") -> Question:
    return Question(id=id, session_id=session_id, kind="tool", state=state, title="Run it?")
