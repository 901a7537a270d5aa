"""A bad link: it drops, delays, half-closes, falls silent, and connects a second time itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

FATES = ("drop", "drop", "drop", "delay", "half-close up", "half-close down", "silent", "second")


class BadLink:
    """Forwards to a port; the first `cuts` connections come to a bad end, the others to none."""

    def __init__(self, port: int, cuts: int, seed: int) -> None:
        self.cuts = cuts
        self.fates: list[str] = []
        self.url = ""
        self._port = port
        self._random = random.Random(seed)
        # Drawn beforehand: what chance decides on the way depends on how fast the machine is.
        rounds = (self._random.sample(FATES, len(FATES)) for _ in range(0, cuts, len(FATES)))
        self._to_come = [fate for each in rounds for fate in each][:cuts]
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[BadLink]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The server's own tasks cannot be awaited before Python 3.12.
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fate = "none"
        if len(self.fates) < self.cuts:
            fate = self._to_come[len(self.fates)]
            self.fates.append(fate)
        streams = [writer]
        try:
            with suppress(OSError):
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
                streams.append(up_writer)
                await self._live(fate, (reader, up_writer), (up_reader, writer), streams)
        finally:
            for stream in streams:
                stream.transport.abort()

    async def _live(
        self,
        fate: str,
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        down: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        streams: list[asyncio.StreamWriter],
    ) -> None:
        life = None if fate == "none" else self._random.uniform(0, 0.15)
        seen = bytearray()
        halves = [
            asyncio.ensure_future(self._forward(*up, fate, seen)),
            asyncio.ensure_future(self._forward(*down, fate, bytearray())),
        ]
        try:
            async with asyncio.timeout(life):
                await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self._come_to_an_end(fate, up, down, bytes(seen), halves, streams)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)

    async def _come_to_an_end(
        self,
        fate: str,
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        down: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        seen: bytes,
        halves: list[asyncio.Task[None]],
        streams: list[asyncio.StreamWriter],
    ) -> None:
        match fate:
            case "half-close up":
                halves[0].cancel()
                up[1].write_eof()
                await asyncio.wait([halves[1]], timeout=1)
            case "half-close down":
                halves[1].cancel()
                down[1].write_eof()
                await asyncio.wait([halves[0]], timeout=1)
            case "silent":
                for half in halves:
                    half.cancel()
                await asyncio.sleep(self._random.uniform(0, 1))
            case "second":
                # All that the relay ever said, its token included, once more.
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                streams.append(writer)
                writer.write(seen)
                await asyncio.wait([asyncio.ensure_future(reader.read(65536)), *halves], timeout=1)
            case _:
                pass

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fate: str,
        seen: bytearray,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(self._random.choice((100, 4000, 65536))):
                if fate == "second":
                    seen += data
                if fate == "delay":
                    await asyncio.sleep(self._random.uniform(0, 0.05))
                writer.write(data)
                await writer.drain()


# Talks all the time, and answers each line, until it is told to stop.
TALKS = """
import os, sys, threading, time
lock, over = threading.Lock(), threading.Event()

def say(text):
    with lock:
        os.write(1, text.encode() + b"\\n")

def listen():
    for line in sys.stdin:
        if line == "stop\\n":
            break
        say("heard " + line.rstrip())
    over.set()

threading.Thread(target=listen).start()
number = 0
while not over.is_set():
    for _ in range(20):
        say(f"said {number} " + "z" * (number % 700))
        number += 1
    time.sleep(0.005)
say(f"total {number}")
"""


IMPATIENT = {
    "ping": 0.2,
    "silence": 0.5,
    "handshake": 0.5,
    "replaced_delay": 0.02,
    "local_delay": 0.1,
}
"""The pace of a relay that soon misses whoever falls silent."""
