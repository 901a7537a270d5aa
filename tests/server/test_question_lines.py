"""What a person at the server's terminal reads of questions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from msgspec import Raw

from pilothouse.api.answers import Allow
from pilothouse.api.events import Batch, Event
from pilothouse.api.questions import Question
from pilothouse.api.records import QuestionClosed, QuestionOpened, Record, encode_record
from pilothouse.server.question_lines import tell_questions


class Watched:
    """An engine in which this happens."""

    def __init__(self, *records: Record) -> None:
        self._records = records

    async def watch(self) -> AsyncIterator[Batch]:
        for seq, record in enumerate(self._records, 1):
            kind, body = encode_record(record)
            event = Event(seq=seq, session_id="s", kind=kind, at=0, body=Raw(body))
            yield Batch(events=[event], cursor=seq)


async def test_a_question_and_its_end_are_told_in_words() -> None:
    asked = Question(
        id="q", session_id="s", kind="tool", state="open", title="Run `make`", cwd="/srv/boat"
    )
    closed = QuestionClosed(id="q", state="answered", answer=Allow(), by="person")
    other = QuestionClosed(id="of old", state="withdrawn")
    told: list[str] = []
    engine = Watched(QuestionOpened(question=asked), closed, other)
    await tell_questions(cast(Any, engine), told.append)
    assert told == [
        "asked: Run `make` in /srv/boat (session s; answer: POST /api/questions/q/answer)",
        "answered by person: Run `make`",
    ]
