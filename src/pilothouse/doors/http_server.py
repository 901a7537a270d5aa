"""Serves the doors on a Unix socket, for the relays of this machine."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING, Any, Final

from pilothouse.errors import ServerError
from pilothouse.transport.base import LONGEST_LINE

from .door import Doors

if TYPE_CHECKING:
    import uvicorn

__all__ = ["make_server", "serve", "serve_at"]

LONGEST_PATH: Final = 107 if sys.platform == "linux" else 103
"""Bytes of a path that fit into the address of a Unix socket."""
LONGEST_MESSAGE: Final = LONGEST_LINE + 1024 * 1024
"""No line is ever split: there is room for the longest, and for what tells its number."""
PING: Final = 20.0
GRACE: Final = 2
"""Seconds for connections to end, when the listening does."""


@asynccontextmanager
async def serve_at(doors: Doors, path: Path) -> AsyncGenerator[None]:
    """Serve on this socket, which only its owner can use, while the context lasts."""
    with _bound(path) as listener:
        async with serve(doors, listener):
            yield


@asynccontextmanager
async def serve(app: Any, listener: socket) -> AsyncGenerator[None]:
    """Serve on a socket that is bound; at the end it is closed, and so is every connection."""
    started = asyncio.Event()
    pings = {"ws_ping_interval": PING, "ws_ping_timeout": PING}
    server = make_server(app, started.set, lifespan="off", timeout_graceful_shutdown=GRACE, **pings)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    starting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait([serving, starting], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        yield
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.wait([serving, starting])
    await serving


def make_server(app: Any, started: Callable[[], None], **more: Any) -> uvicorn.Server:
    """A server of an ASGI app. `started` is called when it takes connections."""
    # These cost a tenth of a second, and commands that only look need none of them.
    import uvicorn

    from .admission import ConnectionListener, HttpConnection, State, WebSocketConnection

    class Server(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            self.server_state = self._state = State()

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            """Signals are ours: uvicorn would raise them again once it has ended."""
            yield

        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup([])
            if self.started:
                self.servers = [self._listener(each) for each in sockets or ()]
                started()

        def _listener(self, listening: socket) -> Any:
            return ConnectionListener(
                listening, self._connection, self._state.strangers, self.config.ssl
            )

        def _connection(self) -> HttpConnection:
            return HttpConnection(self.config, self._state, self.lifespan.state)

    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        ws_max_size=LONGEST_MESSAGE,
        # What passes here goes to this machine mostly: packing it costs more than it saves.
        ws_per_message_deflate=False,
        **more,
    )
    return Server(config)


@contextmanager
def _bound(path: Path) -> Generator[socket]:
    """A socket at this path, which is taken away at the end."""
    with _short(path) as place, socket(AF_UNIX, SOCK_STREAM) as listener:
        try:
            _remove_leftover(Path(place))
            # Before it can be seen, where that can be done: not on macOS.
            with suppress(OSError):
                os.fchmod(listener.fileno(), 0o600)
            listener.bind(place)
            Path(place).chmod(0o600)
            ours = _identity(Path(place))
        except OSError as error:
            told = f"{path} cannot be used as a socket: {error.strerror or error}"
            raise ServerError(f"{told}; see to its folder, or set state_dir to another") from None
        try:
            yield listener
        finally:
            # By then another may have put its own there.
            with suppress(OSError):
                if _identity(Path(place)) == ours:
                    Path(place).unlink()


@contextmanager
def _short(path: Path) -> Generator[str]:
    """A name for the path that a socket's address has room for."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield str(path)
        return
    if sys.platform != "linux":
        told = f"{path} is too long for a socket: {LONGEST_PATH} bytes are the most"
        raise ServerError(f"{told}; set state_dir to a shorter folder")
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ServerError(f"{path.parent} cannot be used: {error.strerror}") from None
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _remove_leftover(path: Path) -> None:
    """Remove a socket that a killed server left, but nothing else."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
