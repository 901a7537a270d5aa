"""Who listens where a server is looked for, and keeps whatever is sent there."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Stranger:
    """Answers every connection in the same way."""

    def __init__(self, answer: bytes | None = b"", *, forward_to: int | None = None) -> None:
        """`answer` is sent once something came; None: nothing ever is."""
        self._answer = answer
        self._forward_to = forward_to
        self.seen: list[bytes] = []
        """For each connection what came over it."""
        self.visited = asyncio.Event()
        self.port = 0

    @property
    def all_seen(self) -> bytes:
        return b"|".join(self.seen)

    async def visits(self, count: int) -> None:
        """Wait until so many have come."""
        while len(self.seen) < count:
            self.visited.clear()
            await self.visited.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.seen)
        self.seen.append(b"")
        self.visited.set()
        onward = None
        try:
            if self._forward_to is not None:
                onward = await asyncio.open_connection("127.0.0.1", self._forward_to)
            await self._keep(number, (reader, writer), onward)
        except OSError:
            pass
        finally:
            writer.close()
            if onward is not None:
                onward[1].close()

    async def _keep(self, number: int, ends: Ends, onward: Ends | None) -> None:
        reader, writer = ends
        back = asyncio.create_task(pump(onward[0], writer)) if onward else None
        try:
            while data := await reader.read(65536):
                self.seen[number] += data
                if onward is not None:
                    onward[1].write(data)
                elif self._answer is not None:
                    writer.write(self._answer or data)
        finally:
            if back is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Hand on what comes until its end; all of it."""
    passed = b""
    with suppress(OSError):
        while data := await reader.read(65536):
            passed += data
            writer.write(data)
            await writer.drain()
    return passed


@asynccontextmanager
async def listening(
    stranger: Stranger,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Stranger]:
    """The stranger at this place, while the context lasts."""
    tasks: set[asyncio.Task[None]] = set()

    def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(stranger.serve(reader, writer)))

    server = await asyncio.start_server(visited, host, port, ssl=tls)
    stranger.port = server.sockets[0].getsockname()[1]
    try:
        yield stranger
    finally:
        server.close()
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
