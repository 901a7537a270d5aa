"""The program behind `pilothouse relay`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.folders import make_private

from . import addresses, folders, tokens
from .dialler import tls_context
from .door_session import DoorAccess
from .pace import LAST_WILL, PACE, Pace
from .relay import Assignment, Relay
from .spool import DEFAULT_LIMIT

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

__all__ = ["main"]

USAGE_ERROR = 2


class SetupFailed(Exception):
    """Something on this machine stands in the way."""


def main(
    arguments: Sequence[str] | None = None, pace: Pace = PACE, held: Sequence[int] = ()
) -> int:
    """Run one relay; the exit code is 0 if the door has everything the CLI said.

    The descriptors of `held` are closed when the CLI has ended.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # By hand: argparse has its own mind about a `--` among the CLI's arguments.
    end = words.index("--") if "--" in words else len(words)
    command = words[end + 1 :]
    parser = _parser()
    chosen = parser.parse_args(words[:end])
    if not command:
        parser.error("the CLI is missing: end with -- claude ...")
    try:
        door = _door(chosen)
        assignment = _assignment(chosen, command, held)
    except (addresses.BadAddress, tokens.TokenRefused, SetupFailed, OSError) as error:
        sys.stderr.write(f"pilothouse relay: {error}\n")
        return USAGE_ERROR
    return Relay(assignment, door, pace).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilothouse relay",
        description="Run a CLI here and carry its lines to a server, across its restarts.",
        usage="%(prog)s --connect URL --session ID --run ID [options] -- claude ...",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--connect", metavar="URL", required=True, help="ws://HOST, wss://HOST or unix:PATH")
    add("--session", metavar="ID", required=True, help="the session the CLI works for")
    add("--run", metavar="ID", required=True, help="this one start of it")
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument("--token-fd", metavar="N", type=int, help="a descriptor to read it from")
    token.add_argument("--token-file", metavar="PATH", help="a file that only you can read")
    add("--ca", metavar="FILE", help="the authorities to trust instead of the system's")
    add("--spool", metavar="DIR", type=Path, help="where lines are kept that memory cannot hold")
    add("--spool-limit", metavar="BYTES", type=_size, default=DEFAULT_LIMIT)
    add(
        "--last-will",
        metavar="SECONDS",
        type=_seconds,
        default=LAST_WILL,
        help="end the CLI in order if there was no server for so long (24 h)",
    )
    return parser


def _size(text: str) -> int:
    if (size := int(text)) <= 0:
        raise argparse.ArgumentTypeError("a number above 0 is needed")
    return size


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError("a number above 0 is needed")
    return seconds


def _door(chosen: argparse.Namespace) -> DoorAccess:
    target = addresses.parse(chosen.connect, chosen.session)
    tls = _tls(chosen.ca) if target.secure else None
    by_fd = chosen.token_fd is not None
    token = tokens.from_fd(chosen.token_fd) if by_fd else tokens.from_file(chosen.token_file)
    return DoorAccess(target, token, tls)


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return tls_context(ca)
    except OSError as error:
        told = f"no authorities in {ca}: {error.strerror or error}"
        raise SetupFailed(f"{told}; name a PEM file with --ca") from None


def _assignment(chosen: argparse.Namespace, command: list[str], held: Sequence[int]) -> Assignment:
    return Assignment(
        argv=command,
        env=dict(os.environ),
        cwd=None,
        session_id=chosen.session,
        run=chosen.run,
        folder=_folder(chosen.spool, chosen.run),
        limit=chosen.spool_limit,
        last_will=chosen.last_will,
        held=held,
    )


def _folder(given: Path | None, run: str) -> Path:
    """The spool's folder, closed to everybody else."""
    folder = given or folders.state() / "relays" / run.replace(os.sep, "_")
    try:
        return make_private(folder).absolute()
    except OSError as error:
        told = f"{folder} cannot be used: {error.strerror}"
        raise SetupFailed(f"{told}; name another with --spool") from None
