"""What stands before the app and counts who is being served."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from pilothouse.api import proof

__all__ = ["FACE", "Attendance"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

FACE: Final = "pilothouse"
"""By this User-Agent a server knows a face that means to come."""
# A monitor that looks in now and then is no reason to stay.
UNCOUNTED: Final = frozenset({"/healthz", "/metrics", proof.PATH})


class Attendance:
    """An ASGI app around another."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._inside = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """For how long nobody was being served; a stream counts for as long as it is open."""
        return 0.0 if self._inside else time.monotonic() - self._last

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not _counts(scope):
            await self._app(scope, receive, send)
            return
        with self._counted():
            await self._app(scope, receive, send)

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._last = time.monotonic()


def _counts(scope: Message) -> bool:
    if scope.get("path") not in UNCOUNTED:
        return True
    return (b"user-agent", FACE.encode()) in scope.get("headers", ())
