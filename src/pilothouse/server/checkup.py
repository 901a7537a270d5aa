"""What a server of this user needs besides a CLI: findings for `pilothouse doctor`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pilothouse.client.doctor import Finding
from pilothouse.engine.policy import read_policy
from pilothouse.errors import PolicyError, ServerError
from pilothouse.settings import Settings

from . import runtime, survivors
from .status import report

__all__ = ["examine_server"]

LEAST_ROOM: Final = 500_000_000
"""Bytes below which a journal may fill the disk within the day."""


def examine_server(settings: Settings) -> Iterator[Finding]:
    """Look at what the settings name; in the order in which to mend."""
    yield _policy(settings.policy_file)
    yield _server(settings)
    behind = survivors.count(settings)
    yield Finding("relays", "ok", f"{survivors.sessions(behind)} behind them")
    yield _disk(settings.state_dir)


def _server(settings: Settings) -> Finding:
    try:
        lines, is_running = report(settings)
    except ServerError as error:
        return Finding("server", "problem", str(error))
    told = "; ".join(lines)
    if is_running:
        is_wrong = any(line.startswith("PROBLEM") for line in lines)
        return Finding("server", "problem" if is_wrong else "ok", told)
    # None is no trouble: it is started where it is needed. One that does not answer is.
    if runtime.find(settings.runtime_dir) is None:
        return Finding("server", "ok", told)
    return Finding("server", "problem", told)


def _disk(folder: Path) -> Finding:
    """Whether there is room for what is kept; the folder may not be there yet."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    text = f"{free / 1e9:.1f} GB free for {folder}"
    if not os.access(there, os.W_OK):
        return Finding("disk", "problem", f"{there} cannot be written to", "set state_dir")
    if free < LEAST_ROOM:
        return Finding("disk", "problem", text, "make room: a full disk ends the server")
    return Finding("disk", "ok", text)


def _policy(path: Path) -> Finding:
    if not path.exists():
        return Finding("policy", "ok", "no rules: every question is asked")
    try:
        rules = len(read_policy(path).rules)
    except PolicyError as error:
        advice = "mend it: until then no server starts, and one that runs keeps its last good rules"
        return Finding("policy", "problem", str(error), advice)
    return Finding("policy", "ok", f"{path}: {rules} rule{'' if rules == 1 else 's'}")
