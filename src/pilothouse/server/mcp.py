"""The ways in for MCP clients: `pilothouse mcp` over stdin and stdout, and `/mcp` of the server.

To import `mcp` takes most of a second. So it is done when stdin and stdout are in safe hands; in
the server only once somebody asks, in a thread.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from .logs import Redaction, set_up

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine
    from pilothouse.faces.mcp.client_settings import ClientSettings
    from pilothouse.faces.mcp.engine_handle import EngineHandle
    from pilothouse.faces.mcp.http import OverHttp

__all__ = ["Lent", "McpOverHttp", "run_stdio"]

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

log = logging.getLogger("pilothouse.server")


# Over stdin and stdout


def run_stdio(
    settings: Settings,
    *,
    env: Mapping[str, str],
    standalone: bool = False,
    permission_check: bool = False,
) -> None:
    """Be an MCP server on this process's stdin and stdout, until the client goes away."""
    for each in ENDING_SIGNALS:
        # Nothing is open yet, and the imports take a while.
        signal.signal(each, _leave)
    with held_pipes() as pipes:
        set_up(settings.log_level, Redaction(env=env))
        logging.getLogger("mcp").setLevel(logging.WARNING)
        _import_stdio()
        serving = serve_stdio(
            settings, pipes, env=env, standalone=standalone, permission_check=permission_check
        )
        asyncio.run(serving)


def _import_stdio() -> None:
    # What is imported stays. To look through it for garbage again and again takes longer than all
    # imports of our own.
    gc.disable()
    _import_face("stdio")
    gc.freeze()
    gc.enable()


def _import_face(way_in: str) -> Any:
    """Import the face and the way in that this is for; return the latter."""
    import_module("pilothouse.faces.mcp.sdk").defer_wire_models()
    import_module("pilothouse.faces.mcp.server")
    return import_module(f"pilothouse.faces.mcp.{way_in}")


def _leave(*_: object) -> None:
    os._exit(0)


class Pipes(NamedTuple):
    """Where the client's messages come from, and where they go."""

    reading: int
    writing: int


@contextmanager
def held_pipes() -> Generator[Pipes]:
    """Stdin and stdout for the messages alone.

    Whatever else reads stdin finds its end, and whatever is printed goes to stderr: a child's
    output and a library's warning would be no JSON-RPC.
    """
    try:
        held = Pipes(_copied(0), _copied(1))
    except OSError as error:
        raise ServerError("an MCP client has to give both stdin and stdout") from error
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(2 if _is_open(2) else nothing.fileno(), 1)
    try:
        with redirect_stdout(sys.stderr):
            yield held
    finally:
        if sys.stdout is not None:
            # What somebody printed who knew it before.
            sys.stdout.flush()
        for own, standard in zip(held, (0, 1), strict=True):
            os.dup2(own, standard)
            os.close(own)


def _copied(descriptor: int) -> int:
    # Not among the first three: one that nobody gave us would become a second stderr, say.
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def serve_stdio(
    settings: Settings,
    pipes: Pipes,
    *,
    env: Mapping[str, str],
    standalone: bool = False,
    permission_check: bool = False,
) -> None:
    """Serve the one client of this process until it goes away, or until a signal comes.

    Sessions of the server go on; those of an engine of this process's own are closed in order.
    """
    from pilothouse.faces.mcp.engine_handle import EngineHandle
    from pilothouse.faces.mcp.stdio import serve

    from .background import connect

    handle = EngineHandle(lambda: connect(settings, standalone=standalone, env=env))
    server = _server(
        handle,
        settings,
        _here(),
        permission_check_only=permission_check,
        client=_client_settings(settings),
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve(server, *pipes, longest=settings.body_limit))
            for each in ENDING_SIGNALS:
                asyncio.get_running_loop().add_signal_handler(each, serving.cancel)
    finally:
        await handle.aclose()


def _here() -> str | None:
    try:
        here = str(Path.cwd())
        here.encode()
    except (FileNotFoundError, UnicodeEncodeError):
        # It was taken away under us, or no message could name it.
        return None
    return here


HEEDED: Final = frozenset(
    {
        *("log_level", "log_format", "body_limit", "state_dir", "runtime_dir", "tls_cert"),
        *("permission_timeout_ms", "mcp_answers", "mcp_model", "mcp_mode"),
        *("mcp_allowed_tools", "mcp_disallowed_tools"),
    }
)
"""Settings that act in this process, or with every session that its client starts."""


def _client_settings(settings: Settings) -> ClientSettings:
    """What the client's configuration says: it has started this process with its variables."""
    from pilothouse.faces.mcp.client_settings import ClientSettings, Variable
    from pilothouse.settings.table import ROWS

    is_set = settings.sources["permission_timeout_ms"] != "default"
    return ClientSettings(
        model=settings.mcp_model,
        mode=settings.mcp_mode,
        allowed_tools=settings.mcp_allowed_tools,
        disallowed_tools=settings.mcp_disallowed_tools,
        permission_timeout_ms=settings.permission_timeout_ms if is_set else None,
        of_the_server={
            name: Variable(source, value)
            for name, value, source in settings.describe()
            if source == ROWS[name].variable and name not in HEEDED
        },
    )


def _server(
    handle: EngineHandle,
    settings: Settings,
    cwd: str | None,
    *,
    permission_check_only: bool = False,
    client: ClientSettings | None = None,
) -> Any:
    from pilothouse.faces.mcp.server import create_server
    from pilothouse.faces.mcp.tool_handlers import ToolHandlers

    return create_server(
        ToolHandlers(handle, answers=settings.mcp_answers, client=client),
        handle,
        permission_check_only=permission_check_only,
        default_cwd=cwd,
    )


# Over HTTP


class McpOverHttp:
    """An ASGI application that becomes one at its first request; `run` owns what it opens."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._wanted = asyncio.Event()
        self._ending = asyncio.Event()
        self._app: asyncio.Future[OverHttp] = asyncio.get_running_loop().create_future()
        self._refusal = "the server is ending"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._wanted.set()
        if self._ending.is_set():
            raise ServerError(self._refusal)
        app = await asyncio.shield(self._app)
        await app(scope, receive, send)

    def end(self) -> None:
        """End every open request and every client's session; `run` returns then."""
        self._ending.set()
        self._wanted.set()

    async def run(self) -> None:
        """Stand by until `end`."""
        try:
            await self._wanted.wait()
            if not self._ending.is_set():
                await self._open()
        except Exception:
            # The boundary: without this face the server serves on.
            log.exception("the MCP face has failed")
            self._refusal = "the MCP face has failed; the server's log says why"
        finally:
            self._refuse()

    async def _open(self) -> None:
        module = await asyncio.to_thread(_import_http)
        from pilothouse.faces.mcp.engine_handle import EngineHandle

        handle = EngineHandle(self._lend)
        server = _server(handle, self._settings, None)
        async with module.open_app(server, body_limit=self._settings.body_limit) as app:
            self._app.set_result(app)
            await self._ending.wait()
        await handle.aclose()

    async def _lend(self) -> Engine:
        return cast("Engine", Lent(self._engine))

    def _refuse(self) -> None:
        self._ending.set()
        if not self._app.done():
            self._app.set_exception(ServerError(self._refusal))
        # Nobody may have asked.
        self._app.exception()


def _import_http() -> Any:
    """In a thread: a server with sessions cannot stand still for as long as this takes."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    return _import_face("http")


class Lent:
    """An engine that does not end with a face of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def aclose(self) -> None:
        return
