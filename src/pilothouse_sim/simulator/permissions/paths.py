"""Paths: what they mean, whether a session works there, whether they are sensitive."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from .rules import CliRule, matches_path
from .tables import names

if TYPE_CHECKING:
    from .state import PermissionState

__all__ = [
    "display",
    "expand",
    "find_rule",
    "is_inside",
    "is_sensitive",
    "listed",
    "sensitive_message",
]

# An Edit rule covers every tool that writes a file, and lets the file be read too.
_COVERED = {
    ("read", "allow"): ("Read", "Edit"),
    ("read", "deny"): ("Read",),
    ("read", "ask"): ("Read",),
    ("write", "allow"): ("Edit",),
    ("write", "deny"): ("Edit",),
    ("write", "ask"): ("Edit",),
}
_SENSITIVE_FOLDERS = frozenset((".git", ".vscode", ".idea", ".claude", ".husky"))
_OWN = ("", "settings.json", "settings.local.json", "commands", "agents", "skills")
_SENSITIVE_FILES = names(
    """
    .bash_profile .bashrc .claude.json .gitconfig .gitmodules .mcp.json .npmrc .profile .ripgreprc
    .zprofile .zshrc
    """
)


def expand(path: str, state: PermissionState) -> str:
    """The absolute path; a trailing slash stays."""
    if path == "~" or path.startswith("~/"):
        path = state.home + path[1:]
    whole = posixpath.normpath(posixpath.join(state.folder or state.cwd, path))
    return f"{whole}/" if path.endswith("/") and whole != "/" else whole


def is_inside(path: str, state: PermissionState) -> bool:
    """Whether a path lies in one of the working directories."""
    return any(
        path.rstrip("/") == folder or path.startswith(f"{folder.rstrip('/')}/")
        for folder in state.working_directories
    )


def listed(state: PermissionState) -> str:
    """The working directories as messages name them."""
    return ", ".join(f"'{folder}'" for folder in state.working_directories)


def is_sensitive(path: str) -> bool:
    """Whether writing here is asked about whatever the rules say."""
    parts = path.split("/")
    return parts[-1] in _SENSITIVE_FILES or not _SENSITIVE_FOLDERS.isdisjoint(parts)


def sensitive_message(path: str) -> str:
    """What is said about a sensitive path; a project's own settings have a sentence apart."""
    _, found, inner = f"{path}/".partition("/.claude/")
    if found and inner.partition("/")[0] in _OWN:
        return f"Claude requested permissions to write to {path}, but you haven't granted it yet."
    return f"Claude requested permissions to edit {path} which is a sensitive file."


def display(path: str, state: PermissionState) -> str:
    """The path as the question's description shows it."""
    for folder, sign in ((state.cwd, ""), (state.home, "~/")):
        if path.startswith(f"{folder}/"):
            return sign + path[len(folder) + 1 :]
    return path


def find_rule(path: str, access: str, behavior: str, state: PermissionState) -> CliRule | None:
    """The first path rule of this behaviour that speaks of reading or writing this path."""
    tools = _COVERED[access, behavior]
    for rule in state.rules[behavior]:
        named = rule.content is not None and rule.tool in tools
        if named and matches_path(rule, path.rstrip("/"), state.places):
            return rule
    return None
