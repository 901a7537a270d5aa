"""What sessions wait on a person for, and what comes of an answer."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from .answers import Answer
from .tool_views import DiffView
from .values import JsonObject, ResultData, State

__all__ = [
    "Answered",
    "Asked",
    "FileChange",
    "Option",
    "Posed",
    "Question",
    "QuestionFilter",
    "QuestionKind",
    "QuestionState",
    "Way",
]

QuestionKind = Literal["tool", "plan", "questions", "elicitation"]
QuestionState = Literal["open", "answered", "withdrawn", "expired"]
QuestionFilter = Literal["decidable", "open", "answered", "withdrawn", "expired", "any"]
"""Which questions are listed; `decidable` are those that take an answer."""


class Option(ResultData, frozen=True):
    """One choice of a question of the model's."""

    label: str
    description: str = ""
    preview: str | None = None


class Posed(ResultData, frozen=True):
    """One of the model's questions."""

    question: str
    header: str = ""
    options: list[Option] = field(default_factory=list[Option])
    multi_select: bool = False


class Way(ResultData, frozen=True):
    """One answer a face can offer, ready to be sent: `answer` completed by what `needs` names."""

    id: str
    label: str
    answer: JsonObject
    """The answer as it is sent; `kind` and what this way fixes of it."""
    needs: list[str] = field(default_factory=list[str])
    """The members a person fills in: `reason`, `feedback`, `input`, `plan`, `answers`, ..."""


class Question(ResultData, frozen=True):
    """Something a session waits on a person for. What every face shows."""

    id: str
    session_id: str
    kind: QuestionKind
    state: QuestionState
    title: str
    """One line: what is asked."""
    text: str = ""
    """What a person has to see to decide: the command, the diff, the plan."""
    format: Literal["text", "command", "diff", "markdown", "url"] = "text"
    tool_name: str | None = None
    tool_use_id: str | None = None
    agent_id: str | None = None
    input: JsonObject = field(default_factory=dict[str, Any])
    reason: str | None = None
    """Why the CLI asks, in its own words."""
    reason_type: str | None = None
    """What made it ask: `rule`, `mode`, `hook`, `workingDir`, `safetyCheck`, ..."""
    matched_rule: str | None = None
    """The CLI's rule that says to ask."""
    blocked_path: str | None = None
    """The path that is not open to the session."""
    posed: list[Posed] = field(default_factory=list[Posed])
    plan: str | None = None
    plan_file: str | None = None
    allowed_prompts: list[JsonObject] = field(default_factory=list[JsonObject])
    server_name: str | None = None
    url: str | None = None
    schema: JsonObject | None = None
    ways: list[Way] = field(default_factory=list[Way])
    opened_at: int = 0
    """Milliseconds since the epoch, as every time here."""
    closed_at: int | None = None
    expires_at: int | None = None
    answer: Answer | None = None
    answered_by: str | None = None
    """`person`, `policy`, or the name a face gave."""
    rule: str | None = None
    """The policy's rule that decided, or that said to ask."""
    closed_because: str | None = None
    decidable: bool = True
    """It takes an answer: it is open, or its CLI died before anybody had answered."""
    foreign: bool = False
    """The CLI that asks is not the engine's."""
    cwd: str | None = None
    label: str | None = None
    mode: str | None = None


class Answered(ResultData, frozen=True):
    question: Question
    state: State
    """The state of the session."""
    session_id: str
    resumed: bool = False
    """The CLI that had asked is gone: the decision was said to the session as a message."""
    repeated: bool = False
    new_session_id: str | None = None
    """The session that implements the plan, after `clear_context`."""


class Asked(ResultData, frozen=True):
    question: Question
    response: JsonObject | None = None
    """What the CLI is told, as its permission tool's result; None: nobody has answered yet."""


class FileChange(ResultData, frozen=True):
    """What a call that is asked about would change in its file, as the file is now."""

    diff: DiffView | None = None
    because: str = ""
    """Why there is no diff, where that says something about the file."""
