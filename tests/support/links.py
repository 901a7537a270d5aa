"""A way to a port of this machine that a test can cut, or make fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Link:
    """Forwards connections to a port until they are cut or frozen."""

    def __init__(self, port: int) -> None:
        self.address = ""
        self.dials = asyncio.Semaphore(0)
        """Released once for every connection that came."""
        self._port = port
        self._frozen: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"ws://{self.address}"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Hang up on both ends of every connection, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        """Forward nothing more on the connections there are, and tell nobody."""
        self._frozen |= self._tasks

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The server's own tasks cannot be awaited before Python 3.12.
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self.dials.release()
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, there}
        self._writers |= ends
        try:
            await asyncio.gather(
                self._forward(reader, there, own), self._forward(there_reader, writer, own)
            )
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: asyncio.Task[None]
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if own not in self._frozen:
                    writer.write(data)
                    await writer.drain()
        if own not in self._frozen:
            writer.close()
