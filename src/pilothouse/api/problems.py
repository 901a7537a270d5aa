"""Errors as they are told to others: each with a code, and back again."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pilothouse import errors
from pilothouse.errors import PilothouseError, Refused

from .questions import Question
from .values import JsonObject

__all__ = [
    "CODES",
    "ENDING",
    "PROBLEM",
    "Problem",
    "Wrong",
    "code_of",
    "error_from",
]

PROBLEM: Final = "application/problem+json"
ENDING: Final = "the server ends; ask the next one again"
"""What whoever waits for an answer is told by a server that ends."""


class Wrong(Struct, frozen=True):
    """One member of a request that cannot be taken."""

    member: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was not done, and what to do instead (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    advice: str
    errors: list[Wrong] = []
    about: JsonObject = {}
    """What the error carries besides its words."""
    question: Question | None = None
    """The question as it was settled."""


CODES: Final[dict[str, type[PilothouseError]]] = {
    "answer-refused": errors.AnswerRefused,
    "bypass-not-allowed": errors.BypassNotAllowed,
    "cap-reached": errors.CapReached,
    "cli-not-found": errors.CLINotFound,
    "cli-not-started": errors.CLINotStarted,
    "control-error": errors.ControlError,
    "control-refused": errors.ControlRefused,
    "control-timeout": errors.ControlTimeout,
    "directory-refused": errors.DirectoryRefused,
    "error": errors.PilothouseError,
    "hook-failed": errors.HookFailed,
    "invalid-option": errors.InvalidOption,
    "journal-error": errors.JournalError,
    "journal-in-use": errors.JournalInUse,
    "journal-too-new": errors.JournalTooNew,
    "key-reused": errors.KeyReused,
    "not-now": errors.NotNow,
    "policy-error": errors.PolicyError,
    "question-settled": errors.QuestionSettled,
    "refused": errors.Refused,
    "server-error": errors.ServerError,
    "session-ended": errors.SessionEnded,
    "session-taken": errors.SessionTaken,
    "setting-error": errors.SettingError,
    "too-many-sessions": errors.TooManySessions,
    "unknown-prompt": errors.UnknownPrompt,
    "unknown-question": errors.UnknownQuestion,
    "unknown-runner": errors.UnknownRunner,
    "unknown-session": errors.UnknownSession,
    "unsupported": errors.Unsupported,
    "usage": errors.UsageError,
}
"""The code of each error of ours; the server and the engine over HTTP both go by it."""
_CODE_OF: Final = {kind: code for code, kind in CODES.items()}


def code_of(kind: type[BaseException]) -> str:
    """The code of an error's class, or of the nearest one above it that has one."""
    return next((_CODE_OF[each] for each in kind.__mro__ if each in _CODE_OF), "error")


def error_from(problem: Problem) -> PilothouseError:
    """The error a server meant: the class it raised, with its words and what else it carried."""
    kind = CODES.get(problem.code)
    if kind is None:
        return errors.ServerError(f"{problem.detail} ({problem.status} {problem.title})")
    if issubclass(kind, Refused):
        return kind(problem.detail, advice=problem.advice)
    # The others put their words together themselves, from what is not here any more.
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    error.__dict__.update(problem.about)
    return error
