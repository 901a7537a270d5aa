"""Answers, whoever sends them: the status is noted by whoever observes the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

__all__ = ["ANSWERED", "JSON", "Answering", "HttpAnswer", "begin_response", "note_status"]

JSON: Final = "application/json"

ANSWERED: Final = "pilothouse.answered"
"""In a request's scope: what to call with the status of its answer."""


class HttpAnswer(NamedTuple):
    """What a request is answered with."""

    body: bytes
    media: str = JSON
    """What the body is; empty where there is none."""
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


Answering = Callable[["Scope", "Receive"], Awaitable[HttpAnswer]]


def note_status(scope: Scope, status: int) -> None:
    """Pass the status of an answer to whoever observes the request."""
    if (note := scope.get(ANSWERED)) is not None:
        note(status)


async def begin_response(
    scope: Scope, send: Send, status: int, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Send the status and the headers of an answer."""
    note_status(scope, status)
    start: Any = {"type": "http.response.start", "status": status, "headers": list(headers)}
    await send(start)
