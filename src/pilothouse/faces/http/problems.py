"""Errors as problem+json: one table from what was raised to the status it is answered with."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from litestar.exceptions import HTTPException

from pilothouse import errors
from pilothouse.api.codec import encode_strictly
from pilothouse.api.problems import PROBLEM, Problem, Wrong, code_of
from pilothouse.errors import PilothouseError, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from litestar.types import Scope, Send

__all__ = ["STATUSES", "Unacceptable", "explain", "problem_of", "refuse", "status_of"]

log = logging.getLogger(__name__)

STATUSES: Final[dict[type[PilothouseError], int]] = {
    errors.UnknownSession: 404,
    errors.UnknownQuestion: 404,
    errors.UnknownPrompt: 404,
    errors.UnknownRunner: 404,
    errors.DirectoryRefused: 422,
    errors.SessionTaken: 409,
    errors.TooManySessions: 429,
    errors.QuestionSettled: 409,
    errors.AnswerRefused: 422,
    errors.KeyReused: 409,
    errors.CapReached: 402,
    errors.ControlRefused: 403,
    errors.NotNow: 409,
    errors.Refused: 409,
    errors.BypassNotAllowed: 403,
    errors.UsageError: 422,
    errors.PolicyError: 422,
    # The CLI said no, or ended: a state of the session's, not a fault of this server.
    errors.ControlError: 409,
    errors.SessionEnded: 424,
    errors.ControlTimeout: 504,
    errors.CLINotFound: 503,
    errors.CLINotStarted: 503,
    errors.JournalError: 503,
    errors.ServerError: 503,
    errors.PilothouseError: 500,
}
"""The status of an error is that of its class, or of the nearest class above it."""

ADVICE: Final[dict[type[PilothouseError], str]] = {
    errors.SessionEnded: "say something to the session: that starts its CLI again",
    errors.ControlTimeout: "read the session's status: the CLI may still act on it",
    errors.CLINotFound: "install Claude Code, or set CLAUDE_CODE_PATH",
    errors.JournalError: "see the server's log and its disk, and start it again: it ends by itself",
}

CARRIED: Final[dict[type[PilothouseError], tuple[str, ...]]] = {
    errors.BypassNotAllowed: ("where", "advice"),
    errors.ControlError: ("subtype", "message", "error_code"),
    errors.ControlTimeout: ("subtype", "seconds"),
    errors.SessionEnded: ("exit_code", "signal", "stderr_tail"),
}
"""What an error carries besides its words, and the engine over HTTP gives back."""

Headers = list[tuple[bytes, bytes]]


class Unacceptable(Exception):
    """A request that this face itself cannot take. Says which members are wrong, if any are."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        advice: str = "",
        wrong: tuple[Wrong, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.advice = advice
        self.wrong = wrong
        self.headers = dict(headers or {})


def status_of(kind: type[BaseException]) -> int:
    """The status for an error of this class."""
    return next((STATUSES[each] for each in kind.__mro__ if each in STATUSES), 500)


def explain(status: int, code: str, detail: str, advice: str = "", **more: Any) -> Problem:
    """A problem in its usual form."""
    return Problem(
        type=f"urn:pilothouse:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        advice=advice,
        **more,
    )


def problem_of(error: Exception) -> Problem:
    """What to tell a caller. Of an error nobody foresaw only that it happened; the log has it."""
    match error:
        case Unacceptable():
            wrong = list(error.wrong)
            return explain(error.status, error.code, error.detail, error.advice, errors=wrong)
        case PilothouseError():
            return _problem_of_ours(error)
        case HTTPException() if error.status_code < 500:
            return _problem_of_litestar(error)
        case _:
            log.error("a request failed in a way nobody foresaw", exc_info=error)
            return explain(
                500, "internal", "the server failed to answer this", "its log says what happened"
            )


def _problem_of_ours(error: PilothouseError) -> Problem:
    kind = type(error)
    status = status_of(kind)
    if status >= 500:
        log.error("a request failed: %s", error)
    return explain(
        status,
        code_of(kind),
        error.message if isinstance(error, Refused) else str(error),
        getattr(error, "advice", _first(ADVICE, kind, "")),
        about={name: getattr(error, name, None) for name in _first(CARRIED, kind, ())},
        question=getattr(error, "question", None),
    )


def _problem_of_litestar(error: HTTPException) -> Problem:
    match error.status_code:
        case 404:
            return explain(404, "no-such-path", "nothing is here", "see /openapi.json")
        case 405:
            return explain(405, "no-such-method", "this path takes other methods", "see Allow")
        case status:
            return explain(status, "bad-request", error.detail)


def _first(table: Mapping[type[PilothouseError], Any], kind: type[Any], default: Any) -> Any:
    return next((table[each] for each in kind.__mro__ if each in table), default)


def _can_answer(scope: Any) -> bool:
    """Whether the server can answer a handshake with more than a bare refusal."""
    return "websocket.http.response" in (scope.get("extensions") or {})


async def refuse(
    scope: Scope, send: Send, problem: Problem, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with a problem, also to a WebSocket that was not accepted."""
    body = encode_strictly(problem)
    prefix = "" if scope["type"] == "http" else "websocket."
    if prefix and not _can_answer(scope):
        await send({"type": "websocket.close", "code": 1008, "reason": problem.code})
        return
    given = {"content-type": PROBLEM, "content-length": str(len(body)), **(headers or {})}
    raw: Headers = [(name.encode(), value.encode()) for name, value in given.items()]
    start: Any = {"type": f"{prefix}http.response.start", "status": problem.status, "headers": raw}
    end: Any = {"type": f"{prefix}http.response.body", "body": body, "more_body": False}
    await send(start)
    await send(end)
