"""The server a face needs: the running one, or one that is started behind the scenes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from pilothouse.errors import ServerError
from pilothouse.settings import CONFIG_VARIABLE, Settings

from . import runtime
from .logs import LOG_NAME, open_log
from .probe import answering, tls_context
from .runtime import TAKEN

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine

__all__ = ["LOG_NAME", "Address", "connect", "find_or_start"]

STARTS_WITHIN: Final = 60.0
LOOK_AGAIN_AFTER: Final = 0.05
LOG_TAIL: Final = 4096

# Those that end before we do are reaped here.
_started: list[subprocess.Popen[bytes]] = []


class Address(NamedTuple):
    """Where a server is, and the word that opens it."""

    address: str
    token: str


async def find_or_start(
    settings: Settings, *, env: Mapping[str, str] | None = None, within: float = STARTS_WITHIN
) -> Address:
    """The one server of this user; started in the background if there is none."""
    found = await asyncio.to_thread(answering, settings)
    if found is not None:
        return Address(found.address, found.token)
    runtime.own_folders(settings)
    try:
        async with asyncio.timeout(within), _turn(settings):
            return await _started_or_found(settings, os.environ if env is None else env)
    except TimeoutError:
        raise ServerError(_no_answer(settings, within)) from None


def _no_answer(settings: Settings, within: float) -> str:
    running = runtime.find(settings.runtime_dir)
    if running is None:
        return f"no server started within {within:g} s; see {settings.state_dir / LOG_NAME}"
    where = f"at {running.address} (pid {running.pid})"
    return f"the server {where} does not answer; end it: pilothouse stop"


@asynccontextmanager
async def _turn(settings: Settings) -> AsyncGenerator[None]:
    """One face at a time starts a server; the others find it then."""
    lock = runtime.Lock(settings.runtime_dir / runtime.START_LOCK_NAME)
    while not lock.acquire():  # noqa: ASYNC110 - another process has it: there is no event
        await asyncio.sleep(LOOK_AGAIN_AFTER)
    try:
        yield
    finally:
        lock.release()


async def _started_or_found(settings: Settings, env: Mapping[str, str]) -> Address:
    child: _Child | None = None
    try:
        while True:
            found = await asyncio.to_thread(answering, settings)
            if found is not None:
                return Address(found.address, found.token)
            if child is None:
                child = _start(settings, env)
            elif child.has_failed() and not _is_served(settings):
                child.expect_taken()
                child = None
            await asyncio.sleep(LOOK_AGAIN_AFTER)
    except BaseException:
        # Nobody waits for it any more; it would come up behind our back.
        if child is not None:
            child.process.terminate()
        raise


def _is_served(settings: Settings) -> bool:
    """Whether somebody else's server took the place of ours."""
    return runtime.Lock(settings.runtime_dir / runtime.LOCK_NAME).is_held()


class _Child(NamedTuple):
    """A server we started, and where in the log its own lines begin."""

    process: subprocess.Popen[bytes]
    log: Path
    begin: int

    def has_failed(self) -> bool:
        return self.process.poll() is not None

    def expect_taken(self) -> None:
        """Raise, unless it ended only because it found another server."""
        if self.process.returncode != TAKEN:
            raise ServerError(f"the server did not start: {self.last_words()}")

    def last_words(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(self.begin, file.seek(0, os.SEEK_END) - LOG_TAIL))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"it said nothing (exit {self.process.returncode})"


def _start(settings: Settings, env: Mapping[str, str]) -> _Child:
    """A server of its own session, which has nothing of ours but the environment."""
    _started[:] = [each for each in _started if each.poll() is None]
    log = settings.state_dir / LOG_NAME
    with _appended(log) as output:
        begin = output.tell()
        child = subprocess.Popen(
            _command(settings),
            env=_environment(settings, env),
            cwd=settings.state_dir,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _started.append(child)
    return _Child(child, log, begin)


def _appended(log: Path) -> BinaryIO:
    with runtime.usable(log):
        return os.fdopen(open_log(log), "ab")


def _command(settings: Settings) -> list[str]:
    idle = ["--idle-exit", f"{settings.server_idle_s:g}"] if settings.server_idle_s else []
    return [sys.executable, "-P", "-m", "pilothouse", "serve", *idle]


def _environment(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    # It starts in another folder, so a relative path would mean another file there.
    config = env.get(CONFIG_VARIABLE)
    named = {CONFIG_VARIABLE: str(Path(config).absolute())} if config else {}
    return {**env, **settings.environment(), **named}


async def connect(
    settings: Settings, *, standalone: bool = False, env: Mapping[str, str] | None = None
) -> Engine:
    """The engine for a face: the one server's, or one of its own that forgets when it ends."""
    env = os.environ if env is None else env
    if standalone:
        return await _own_engine(settings, env)
    from pilothouse.remote import RemoteEngine  # an engine of one's own needs no HTTP

    found = await find_or_start(settings, env=env)
    tls = tls_context(settings.tls_cert) if found.address.startswith("https:") else None
    return RemoteEngine(found.address, found.token, tls=tls)


async def _own_engine(settings: Settings, env: Mapping[str, str]) -> Engine:
    from .cli_choice import choose
    from .engines import open_engine, open_journal  # a face of a server needs none of it

    runtime.own_folders(settings)
    choice = await asyncio.to_thread(choose, settings, env)
    return await open_engine(choice, await open_journal(None))
