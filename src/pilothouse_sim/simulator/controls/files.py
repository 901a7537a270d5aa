"""Requests about files: suggestions, reading, what a model may take as read, going back, plans."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.controls.base import ControlAsk, Handler, RequestRefused
from pilothouse_sim.simulator.controls.diffs import get_workspace_diff
from pilothouse_sim.simulator.tools.base import SeenFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]

_MOST: Final = 15
"""How many files are suggested."""


# Suggestions


def file_suggestions(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Files whose path has the typed letters in it, in their order."""
    query = asked.get("query")
    return {
        "suggestions": [{"path": path} for path in _suggest(session, query)],
        "cwd": str(session.state.cwd),
    }


def _suggest(session: SimulatedSession, query: object) -> list[str]:
    if not isinstance(query, str):
        return []
    if not query:
        return [_shown(entry) for entry in os.scandir(session.state.cwd)]
    desk = session.state.desk
    indexed, desk.files_indexed = desk.files_indexed, True
    if not indexed:
        # The first question starts the indexing and is answered before it is done.
        return []
    found = [path for path in _walk(session.state.cwd) if _matches(query, path)]
    return sorted(found, key=lambda path: _rank(query, path))[:_MOST]


def _shown(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir() else entry.name


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        inside = Path(folder).relative_to(root)
        yield from (f"{inside / name}/" for name in folders)
        yield from (str(inside / name) for name in names)


def _matches(query: str, path: str) -> bool:
    letters = iter(path if query != query.lower() else path.lower())
    return all(letter in letters for letter in query)


def _rank(query: str, path: str) -> tuple[int, int, str]:
    at = path.lower().find(query.lower())
    return (at if at >= 0 else len(path), len(path), path)


# Reading


def read_file(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """A file of the workspace."""
    named = asked.get("path")
    path = _readable(session, named) if isinstance(named, str) and named else None
    if path is None:
        raise RequestRefused(f"read denied: {named or ''}")
    limit = asked.get("max_bytes")
    data = path.read_bytes()
    kept = data[:limit] if isinstance(limit, int) and limit > 0 else data
    body: dict[str, Any] = {"contents": "", "absPath": str(path)}
    if len(kept) < len(data):
        body["truncated"] = True
    return body | _contents(kept, asked.get("encoding")) | {"requested_path": named}


def _readable(session: SimulatedSession, named: str) -> Path | None:
    path = (session.state.cwd / named).resolve()
    roots = [Path(folder).resolve() for folder in session.state.permissions.working_directories]
    inside = any(path.is_relative_to(root) for root in roots)
    return path if inside and path.is_file() else None


def _contents(data: bytes, encoding: object) -> dict[str, Any]:
    if encoding == "base64":
        # Rarely asked for.
        from base64 import b64encode

        return {"contents": b64encode(data).decode(), "encoding": "base64"}
    text = data.decode(errors="replace")
    return {"contents": text, "lossy": text.encode() != data}


def seed_read_state(session: SimulatedSession, asked: ControlAsk) -> None:
    """Let the model take a file as read, if it has not changed since."""
    named, mtime = asked.get("path"), asked.get("mtime")
    if not isinstance(named, str) or not isinstance(mtime, int | float):
        return
    path = session.state.cwd / named
    if path.is_file() and path.stat().st_mtime_ns // 1_000_000 <= mtime:
        text = path.read_text(errors="replace")
        session.state.place.seen[path] = SeenFile(text, path.stat().st_mtime_ns, True)


# Going back


def rewind_files(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Put files back to where they were at a prompt."""
    dry_run = asked.get("dry_run") is True
    body = session.checkpoints.rewind(str(asked.get("user_message_id")), dry_run=dry_run)
    if "error" in body and not dry_run:
        raise RequestRefused(body["error"])
    return body


# The plan, the workspace


def get_plan(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The session's plan, where it has one."""
    text = session.plans.text()
    if text is None:
        return {"exists": False}
    return {"exists": True, "content": text, "path": str(session.plans.path)}


def register_repo_root(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Add a directory below those the session has."""
    path = _new_root(session, asked.get("directory"))
    session.state.desk.roots.append(str(path))
    update = {"type": "addDirectories", "directories": [str(path)], "destination": "session"}
    session.state.update_permissions(update)
    if asked.get("reload_skills") is True or asked.get("reload_plugins") is True:
        session.state.gather_customs()
    return {"directory": str(path)}


def _new_root(session: SimulatedSession, named: object) -> Path:
    path = session.state.cwd / named if isinstance(named, str) and named else None
    if path is None or not path.exists():
        raise RequestRefused("register_repo_root: target path could not be resolved")
    if not path.is_dir():
        raise RequestRefused(f"register_repo_root: {named} is not a directory")
    path = path.resolve()
    if problem := _unfit(session, path):
        raise RequestRefused(f"register_repo_root: {path} {problem}")
    return path


def _unfit(session: SimulatedSession, path: Path) -> str | None:
    roots = [session.state.cwd, *(Path(folder) for folder in session.state.launch.add_dir)]
    if path == session.state.cwd:
        registered = "is the session's working directory, which is already registered"
        return f"{registered}; pass the cloned repo's own directory instead"
    if not any(path.is_relative_to(root) for root in roots):
        beyond = "is not a subdirectory of the session's working directory"
        return f"{beyond} or of a launch-time --add-dir root"
    if str(path) in session.state.desk.roots:
        return "is already a registered working directory"
    return None


ANSWERS: dict[str, Handler] = {
    "file_suggestions": file_suggestions,
    "read_file": read_file,
    "seed_read_state": seed_read_state,
    "rewind_files": rewind_files,
    "get_plan": get_plan,
    "register_repo_root": register_repo_root,
    "get_workspace_diff": get_workspace_diff,
}
