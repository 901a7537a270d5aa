"""The program behind `pilothouse runner`."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import ssl
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pilothouse.folders import make_private
from pilothouse.relay import addresses, folders, tokens
from pilothouse.relay.dialler import tls_context
from pilothouse.relay.pace import PACE, Pace

from .control import Gate, gate_of
from .relays import Door
from .runner import Runner, counted
from .workplace import Workplace

__all__ = ["REFUSED", "USAGE_ERROR", "main"]

USAGE_ERROR: Final = 2
REFUSED: Final = 3
"""The exit code when the server refuses us for good: there is no use in starting again."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class CannotRun(Exception):
    """Something on this machine stands in the way."""


def main(arguments: Sequence[str] | None = None, pace: Pace = PACE) -> int:
    """Run until a signal comes (exit code 0) or the server refuses us for good (3)."""
    chosen = _parser().parse_args(arguments)
    try:
        gate = _gate(chosen)
        state = _folder(chosen.state)
        with _held(state / "runner.lock"):
            return asyncio.run(_run(chosen, gate, state, pace))
    except (addresses.BadAddress, tokens.TokenRefused, CannotRun, OSError) as error:
        _say(str(error))
        return USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilothouse runner",
        description="Let a server elsewhere start sessions on this machine. They go on when the "
        "runner ends, and it finds them again.",
        usage="%(prog)s --connect URL --token-file FILE [options]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--connect", metavar="URL", required=True, help="wss://HOST, ws://HOST or unix:PATH")
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument("--token-file", metavar="FILE", help="a file that only you can read")
    token.add_argument("--token-fd", metavar="N", type=int, help="a descriptor to read it from")
    add("--name", metavar="NAME", default="", help="refuse to run under another name than this")
    add("--ca", metavar="FILE", help="the authorities to trust instead of the system's")
    add("--state", metavar="DIR", type=Path, help="where the relays have their folders")
    add(
        "--root",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="sessions work within this folder; may be repeated (none: anywhere)",
    )
    add("--cli", metavar="PATH", help="the Claude Code CLI (else CLAUDE_CODE_PATH, or PATH)")
    add("--drain", action="store_true", help="take no new sessions, only look after those here")
    return parser


def _gate(chosen: argparse.Namespace) -> Gate:
    by_fd = chosen.token_fd is not None
    token = tokens.from_fd(chosen.token_fd) if by_fd else tokens.from_file(chosen.token_file)
    return gate_of(chosen.connect, token, lambda: _tls(chosen.ca))


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return tls_context(ca)
    except OSError as error:
        told = f"no authorities in {ca}: {error.strerror or error}"
        raise CannotRun(f"{told}; name a PEM file with --ca") from error


def _folder(given: Path | None) -> Path:
    folder = (given or folders.state() / "runner").absolute()
    try:
        return make_private(folder)
    except OSError as error:
        told = f"{folder} cannot be used: {error.strerror}"
        raise CannotRun(f"{told}; name another with --state") from None


@contextmanager
def _held(lock: Path) -> Generator[None]:
    """We are the one runner of this folder's relays while the context lasts."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        told = f"a runner has {lock.parent} already"
        raise CannotRun(f"{told}; for another server give this one its own --state") from None
    try:
        yield
    finally:
        os.close(fd)


async def _run(chosen: argparse.Namespace, gate: Gate, state: Path, pace: Pace) -> int:
    if not gate.target.secure and not gate.target.is_local:
        _say("without TLS the token and all that is said can be read on the way: use wss://")
    runner = Runner(
        gate,
        _door(chosen),
        state / "relays",
        Workplace(roots=_roots(chosen.root), given_cli=chosen.cli),
        pace,
        _say,
        name=chosen.name,
        draining=chosen.drain,
    )
    running = asyncio.ensure_future(runner.run())
    _end_on_signals(running)
    try:
        refusal = await running
    except asyncio.CancelledError:
        _say(f"ended; {_left(runner.sessions)}")
        return 0
    _say(f"{refusal}; ended, with {counted(runner.sessions)} left here")
    return REFUSED


def _left(sessions: int) -> str:
    if not sessions:
        return "no session is left here"
    goes = "goes" if sessions == 1 else "go"
    return f"{counted(sessions)} {goes} on here, and the next runner finds them"


def _door(chosen: argparse.Namespace) -> Door:
    """Where relays go, in words that mean the same in whatever folder they work."""
    connect = chosen.connect
    if connect.startswith("unix:"):
        connect = f"unix:{Path(connect.removeprefix('unix:')).absolute()}"
    return Door(connect, str(Path(chosen.ca).absolute()) if chosen.ca else None)


def _roots(given: Sequence[Path]) -> list[Path]:
    roots = [root.expanduser().absolute() for root in given]
    for root in roots:
        if not root.is_dir():
            raise CannotRun(f"the root {root} is no directory")
    return roots


def _end_on_signals(running: asyncio.Future[str]) -> None:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, running.cancel)


def _say(text: str) -> None:
    # Some of it may be the server's words.
    text = "".join(each if each.isprintable() else "?" for each in text)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    with suppress(OSError):
        sys.stderr.write(f"{moment} pilothouse runner: {text}\n")
        sys.stderr.flush()
