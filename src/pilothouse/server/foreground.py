"""The server in the foreground: everything is opened in order, and closed in the other order."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

from pilothouse import __version__
from pilothouse.doors.http_server import make_server
from pilothouse.errors import JournalError, PilothouseError, ServerError
from pilothouse.settings import Settings

from . import runtime, survivors
from .attendance import Attendance, wait_unneeded
from .cli_choice import choose
from .engines import open_with_doors
from .listen_address import address_of, bind, check_exposure, hosts_of
from .logs import LOG_NAME, Redaction, set_up
from .mcp import McpOverHttp
from .question_lines import tell_questions

if TYPE_CHECKING:
    import uvicorn

    from pilothouse.doors.door import Doors
    from pilothouse.engine.engine import SessionEngine
    from pilothouse.faces.console.console import Console
    from pilothouse.faces.http import Application

__all__ = ["import_app", "serve"]

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MCP_PATH: Final = "/mcp"
# How long requests that are being answered may take to end; streams are told to leave at once.
GRACE: Final = 5

log = logging.getLogger("pilothouse.server")

Tell = Callable[[str], None]


async def serve(
    settings: Settings,
    *,
    env: Mapping[str, str],
    tell: Tell,
    idle_exit_s: float | None = None,
    is_watched: bool = False,
) -> None:
    """Serve until a signal comes, or until nobody has needed it for `idle_exit_s` seconds.

    `tell` gets what a user is to know, line by line; if it `is_watched`, also what sessions ask.
    What stands in the way is a `ServerError`.
    """
    check_exposure(settings)
    state, folder = runtime.own_folders(settings)
    stopping = asyncio.Event()
    with _signals(stopping), _held_lock(folder):
        token = runtime.token(state)
        redaction = Redaction([token], env)
        set_up(settings.log_level, redaction, file=state / LOG_NAME, shape=settings.log_format)
        with bind(settings.host, settings.port) as listener:
            import_app()
            choice = choose(settings, env)
            if choice.note:
                tell(choice.note)
            host = _Host(settings, folder, token, listener, tell, is_watched=is_watched)
            async with open_with_doors(choice, host.dial) as (engine, doors):
                failed = await host.serve(engine, doors, stopping, idle_exit_s)
            log.info("ended", extra={"left": engine.left})
            if engine.left:
                tell(survivors.going_on(engine.left))
            if failed is not None:
                raise failed


def import_app() -> None:
    """Import what serves requests; from then on the garbage collector passes over it.

    It is most of all objects there are. To look through them takes 50 ms, in which nobody is
    served, and while events come in fast that is done every few seconds. Before the engine opens:
    what that holds may become garbage.
    """
    for name in ("doors.admission", "faces.http", "faces.console.console"):
        import_module(f"pilothouse.{name}")
    gc.freeze()


@contextmanager
def _signals(stopping: asyncio.Event) -> Generator[None]:
    loop = asyncio.get_running_loop()
    for each in ENDING_SIGNALS:
        loop.add_signal_handler(each, stopping.set)
    try:
        yield
    finally:
        for each in ENDING_SIGNALS:
            loop.remove_signal_handler(each)


@contextmanager
def _held_lock(folder: Path) -> Generator[None]:
    """We are the one server while the context lasts."""
    lock = runtime.Lock(folder / runtime.LOCK_NAME)
    if not lock.acquire():
        raise runtime.AlreadyServed(_running_already(runtime.find(folder)))
    try:
        # A leftover of a server that was killed.
        runtime.forget(folder)
        yield
    finally:
        runtime.forget(folder)
        lock.release()


def _running_already(running: runtime.Running | None) -> str:
    if running is None:
        return "a server is just starting or ending; try again in a moment"
    where = f"at {running.address} (pid {running.pid})"
    return f"a server is running already {where}; use it, or end it: pilothouse stop"


class _Host:
    """Serves one engine on one socket."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        token: str,
        listener: socket,
        tell: Tell,
        *,
        is_watched: bool,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._token = token
        self._listener = listener
        self._tell = tell
        self._is_watched = is_watched
        self._address = address_of(listener, tls=settings.tls_cert is not None)

    @property
    def dial(self) -> str:
        """Where a CLI of this machine reaches the doors."""
        return self._address.replace("http", "ws", 1)

    async def serve(
        self,
        engine: SessionEngine,
        doors: Doors,
        stopping: asyncio.Event,
        idle_exit_s: float | None,
    ) -> PilothouseError | None:
        """Returns once every connection is closed, with why it could not go on, if so."""
        from pilothouse.faces.http import end_streams  # costs most of the start, as its app does

        mcp = McpOverHttp(engine, self._settings)
        attendance = Attendance()
        console = self._console()
        app = self._app(engine, mcp, doors, attendance, console)
        failed: PilothouseError | None = None

        def started() -> None:
            nonlocal failed
            try:
                self._publish()
                self._greet(console)
            except ServerError as error:
                # What was opened is closed in order first.
                failed = error
                stopping.set()

        server = _server(self._settings, app, started)

        async def end() -> None:
            await stopping.wait()
            log.info("ending")
            end_streams(app)
            mcp.end()
            server.should_exit = True

        async def end_when_broken() -> None:
            # A server that can keep nothing can do nothing; whoever started it starts it again.
            nonlocal failed
            await engine.journal.broken()
            failed = JournalError(str(engine.journal.failed))
            stopping.set()

        async def end_when_idle(seconds: float) -> None:
            await wait_unneeded(seconds, engine, attendance)
            log.info("nobody has needed the server", extra={"seconds": seconds})
            stopping.set()

        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(end()), tasks.create_task(end_when_broken())]
            if self._is_watched:
                watching.append(tasks.create_task(tell_questions(engine, self._tell)))
            if idle_exit_s:
                watching.append(tasks.create_task(end_when_idle(idle_exit_s)))
            tasks.create_task(mcp.run())
            await server.serve(sockets=[self._listener])
            mcp.end()
            for each in watching:
                each.cancel()
        runtime.forget(self._folder)
        await console.aclose()
        return failed

    def _console(self) -> Console:
        from pilothouse.faces.console.browsers import FILE_NAME, Browsers
        from pilothouse.faces.console.console import Console
        from pilothouse.faces.console.page_files import PageFiles

        browsers = Browsers(self._settings.state_dir / FILE_NAME)
        return Console(browsers, PageFiles(), version=__version__)

    def _app(
        self,
        engine: SessionEngine,
        mcp: McpOverHttp,
        doors: Doors,
        guests: Attendance,
        console: Console,
    ) -> Application:
        from pilothouse.faces.http import create_app, make_tracer

        return create_app(
            engine,
            token=self._token,
            hosts=hosts_of(self._settings),
            origins=self._settings.origins,
            body_limit=self._settings.body_limit,
            version=__version__,
            tracer=make_tracer(self._settings.otel_endpoint, version=__version__),
            mounts={MCP_PATH: mcp},
            doors=doors,
            guests=guests,
            console=console,
        )

    def _publish(self) -> None:
        """Called when requests are being taken, and not before."""
        now = int(time.time() * 1000)
        running = runtime.Running(
            address=self._address,
            token=self._token,
            pid=os.getpid(),
            version=__version__,
            started_at=now,
        )
        runtime.publish(self._folder, running)
        log.info("serving", extra={"address": self._address, "pid": running.pid})

    def _greet(self, console: Console) -> None:
        """Say where it serves. A link opens everything: it is for a person, not for a log."""
        self._tell(f"serving at {self._address}")
        self._tell(f"try: {_first_request(self._settings, self._address)}")
        if console.lack:
            self._tell(console.lack)
        elif self._is_watched:
            self._tell(f"open the console: {console.make_link(self._address).url}")


def _first_request(settings: Settings, address: str) -> str:
    token = shlex.quote(str(settings.state_dir / runtime.TOKEN_NAME))
    trust = f"--cacert {shlex.quote(str(settings.tls_cert))} " if settings.tls_cert else ""
    return f'curl {trust}-H "Authorization: Bearer $(cat {token})" {address}/api/sessions'


def _server(settings: Settings, app: Application, started: Callable[[], None]) -> uvicorn.Server:
    return make_server(
        app,
        started,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
