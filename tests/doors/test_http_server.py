"""The doors on a Unix socket: whose it is, what is left of it, and how long its name may be."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import connect as Connect
from websockets.asyncio.client import unix_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import LONGEST_MESSAGE, serve_at
from pilothouse.doors.sockets import Socket
from pilothouse.doors.tokens import Keyring
from pilothouse.errors import ServerError
from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import Frame, FrameKind
from pilothouse.relay.refusals import HEADER, Refusal
from pilothouse.transport.base import LONGEST_LINE
from tests.support.waiting import DEADLINE

KEYRING = Keyring(b"k" * 32)


class Echo:
    """A carrier that says what it hears."""

    session_id = "s"
    run = "r"
    machine = ""
    route = "relay"

    def __init__(self) -> None:
        self.was_too_long: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def is_other(self, headers: Mapping[str, str]) -> bool:
        return False

    async def visited(self, socket: Socket) -> None:
        while (message := await socket.receive()) is not None:
            await socket.send(message)
        if not self.was_too_long.done():
            self.was_too_long.set_result(socket.was_too_long)

    async def posted(self, body: bytes) -> int:
        return 404


def doors() -> Doors:
    made = Doors(KEYRING)
    made.expect(Echo())
    return made


def connect(path: str, token: str = "") -> Connect:
    given = {"Authorization": f"Bearer {token or KEYRING.issue('s', 'r')}"}
    return unix_connect(
        path,
        "ws://localhost/relay/s",
        additional_headers=given,
        max_size=None,
        compression=None,
    )


async def test_it_is_served_to_its_owner_alone_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "door"
    async with serve_at(doors(), path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with connect(str(path)) as link:
            await link.send(b"hello")
            assert await link.recv() == b"hello"
    assert not path.exists()


async def test_one_that_is_refused_hears_the_code(tmp_path: Path) -> None:
    async with serve_at(doors(), tmp_path / "door"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(str(tmp_path / "door"), "false")
        async with connect(str(tmp_path / "door"), KEYRING.issue("s", "ended")) as link:
            with pytest.raises(ConnectionClosed):
                await link.recv()
    response = refused.value.response
    told = (response.status_code, response.headers[HEADER])
    assert told == (401, str(Refusal.TOKEN_REFUSED.value))
    assert link.close_code == Refusal.SESSION_ENDED


async def test_a_line_may_be_very_long(tmp_path: Path) -> None:
    frame = door_frames.encode(Frame(FrameKind.LINES, 1, 0, b"x" * LONGEST_LINE + b"\n"))
    async with serve_at(doors(), tmp_path / "door"), connect(str(tmp_path / "door")) as link:
        await link.send(frame)
        assert await link.recv() == frame


async def test_what_is_longer_than_a_line_is_not_taken_and_said_to_be_too_long(
    tmp_path: Path,
) -> None:
    echo = Echo()
    made = Doors(KEYRING)
    made.expect(echo)
    async with serve_at(made, tmp_path / "door"), connect(str(tmp_path / "door")) as link:
        with suppress(ConnectionClosed):
            await link.send(b"x" * (LONGEST_MESSAGE + 1))
        async with asyncio.timeout(DEADLINE):
            assert await echo.was_too_long


async def test_a_connection_that_stays_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    path = tmp_path / "door"
    async with asyncio.timeout(DEADLINE):
        async with serve_at(doors(), path):
            link = await connect(str(path))
            await link.send(b"hello")
            await link.recv()
        await link.wait_closed()
    assert link.close_code == 1012


async def test_what_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "door"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with serve_at(doors(), path), connect(str(path)) as link:
        await link.send(b"hello")
        assert await link.recv() == b"hello"


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "door"
    path.write_text("mine")
    with pytest.raises(ServerError, match="cannot be used as a socket"):
        async with serve_at(doors(), path):
            pass
    assert path.read_text() == "mine"


async def test_another_servers_socket_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "door"
    async with serve_at(doors(), path):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as others:
            others.bind(str(path))
    assert path.exists()


async def test_a_name_longer_than_an_address_works(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path = folder / "door"
    assert len(os.fsencode(path)) > 107
    async with serve_at(doors(), path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        fd = os.open(folder, os.O_PATH)
        try:
            async with connect(f"/proc/self/fd/{fd}/door") as link:
                await link.send(b"hello")
                assert await link.recv() == b"hello"
        finally:
            os.close(fd)
    assert not path.exists()


async def test_a_long_name_is_told_where_it_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ServerError, match="set state_dir to a shorter folder"):
        async with serve_at(doors(), tmp_path / ("long" * 40) / "door"):
            pass


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "door", tmp_path / ("long" * 40) / "door"):
        with pytest.raises(ServerError, match="cannot be used"):
            async with serve_at(doors(), path):
                pass


async def test_an_error_within_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with serve_at(doors(), tmp_path / "door"):
            raise KeyError("mine")
    assert not (tmp_path / "door").exists()


async def test_signals_stay_whose_they_are(tmp_path: Path) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    async with serve_at(doors(), tmp_path / "door"):
        during = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert during == before


async def test_a_server_that_cannot_start_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no")

    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "startup", fail)
    with pytest.raises(OSError, match="no"):
        async with serve_at(doors(), tmp_path / "door"):
            raise AssertionError("it was never served")
