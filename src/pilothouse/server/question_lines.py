"""What sessions ask, in words, for a person who has started the server in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pilothouse.api.records import QuestionClosed, QuestionOpened, decode_record

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine
    from pilothouse.api.events import Event

__all__ = ["tell_questions"]

KINDS = ("question.opened", "question.closed")


async def tell_questions(engine: Engine, tell: Callable[[str], None]) -> None:
    """Tell each question that is opened from now on, and what became of it. Without an end."""
    asked: dict[str, str] = {}
    async for batch in engine.watch():
        for event in batch.events:
            if event.kind in KINDS and (line := _line(event, asked)):
                tell(line)


def _line(event: Event, asked: dict[str, str]) -> str:
    match decode_record(bytes(event.body)):
        case QuestionOpened(question=question) if question.state == "open":
            asked[question.id] = question.title
            where = f" in {question.cwd}" if question.cwd else ""
            answer = f"answer: POST /api/questions/{question.id}/answer"
            return f"asked: {question.title}{where} (session {event.session_id}; {answer})"
        case QuestionClosed(id=name, state=state, by=by, rule=rule) if name in asked:
            who = f" by {rule or by}" if by else ""
            return f"{state}{who}: {asked.pop(name)}"
        case _:
            return ""
