"""A session on disk, as lists show it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct, field

from .header import Header
from .index import Seen
from .prompts import Prompts

__all__ = ["FoundSession", "HistoryPage", "found_at", "in_order", "started_in"]


class FoundSession(Struct, frozen=True, kw_only=True, gc=False):
    """A session on disk."""

    session_id: str
    path: str
    cwd: str | None
    """Where it was started."""
    title: str
    """Its name, else what was last or first said in it; empty if nothing was."""
    first_prompt: str
    created_at: int
    updated_at: int
    size: int
    interactive: bool
    """A person sat at it, in a terminal or an editor."""
    branch: str | None = None
    version: str | None = None
    model: str | None = None
    last_line: str = ""
    """Of what the model wrote."""


class HistoryPage(Struct, frozen=True, kw_only=True):
    """Some of the sessions, most recent first."""

    found: list[FoundSession]
    total: int
    unreadable: list[str] = field(default_factory=list[str])
    """Files and folders that could not be read, each with the reason."""


def found_at(path: str, seen: Seen, prompts: Prompts) -> FoundSession | None:
    """The session of a transcript; None if it is a sub-agent's, or damaged."""
    header = seen.header
    if header is None or header.is_sidechain:
        return None
    session_id = path[path.rfind("/") + 1 : path.rfind(".")]
    typed = prompts.sessions.get(session_id)
    updated_at = seen.mtime_ns // 1_000_000
    return FoundSession(
        session_id=session_id,
        path=path,
        cwd=header.cwd or (typed.project if typed else None),
        title=header.title or (typed.first if typed else ""),
        first_prompt=header.first_prompt or (typed.first if typed else ""),
        created_at=header.created_at or (typed.since if typed else 0) or updated_at,
        updated_at=updated_at,
        size=seen.size,
        interactive=typed is not None or _is_interactive(header, prompts),
        branch=header.branch,
        version=header.version,
        model=header.model,
        last_line=header.last_line,
    )


def _is_interactive(header: Header, prompts: Prompts) -> bool:
    if header.interactive is not None or not prompts.nameless:
        return bool(header.interactive)
    return (header.cwd or "", header.first_prompt) in prompts.nameless


def in_order(sessions: Iterable[FoundSession]) -> list[FoundSession]:
    """Each session once, most recent first."""
    newest: dict[str, FoundSession] = {}
    for each in sessions:
        known = newest.get(each.session_id)
        if known is None or known.updated_at < each.updated_at:
            newest[each.session_id] = each
    return sorted(newest.values(), key=lambda each: (-each.updated_at, each.session_id))


def started_in(cwd: str, sessions: Iterable[FoundSession]) -> list[FoundSession]:
    """The sessions of exactly this directory, by whatever path it is called."""
    wanted = _resolved(cwd)
    if wanted is None:
        return []
    same: dict[str | None, bool] = {None: False}
    for each in sessions:
        if each.cwd not in same:
            same[each.cwd] = _resolved(each.cwd) == wanted
    return [each for each in sessions if same[each.cwd]]


def _resolved(path: str | None) -> str | None:
    # A transcript may name anything, also what no file system can have.
    try:
        return os.path.realpath(path) if path else None
    except (OSError, ValueError):
        return None
