"""A relay's side of a WebSocket, in memory, said frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pilothouse.doors.relay_transport import RelayTransport
from pilothouse.doors.sockets import Socket
from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import Frame, FrameKind, RelayHello, RelayWelcome
from tests.support.waiting import DEADLINE

SESSION = "a-session"
RUN = "a-run"


class RelayPeer:
    """Says what a test wants said, and hears what the door says."""

    def __init__(self) -> None:
        self._up: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._down: asyncio.Queue[Any] = asyncio.Queue()
        self.taking = asyncio.Event()
        """Whether it takes what is sent to it."""
        self.taking.set()
        self.left = False

    def socket(self) -> Socket:
        return Socket({"headers": []}, self._up.get, self._send)

    async def _send(self, message: Any) -> None:
        await self.taking.wait()
        if self.left:
            raise OSError("the peer has left")
        self._down.put_nowait(message)

    def say(
        self, kind: FrameKind, number: int, payload: bytes = b"", *, acknowledged: int = 0
    ) -> None:
        data = door_frames.encode(Frame(kind, number, acknowledged, payload))
        self._up.put_nowait({"type": "websocket.receive", "bytes": data})

    def say_raw(self, **content: bytes | str) -> None:
        self._up.put_nowait({"type": "websocket.receive", **content})

    def greet(self, first: int = 1, written: int = 0, **others: Any) -> None:
        about: dict[str, Any] = {"session_id": SESSION, "run": RUN, "pid": 77, **others}
        hello = RelayHello(first=first, written=written, **about)
        self.say(FrameKind.HELLO, first, door_frames.pack(hello), acknowledged=written)

    def leave(self, code: int = 1006) -> None:
        self.left = True
        self._up.put_nowait({"type": "websocket.disconnect", "code": code})

    async def hear(self) -> Frame:
        async with asyncio.timeout(DEADLINE):
            message = await self._down.get()
        assert message["type"] == "websocket.send", message
        return door_frames.decode(message["bytes"])

    def has_heard(self) -> bool:
        """Whether there is something to hear."""
        return not self._down.empty()

    async def welcomed(self) -> int:
        frame = await self.hear()
        assert frame.kind is FrameKind.WELCOME
        welcome: RelayWelcome = door_frames.unpack(RelayWelcome, frame.payload)
        return welcome.committed

    async def closed(self) -> int:
        """Wait for the close, passing over frames; its code."""
        async with asyncio.timeout(DEADLINE):
            while (message := await self._down.get())["type"] != "websocket.close":
                pass
        return message["code"]


@asynccontextmanager
async def visit(transport: RelayTransport) -> AsyncIterator[RelayPeer]:
    """A connection to this transport, which the peer leaves at the end."""
    peer = RelayPeer()
    visit = asyncio.ensure_future(transport.visited(peer.socket()))
    try:
        yield peer
    finally:
        peer.leave()
        async with asyncio.timeout(DEADLINE):
            await visit


async def settle() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)
