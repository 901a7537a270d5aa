"""Commands that ask the running server show their token to nobody else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pilothouse.errors import ServerError
from pilothouse.server import runtime
from pilothouse.server.background import find_or_start
from pilothouse.server.probe import answering, health
from pilothouse.server.runtime import Lock, Running
from tests.support.server.machine import Machine
from tests.support.strangers import Stranger, listening
from tests.support.waiting import DEADLINE

TOKEN = "a-token-of-some-length"
MADE_UP = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"proof":"0"}'


@pytest.fixture
def locked(machine: Machine) -> Iterator[Machine]:
    """A server runs, as far as others can see: this very process."""
    _, folder = runtime.own_folders(machine.settings)
    lock = Lock(folder / runtime.LOCK_NAME)
    assert lock.acquire()
    yield machine
    runtime.forget(folder)
    lock.release()


def told_of(machine: Machine, stranger: Stranger) -> Running:
    running = Running(
        address=f"http://127.0.0.1:{stranger.port}",
        token=TOKEN,
        pid=os.getpid(),
        version="",
        started_at=0,
    )
    runtime.publish(machine.settings.runtime_dir, running)
    return running


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (MADE_UP, "is not the server of this token"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (b"", "something else"),
    ],
)
async def test_what_answers_in_its_place_is_an_error_at_once(
    answer: bytes, why: str, locked: Machine
) -> None:
    async with listening(Stranger(answer)) as stranger:
        running = told_of(locked, stranger)
        with pytest.raises(ServerError, match=f"{why}.*the token was not sent"):
            await asyncio.to_thread(health, running)
        with pytest.raises(ServerError, match=f"{why}.*the token was not sent"):
            await find_or_start(locked.settings, env=locked.env)
        status = await locked.run("status")
        assert (status.code, status.out) == (1, "")
        assert status.err.endswith("the token was not sent\n")
    assert len(stranger.seen) == 3
    assert TOKEN.encode() not in stranger.all_seen


async def test_who_says_nothing_is_a_server_that_does_not_answer(locked: Machine) -> None:
    async with listening(Stranger(None)) as stranger:
        told_of(locked, stranger)
        assert await asyncio.to_thread(answering, locked.settings, within=0.1) is None
    assert stranger.all_seen.startswith(b"GET /proof?nonce=")
    assert TOKEN.encode() not in stranger.all_seen


async def test_who_says_one_byte_after_the_other_is_not_waited_for(locked: Machine) -> None:
    is_over, has_left = asyncio.Event(), asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not is_over.is_set():
            writer.write(b"x")
            # The pace of one who wants to be waited for.
            await asyncio.sleep(0.05)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        has_left.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    stranger = Stranger()
    stranger.port = server.sockets[0].getsockname()[1]
    told_of(locked, stranger)
    async with asyncio.timeout(DEADLINE):
        assert await asyncio.to_thread(answering, locked.settings, within=0.2) is None
    is_over.set()
    server.close()
    async with asyncio.timeout(DEADLINE):
        await has_left.wait()
