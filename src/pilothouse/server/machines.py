"""The other machines that run sessions for the server, as its user sees and rules them."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from pilothouse.doors.roster import NAME
from pilothouse.errors import ServerError, UsageError
from pilothouse.settings import Settings

from .listen_address import is_loopback
from .probe import answering, tls_context
from .status import NONE
from .survivors import sessions

if TYPE_CHECKING:
    from pilothouse.api.engine import Engine
    from pilothouse.api.results import Runner

    from .runtime import Running

__all__ = ["Verb", "manage", "remote_engine"]

Verb = Literal["list", "add", "drain", "undrain", "revoke"]

NOBODY: Final = "no other machine runs sessions here; let one in: pilothouse runners add NAME"
HEADINGS: Final = ("NAME", "STATE", "HOST", "VERSION", "CLI", "SESSIONS", "SINCE")


async def manage(
    settings: Settings, verb: Verb, name: str = "", token_file: Path | None = None
) -> list[str]:
    """Do it at the running server; lines for the user."""
    running = answering(settings)
    if running is None:
        raise ServerError(NONE)
    async with remote_engine(running, settings) as engine:
        match verb:
            case "list":
                return _table(await engine.runners())
            case "add":
                return await _add(engine, running, settings, name, token_file)
            case "drain" | "undrain":
                runner = await engine.drain_runner(name, draining=verb == "drain")
                return [_drained(runner, draining=verb == "drain")]
            case "revoke":
                runner = await engine.revoke_runner(name)
                return [_revoked(runner)]


@asynccontextmanager
async def remote_engine(running: Running, settings: Settings) -> AsyncGenerator[Engine]:
    from pilothouse.remote import RemoteEngine  # its HTTP is for this alone

    tls = tls_context(settings.tls_cert) if running.address.startswith("https:") else None
    engine = RemoteEngine(running.address, running.token, tls=tls)
    try:
        yield engine
    finally:
        await engine.aclose()


# Looking at them


def _table(runners: Sequence[Runner]) -> list[str]:
    if not runners:
        return [NOBODY]
    rows = [HEADINGS, *map(_row, runners)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _row(runner: Runner) -> tuple[str, ...]:
    since = datetime.fromtimestamp(runner.since / 1000).astimezone() if runner.since else None
    return (
        runner.name,
        runner.state,
        runner.host or "-",
        runner.version or "-",
        runner.cli_version or "-",
        str(len(runner.sessions)),
        f"{since:%Y-%m-%d %H:%M:%S}" if since else "-",
    )


def _drained(runner: Runner, *, draining: bool) -> str:
    if not draining:
        return f"{runner.name} takes sessions again"
    left = f"; {sessions(len(runner.sessions))} still there" if runner.sessions else ""
    return f"{runner.name} takes no new sessions{left}"


def _revoked(runner: Runner) -> str:
    there = len(runner.sessions)
    ends = f"; its relays are refused too, and end {sessions(there)} there" if there else ""
    return f"{runner.name} is let in no more{ends}"


# Letting one in


async def _add(
    engine: Engine, running: Running, settings: Settings, name: str, given: Path | None
) -> list[str]:
    if not NAME.fullmatch(name):
        told = f"{name!r} is no name for a runner"
        raise UsageError(f"{told}; use a-z, 0-9, '.', '_' and '-', 64 of them at most")
    file = given or Path(f"{name}.token")
    # Before there is a token, which would be lost if it could not be kept.
    with _new_file(file) as descriptor:
        added = await engine.add_runner(name)
        os.write(descriptor, f"{added.token}\n".encode())
    place = _public(running, settings)
    command = f"pilothouse runner --connect {place} --token-file {shlex.quote(file.name)}"
    told = f"{added.name} is let in with the token in {file}; move that file to its machine"
    return [f"{told}, and run there:", f"  {command}", *_doubts(running, settings)]


@contextmanager
def _new_file(path: Path) -> Generator[int]:
    """A descriptor of a file for this user alone, which is gone again if nothing came of it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already; name another with --token-file") from None
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror}"
        raise UsageError(f"{told}; name another with --token-file") from None
    try:
        yield descriptor
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _public(running: Running, settings: Settings) -> str:
    """The address by which other machines reach the server, as far as it can be told from here."""
    where = urlsplit(running.address)
    assert where.hostname is not None
    host = f"[{where.hostname}]" if ":" in where.hostname else where.hostname
    if settings.hosts:
        host = settings.hosts[0]
    elif is_loopback(where.hostname):
        host = socket.gethostname()
    return f"{'wss' if where.scheme == 'https' else 'ws'}://{host}:{where.port}"


def _doubts(running: Running, settings: Settings) -> list[str]:
    """What may keep the machine from coming in, or others from staying out."""
    if is_loopback(urlsplit(running.address).hostname or "") and is_loopback(settings.host):
        told = "the server may listen on this machine alone; to be reached from others"
        return [f"{told}: pilothouse serve --host 0.0.0.0 --tls-cert PEM --tls-key PEM"]
    if running.address.startswith("http:"):
        return ["without TLS everybody on the way can read the token: serve with --tls-cert"]
    return []
