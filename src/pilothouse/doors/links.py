"""One connection of a relay, as its door sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pilothouse.relay import framing
from pilothouse.relay.framing import Frame, FrameError, Kind, Welcome

if TYPE_CHECKING:
    from .sockets import Socket

__all__ = ["FAILED", "NORMAL", "Link"]

SEND_DEADLINE: Final = 60.0
"""A relay always reads: one that takes nothing for so long is not there."""
CLOSE_DEADLINE: Final = 2.0

NORMAL: Final = 1000
FAILED: Final = 1011


class Link:
    """One connection of a relay, and how far we have come on it."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._woken = asyncio.Event()
        self._code = NORMAL
        self._reason = ""
        self.over = asyncio.Event()
        self.is_greeted = False
        self.sent = 0
        self.acknowledged = 0

    def end(self, code: int, reason: str = "") -> None:
        """Have it closed by whoever serves it; the first word counts."""
        if not self.over.is_set():
            self._code, self._reason = code, reason
            self.over.set()

    def wake(self) -> None:
        """Let the sender look at what is due, once the relay was greeted."""
        if self.is_greeted:
            self._woken.set()

    async def awake(self) -> None:
        """Wait until there may be something to send."""
        await self._woken.wait()
        self._woken.clear()

    async def welcome(self, committed: int) -> None:
        """Tell where we stand; from now on something may be sent."""
        self.acknowledged = committed
        payload = framing.pack(Welcome(committed))
        await self.send(Frame(Kind.WELCOME, 0, committed, payload))
        self.is_greeted = True
        self.wake()

    @property
    def was_too_long(self) -> bool:
        """Whether it has ended because the peer sent more at once than a relay does."""
        return self._socket.was_too_long

    async def receive(self) -> Frame | None:
        """The next frame; None once the peer is gone."""
        message = await self._socket.receive()
        if isinstance(message, str):
            raise FrameError("a message of text")
        return None if message is None else framing.decode(message)

    async def send(self, frame: Frame) -> None:
        """Send a frame. That the peer is gone, `receive` tells."""
        try:
            async with asyncio.timeout(SEND_DEADLINE):
                await self._socket.send(framing.encode(frame))
        except TimeoutError:
            self.end(FAILED, "nothing is taken")
        except RuntimeError:
            # What an ASGI server says of a WebSocket that it has closed itself.
            self.end(FAILED)

    async def close(self) -> None:
        """Send the peer away, if it is still there."""
        try:
            async with asyncio.timeout(CLOSE_DEADLINE):
                await self._socket.close(self._code, self._reason)
        except (TimeoutError, RuntimeError):
            return
