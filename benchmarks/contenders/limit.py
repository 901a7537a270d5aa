"""The limit: asyncio pipes and msgspec with no client around them."""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import footprint
import msgspec

INITIALIZE = b'{"type":"control_request","request_id":"req_1","request":{"subtype":"initialize"}}\n'
USER = b'{"type":"user","message":{"role":"user","content":"go"}}\n'
ALLOW = (
    b'{"type":"control_response","response":{"subtype":"success","request_id":"r",'
    b'"response":{"behavior":"allow","updatedInput":{}}}}\n'
)
PIPE_SIZE = 1 << 20


class Delta(msgspec.Struct):
    """The part of a delta that is read."""

    text: str = ""


class Event(msgspec.Struct):
    """The part of a stream event that is read."""

    delta: Delta | None = None


class Line(msgspec.Struct):
    """The part of a message that is read."""

    type: str
    event: Event | None = None


class Lines(asyncio.Protocol):
    """Cuts what arrives into lines and hands each to whoever listens now."""

    def __init__(self) -> None:
        self.tail = b""
        self.listener: Callable[[bytes], None] = lambda _line: None

    def data_received(self, data: bytes) -> None:
        """Hand over each complete line."""
        *lines, self.tail = (self.tail + data).split(b"\n")
        listener = self.listener
        for line in lines:
            listener(line)


class Pipe:
    """A child with its two pipes."""

    def __init__(self, lines: Lines, stdin: asyncio.WriteTransport) -> None:
        self.lines = lines
        self.stdin = stdin

    async def until(self, listener: Callable[[bytes], bool], send: bytes) -> None:
        """Send, then listen until the listener returns true."""
        done = asyncio.get_running_loop().create_future()

        def listen(line: bytes) -> None:
            if listener(line):
                done.set_result(None)

        self.lines.listener = listen
        self.stdin.write(send)
        await done


@asynccontextmanager
async def connected(cli_path: str) -> AsyncIterator[Pipe]:
    """Start the CLI and wait for its answer to initialize."""
    loop = asyncio.get_running_loop()
    child = subprocess.Popen(  # noqa: ASYNC220
        [cli_path], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    reading, lines = await loop.connect_read_pipe(Lines, child.stdout)
    stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, child.stdin)
    pipe = Pipe(lines, stdin)
    try:
        await pipe.until(lambda _line: True, INITIALIZE)
        yield pipe
    finally:
        stdin.close()
        reading.close()
        await asyncio.to_thread(child.wait)


async def stream(cli_path: str, count: int) -> dict[str, float]:
    """Read the text of every delta of one turn."""
    seen = 0
    decode = msgspec.json.Decoder(Line).decode

    def read(line: bytes) -> bool:
        nonlocal seen
        message = decode(line)
        event = message.event
        if event is not None and event.delta is not None:
            if event.delta.text:
                seen += 1
            return False
        return message.type == "result"

    async with connected(cli_path) as pipe:
        watch = footprint.Stopwatch()
        await pipe.until(read, USER)
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def permissions(cli_path: str, count: int) -> dict[str, float]:
    """Approve every request of one turn."""
    seen = 0

    async with connected(cli_path) as pipe:

        def answer(line: bytes) -> bool:
            nonlocal seen
            if b"can_use_tool" in line:
                seen += 1
                pipe.stdin.write(ALLOW)
                return False
            return b'"result"' in line

        watch = footprint.Stopwatch()
        await pipe.until(answer, USER)
        figures = watch.figures(count)
    return {"seen": seen, **figures}


async def idle(cli_path: str, count: int) -> dict[str, float]:
    """Keep so many children connected and measure what they cost."""
    steps = [footprint.Footprint.now()]
    async with AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(connected(cli_path))
            if number in (0, count - 1):
                steps.append(footprint.Footprint.now())
    return footprint.growth(steps, count)


if __name__ == "__main__":
    footprint.main({"stream": stream, "permissions": permissions, "idle": idle})
