"""One list of an engine's sessions and of those that stand on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pilothouse.api.statuses import Listed, Listing
from pilothouse.history import Found, HistoryPage

from .view import View

__all__ = ["merged"]


def merged(
    views: Sequence[View],
    page: HistoryPage | None,
    *,
    cwd: str | None,
    limit: int,
    offset: int,
) -> Listing:
    """The most recent first. A session of ours stands for its transcript, whatever that is called.

    `page` must have as many of the newest on disk as could be among those asked for.
    """
    wanted = None if cwd is None else _resolved(cwd)
    ours = [view.listed() for view in views if wanted is None or view.cwd == wanted]
    known = {view.claude_session_id for view in views} | {view.session_id for view in views}
    found = [] if page is None else [each for each in page.found if each.session_id not in known]
    every = sorted([*ours, *map(_listed, found)], key=lambda each: -each.updated_at)
    on_disk = 0 if page is None else page.total - (len(page.found) - len(found))
    return Listing(
        sessions=every[offset : offset + limit],
        unreadable=[] if page is None else list(page.unreadable),
        total=len(ours) + on_disk,
    )


def _resolved(path: str) -> str:
    """The path without links. One that no file system can have is nobody's, and stays as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _listed(found: Found) -> Listed:
    return Listed(
        session_id=found.session_id,
        cwd=found.cwd,
        title=found.title,
        updated_at=found.updated_at,
        interactive=found.interactive,
        source="transcript",
    )
