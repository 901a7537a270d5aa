"""Paths that fit what somebody has typed: of directories to work in, and of files to mention.

A tree may be endless, so both look no further than a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pilothouse.errors import DirectoryRefused

from .adoption import Adoption
from .launch_options import check_path, permitted_directory
from .services import Services

__all__ = ["PathCompletion"]

MOST_PATHS: Final = 50
MOST_SEEN: Final = 20_000
"""How many names are looked at for one answer."""
PASSED_OVER: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""Folders that hold nothing that a person has written."""


class PathCompletion:
    """Completes paths on the engine's own machine."""

    def __init__(self, services: Services, adoption: Adoption) -> None:
        self._services = services
        self._adoption = adoption

    async def directories(self, path: str) -> list[str]:
        """The directories whose path begins like this, where sessions may work or on the way to
        such."""
        return await self._services.slow_disk.run(_directories, path, self._roots)

    async def files(self, session_id: str, query: str) -> list[str]:
        """The files below a session's directory that fit, best first. Of another machine's files
        nothing is known here."""
        view = (await self._adoption.known(session_id)).view
        if view.machine or view.options.machine or not view.cwd:
            return []
        # A folder of the engine's own is where it is whatever callers may use.
        place, roots = (view.scratch, ()) if view.scratch else (view.cwd, self._roots)
        try:
            return await self._services.slow_disk.run(_files, place, roots, query)
        except DirectoryRefused:
            return []

    @property
    def _roots(self) -> tuple[Path, ...]:
        return tuple(self._services.settings.allowed_roots)


def _directories(typed: str, roots: tuple[Path, ...]) -> list[str]:
    path = os.path.expanduser(typed)  # noqa: PTH111 - a Path has no slash at its end
    if not path.startswith("/"):
        return []
    folder, _, begin = path.rpartition("/")
    named = [
        each
        for each in _entries(folder or "/")
        if each.name.casefold().startswith(begin.casefold())
        and (begin.startswith(".") or not each.name.startswith("."))
    ]
    named.sort(key=lambda each: each.path.casefold())
    fitting = (
        each.path
        for each in named
        if _is_folder(each, follows_links=True) and _leads_to(Path(each.path), roots)
    )
    return list(islice(fitting, MOST_PATHS))


def _leads_to(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether a session may work there, or somewhere below."""
    try:
        permitted_directory(str(path), roots)
    except DirectoryRefused:
        return any(root.resolve().is_relative_to(path) for root in roots)
    return True


def _files(top: str, roots: tuple[Path, ...], query: str) -> list[str]:
    wanted = query.casefold()
    ranked = [
        (rank, path.count("/"), len(path), path)
        for path in islice(_below(permitted_directory(top, roots)), MOST_SEEN)
        if (rank := _rank(path.casefold(), wanted)) is not None
    ]
    return [path for *_, path in sorted(ranked)[:MOST_PATHS]]


def _rank(path: str, wanted: str) -> int | None:
    """How well a path fits, 0 being best; None: not at all."""
    name = path.rpartition("/")[2]
    if path.startswith(wanted) or name.startswith(wanted):
        return 0
    if wanted in name:
        return 1
    if wanted in path:
        return 2
    letters = iter(path)
    return 3 if all(letter in letters for letter in wanted) else None


def _below(top: str) -> Iterator[str]:
    """Files and folders, those near the top first; links are not followed."""
    folders = [""]
    for folder in folders:
        for each in _entries(os.path.join(top, folder)):  # noqa: PTH118 - faster than a Path
            path = f"{folder}{each.name}"
            if not _is_folder(each, follows_links=False):
                yield path
            elif each.name not in PASSED_OVER:
                yield f"{path}/"
                folders.append(f"{path}/")


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder, as far as it can be read and named."""
    try:
        with os.scandir(folder) as found:
            yield from (each for each in islice(found, MOST_SEEN) if _can_be_named(each.name))
    except OSError:
        return


def _can_be_named(name: str) -> bool:
    try:
        check_path(name)
    except DirectoryRefused:
        return False
    return True


def _is_folder(entry: os.DirEntry[str], *, follows_links: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follows_links)
    except OSError:
        return False
