"""What changed in the working directory since its last commit."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse_sim.simulator.controls.base import ControlAsk
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["get_workspace_diff"]

_NO_COMMIT: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The empty tree, which stands for the last commit where there is none."""
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STATUS: Final = {"A": "added", "D": "removed", "M": "modified"}


async def get_workspace_diff(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The changes, file by file, or why they cannot be told."""
    cwd = session.state.cwd
    if await _git(cwd, "rev-parse", "--git-dir") is None:
        return {"diff": None, "noDiffReason": "no-repository"}
    has_commit = await _git(cwd, "rev-parse", "--verify", "HEAD") is not None
    base = "HEAD" if has_commit else _NO_COMMIT
    files = await _tracked(cwd, base)
    hunks = _hunks(await _git(cwd, "diff", "--no-color", "--no-renames", base) or "")
    if not files and has_commit:
        files = await _untracked(cwd)
    return {"diff": _report(files, hunks)}


def _report(files: list[dict[str, Any]], hunks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "stats": {
            "filesCount": len(files),
            "linesAdded": sum(each["added"] for each in files),
            "linesRemoved": sum(each["removed"] for each in files),
        },
        "perFileStats": files,
        "omitted": {"files": 0, "exact": True},
        "hunks": hunks,
        "skippedLarge": [],
        "restricted": [],
        "source": {"kind": "working-tree"},
    }


async def _tracked(cwd: Path, base: str) -> list[dict[str, Any]]:
    counts = (await _git(cwd, "diff", "--no-renames", "--numstat", base) or "").splitlines()
    kinds = (await _git(cwd, "diff", "--no-renames", "--name-status", base) or "").splitlines()
    status = {path: _STATUS.get(kind, "modified") for kind, _, path in map(_cut, kinds)}
    rows = [line.split("\t", 2) for line in counts]
    return [_file(path, added, removed, status[path]) for added, removed, path in rows]


async def _untracked(cwd: Path) -> list[dict[str, Any]]:
    # They are listed only when nothing else changed.
    listed = await _git(cwd, "ls-files", "--others", "--exclude-standard") or ""
    return [_file(path, "0", "0", "added", untracked=True) for path in listed.splitlines()]


def _file(
    path: str, added: str, removed: str, status: str, *, untracked: bool = False
) -> dict[str, Any]:
    is_binary = added == "-"
    return {
        "path": path,
        "added": 0 if is_binary else int(added),
        "removed": 0 if is_binary else int(removed),
        "isBinary": is_binary,
        "isUntracked": untracked,
        "status": status,
    }


def _hunks(diff: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in diff.split("diff --git ")[1:]:
        head, *rest = re.split(r"^(?=@@ )", part, flags=re.MULTILINE)
        path = head.split("\n", 1)[0].rpartition(" b/")[2]
        if rest:
            found.append({"path": path, "hunks": [_hunk(text) for text in rest]})
    return found


def _hunk(text: str) -> dict[str, Any]:
    first, *lines = text.rstrip("\n").split("\n")
    matched = _HUNK.match(first)
    assert matched is not None
    start, count, new_start, new_count = matched.groups()
    return {
        # A side without lines starts at 0 for git and at 1 for the CLI.
        "oldStart": int(start) or 1,
        "oldLines": 1 if count is None else int(count),
        "newStart": int(new_start) or 1,
        "newLines": 1 if new_count is None else int(new_count),
        "lines": lines,
    }


def _cut(line: str) -> tuple[str, str, str]:
    return line.partition("\t")


async def _git(cwd: Path, *arguments: str) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    out, _ = await process.communicate()
    return out.decode(errors="replace") if process.returncode == 0 else None
