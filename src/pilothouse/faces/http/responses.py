"""How an answer begins, whoever sends it: its status is noted by whoever observes the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope, Send

__all__ = ["ANSWERED", "begin_response", "note_status"]

ANSWERED: Final = "pilothouse.answered"
"""In a request's scope: what to call with the status of its answer."""


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
