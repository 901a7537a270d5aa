"""Errors on the wire: each with a code and a status, and back again.

The server makes a `Problem` of an error, and the engine over HTTP the same error of the problem.
Both go by the one table here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pilothouse import errors
from pilothouse.errors import PilothouseError, QuestionSettled, Refused

from .questions import Question
from .values import JsonObject

__all__ = [
    "CODES",
    "ENDING",
    "PROBLEM",
    "STATUSES",
    "Problem",
    "Wrong",
    "code_of",
    "error_from",
    "explain",
    "problem_from",
    "status_of",
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


class _Kind(NamedTuple):
    """The code and the status of an error class."""

    error: type[PilothouseError]
    status: int
    advice: str = ""
    """What to do instead, where the error itself has no advice."""
    carries: tuple[str, ...] = ()
    """The attributes that go with its words."""


_STOPPED: Final = "see the server's log and its disk, and start it again: it ends by itself"

_KINDS: Final[dict[str, _Kind]] = {
    "answer-refused": _Kind(errors.AnswerRefused, 422),
    "bypass-not-allowed": _Kind(errors.BypassNotAllowed, 403, carries=("where", "advice")),
    "cap-reached": _Kind(errors.CapReached, 402),
    "cli-not-found": _Kind(errors.CLINotFound, 503, "install Claude Code, or set CLAUDE_CODE_PATH"),
    "cli-not-started": _Kind(errors.CLINotStarted, 503),
    # The CLI said no, or ended: a state of the session's, not a fault of the server.
    "control-error": _Kind(errors.ControlError, 409, carries=("subtype", "message", "error_code")),
    "control-refused": _Kind(errors.ControlRefused, 403),
    "control-timeout": _Kind(
        errors.ControlTimeout,
        504,
        "read the session's status: the CLI may still act on it",
        carries=("subtype", "seconds"),
    ),
    "directory-refused": _Kind(errors.DirectoryRefused, 422),
    "error": _Kind(errors.PilothouseError, 500),
    "hook-failed": _Kind(errors.HookFailed, 500),
    "invalid-option": _Kind(errors.InvalidOption, 422),
    "journal-error": _Kind(errors.JournalError, 503, _STOPPED),
    "journal-in-use": _Kind(errors.JournalInUse, 503, _STOPPED),
    "journal-too-new": _Kind(errors.JournalTooNew, 503, _STOPPED),
    "key-reused": _Kind(errors.KeyReused, 409),
    "not-now": _Kind(errors.NotNow, 409),
    "policy-error": _Kind(errors.PolicyError, 422),
    "question-settled": _Kind(errors.QuestionSettled, 409),
    "refused": _Kind(errors.Refused, 409),
    "server-error": _Kind(errors.ServerError, 503),
    "session-ended": _Kind(
        errors.SessionEnded,
        424,
        "say something to the session: that starts its CLI again",
        carries=("exit_code", "signal", "stderr_tail"),
    ),
    "session-taken": _Kind(errors.SessionTaken, 409),
    "setting-error": _Kind(errors.SettingError, 500),
    "too-many-sessions": _Kind(errors.TooManySessions, 429),
    "unknown-prompt": _Kind(errors.UnknownPrompt, 404),
    "unknown-question": _Kind(errors.UnknownQuestion, 404),
    "unknown-runner": _Kind(errors.UnknownRunner, 404),
    "unknown-session": _Kind(errors.UnknownSession, 404),
    "unsupported": _Kind(errors.Unsupported, 409, carries=("subtype", "message", "error_code")),
    "usage": _Kind(errors.UsageError, 422),
}

CODES: Final = {code: kind.error for code, kind in _KINDS.items()}
"""The class of error that each code stands for."""
STATUSES: Final = {code: kind.status for code, kind in _KINDS.items()}
"""The HTTP status that each code is told with."""

_CODE_OF: Final = {kind: code for code, kind in CODES.items()}


def code_of(kind: type[BaseException]) -> str:
    """Return the code of an error's class, or of the nearest base that has one."""
    return next((_CODE_OF[each] for each in kind.__mro__ if each in _CODE_OF), "error")


def status_of(kind: type[BaseException]) -> int:
    """Return the status for an error of this class."""
    return STATUSES[code_of(kind)]


def explain(status: int, code: str, detail: str, advice: str = "", **more: Any) -> Problem:
    """Return a problem in its usual form."""
    return Problem(
        type=f"urn:pilothouse:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        advice=advice,
        **more,
    )


def problem_from(error: PilothouseError) -> Problem:
    """Return the problem that stands for an error of ours."""
    code = code_of(type(error))
    kind = _KINDS[code]
    return explain(
        kind.status,
        code,
        error.message if isinstance(error, Refused) else str(error),
        getattr(error, "advice", kind.advice),
        about={name: getattr(error, name, None) for name in kind.carries},
        question=error.question if isinstance(error, QuestionSettled) else None,
    )


def error_from(problem: Problem) -> PilothouseError:
    """Return the error that a problem stands for: its class, its words and its data."""
    kind = CODES.get(problem.code)
    if kind is None:
        return errors.ServerError(f"{problem.detail} ({problem.status} {problem.title})")
    if issubclass(kind, QuestionSettled):
        return kind(problem.detail, advice=problem.advice, question=problem.question)
    if issubclass(kind, Refused):
        return kind(problem.detail, advice=problem.advice)
    # The others put their words together themselves, from what is not here any more.
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    error.__dict__.update(problem.about)
    return error
