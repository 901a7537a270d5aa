"""The application under test: called in this process, or served on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from pilothouse.api.engine import Engine
from pilothouse.doors.http_server import make_server
from pilothouse.faces.console.browsers import Browsers
from pilothouse.faces.console.console import Console
from pilothouse.faces.console.page_files import PageFiles
from pilothouse.faces.http import Application, create_app, end_streams

TOKEN = "t0ken-of-the-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LIMIT = 64 * 1024
NOT_BUILT = Path(__file__).parent / "no-dist"
"""Where no console is, whatever was built in this tree."""


def make_console(file: Path | None = None, folder: Path = NOT_BUILT) -> Console:
    """`file`: who is signed in; `folder`: the page as it was built."""
    return Console(Browsers(file), PageFiles(folder), version="1.2.3")


def make_app(engine: Engine, **more: Any) -> Application:
    return create_app(
        engine,
        token=TOKEN,
        hosts=["localhost", "127.0.0.1", "[::1]"],
        **{"body_limit": LIMIT, "version": "1.2.3", "console": make_console(), **more},
    )


def calling(app: Application, **more: Any) -> httpx.AsyncClient:
    """A client that calls the application in this process."""
    application: Any = app
    transport = httpx.ASGITransport(
        application, raise_app_exceptions=False, client=("127.0.0.1", 1)
    )
    given = {"base_url": "http://localhost", "headers": BEARER, **more}
    return httpx.AsyncClient(transport=transport, **given)


@asynccontextmanager
async def served(app: Application, *, port: int = 0) -> AsyncGenerator[str]:
    """The address of the application, on a port that was free."""
    ready = asyncio.Event()
    server = make_server(app, ready.set, lifespan="on", timeout_graceful_shutdown=5)
    with socket.create_server(("127.0.0.1", port)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        try:
            await asyncio.wait_for(ready.wait(), 10)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            end_streams(app)
            server.should_exit = True
            await asyncio.wait_for(serving, 20)
