"""Starts a relay that outlives us: no child of ours, no session of ours, nothing of ours open.

A process in between forks and ends at once, so the relay has no parent that could wait for it, and
no thread of ours whose end the kernel could tell it about.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pilothouse
from pilothouse.folders import make_private
from pilothouse.transport.base import SpawnFailed

from . import arguments, registry
from .registry import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["start"]

START_DEADLINE: Final = 20.0
SCRIPT: Final = Path(__file__).with_name("detached.py")


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | Path | None,
    *,
    connect: str,
    session_id: str,
    run: str,
    token: str,
    spool: Path,
    last_will: float,
    ca: str | None = None,
    spool_limit: int | None = None,
    hold: Sequence[int] = (),
    files: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Start a relay for this CLI and return its pid; raises `SpawnFailed`.

    Blocks for some hundredths of a second. `spool` is the relay's own folder: it keeps its log and
    its registry file there, and `files` that `argv` names, by their path elsewhere; when it ends
    it removes all but what it could not deliver. What the token is, only the relay reads. The
    descriptors of `hold` stay open in the relay, but not in the CLI, until the CLI has ended.
    """
    options = ["--connect", connect, "--session", session_id, "--run", run]
    options += ["--spool", str(spool.absolute()), "--last-will", repr(last_will)]
    options += ["--ca", ca] if ca else []
    options += ["--spool-limit", str(spool_limit)] if spool_limit else []
    token_fd = _token_pipe(token)
    try:
        make_private(spool)
        command = arguments.place(argv, files, spool.absolute())
        words = [*options, "--token-fd", str(token_fd), "--", *command]
        return _detach(words, env, cwd, spool / LOG_NAME, token_fd, hold)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SpawnFailed("the relay", str(error)) from error
    finally:
        os.close(token_fd)


def _token_pipe(token: str) -> int:
    readable, writable = os.pipe()
    try:
        os.write(writable, token.encode())
    finally:
        os.close(writable)
    return readable


def _detach(
    words: list[str],
    env: Mapping[str, str],
    cwd: str | Path | None,
    log: Path,
    token_fd: int,
    hold: Sequence[int],
) -> int:
    folders = _import_folders()
    held = ",".join(map(str, hold))
    boot = [sys.executable, "-I", str(SCRIPT), held, str(len(folders)), *folders, *words]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as out:
        registry.lock(out.fileno())
        done = subprocess.run(
            boot,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=out,
            pass_fds=[token_fd, *hold],
            start_new_session=True,
            timeout=START_DEADLINE,
            check=True,
        )
    return int(done.stdout)


def _import_folders() -> list[str]:
    """Where `pilothouse` and the packages it needs are found."""
    import websockets

    roots = (Path(each).parent.parent for each in (pilothouse.__file__, websockets.__file__))
    return list(dict.fromkeys(str(root.absolute()) for root in roots))
