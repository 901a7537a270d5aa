"""Errors as problem+json: one table from what was raised to the status it is answered with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pilothouse.api.codec import encode_strictly
from pilothouse.api.problems import PROBLEM, Problem, Wrong, explain, problem_from
from pilothouse.errors import PilothouseError

from .responses import begin_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope, Send

__all__ = ["Unacceptable", "no_such_method", "no_such_path", "problem_of", "refuse"]

log = logging.getLogger(__name__)

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


def problem_of(error: Exception) -> Problem:
    """What to tell a caller. Of an error nobody foresaw only that it happened; the log has it."""
    match error:
        case Unacceptable():
            wrong = list(error.wrong)
            return explain(error.status, error.code, error.detail, error.advice, errors=wrong)
        case PilothouseError():
            return _problem_of_ours(error)
        case _:
            log.error("a request failed in a way nobody foresaw", exc_info=error)
            return explain(
                500, "internal", "the server failed to answer this", "its log says what happened"
            )


def _problem_of_ours(error: PilothouseError) -> Problem:
    problem = problem_from(error)
    if problem.status >= 500:
        log.error("a request failed: %s", error)
    return problem


def no_such_path() -> Unacceptable:
    """The refusal of a path that nothing is at."""
    return Unacceptable(404, "no-such-path", "nothing is here", advice="see /openapi.json")


def no_such_method(allow: str) -> Unacceptable:
    """The refusal of a method that a path does not take; `allow` are those it does."""
    return Unacceptable(
        405,
        "no-such-method",
        "this path takes other methods",
        advice="see Allow",
        headers={"allow": allow},
    )


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
    end: Any = {"type": f"{prefix}http.response.body", "body": body, "more_body": False}
    if prefix:
        start: Any = {"type": f"{prefix}http.response.start", "status": problem.status}
        await send({**start, "headers": raw})
    else:
        await begin_response(scope, send, problem.status, raw)
    await send(end)
