"""Judges programs that write files, and redirections."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from .findings import CommandFinding, find_command_rule
from .paths import expand, find_rule, is_inside, is_sensitive, listed, sensitive_message

if TYPE_CHECKING:
    from .shell import Part
    from .state import PermissionState

__all__ = ["check_write", "check_writer"]

_ODD_PATHS = (
    (r"~[^/].*", "Tilde expansion variants (~user, ~+, ~-) in paths require manual approval"),
    (r".*[$%].*", "Shell expansion syntax in paths requires manual approval"),
    (
        r".*[*?\[\]].*",
        "Glob patterns are not allowed in write operations. Please specify an exact file path.",
    ),
)


def check_writer(
    name: str, words: list[str], paths: list[str], part: Part, state: PermissionState
) -> CommandFinding | None:
    """Whether a program may write these paths: None, or what stands against it."""
    danger = _dangerous(name, paths, state) or _flagged(name, words, part, state)
    if danger is not None:
        return danger
    found = [_check_target(written, name, part, state) for written in paths]
    denied = next((one for one in found if one and one.behavior == "deny"), None)
    if denied is not None:
        return denied
    outside = next(
        (one for one in found if one and not is_inside(one.blocked_path or "", state)), None
    )
    inside = next((one for one in found if one), None)
    harmless = outside is None and inside is not None and inside.reason is None
    if harmless and find_command_rule(part, "allow", state) is not None:
        return None
    return outside or inside


def _check_target(
    written: str, name: str, part: Part, state: PermissionState
) -> CommandFinding | None:
    for pattern, reason in _ODD_PATHS:
        if re.fullmatch(pattern, written):
            return CommandFinding(
                behavior="ask",
                message=reason,
                reason=reason,
                reason_type="other",
                blocked_path=written,
                folder=posixpath.dirname(expand(f"./{written}", state)),
                writes=True,
                text=part.text,
            )
    return check_write(expand(written, state), f"{name} in", part.text, state)


def check_write(path: str, what: str, text: str, state: PermissionState) -> CommandFinding | None:
    """Whether a shell command may write this path: None, or what stands against it."""
    denied = find_rule(path, "write", "deny", state)
    if denied is not None:
        return CommandFinding(behavior="deny", rule=denied, reason_type="subcommandResults")
    folder = path if path.endswith("/") else posixpath.dirname(path)
    if is_sensitive(path):
        message = sensitive_message(path)
        return CommandFinding(
            behavior="ask",
            message=message,
            reason=message,
            reason_type="safetyCheck",
            blocked_path=path,
            folder=folder,
            writes=True,
            text=text,
        )
    if find_rule(path, "write", "allow", state) is not None:
        return None
    inside = is_inside(path, state)
    if inside and state.mode == "acceptEdits":
        return None
    why = (
        f"inside the working directories for this session ({listed(state)}), and Claude Code asks "
        "before a shell command creates, changes or removes files there."
        if inside
        else f"outside the working directories for this session ({listed(state)}). "
        "Allowing runs the command as written."
    )
    return CommandFinding(
        behavior="ask",
        message=f"{what} '{path}' needs approval. The path is {why}",
        blocked_path=path,
        folder=folder,
        writes=True,
        text=text,
    )


_SED = CommandFinding(
    behavior="ask",
    message="sed command contains operations that require explicit approval "
    "(e.g., write commands, execute commands)",
    reason="sed command contains operations that require explicit approval "
    "(e.g., write commands, execute commands)",
    reason_type="other",
    cautious=True,
    writes=True,
)


def _dangerous(name: str, paths: list[str], state: PermissionState) -> CommandFinding | None:
    if name not in ("rm", "rmdir"):
        return None
    for written in paths:
        path = expand(written, state)
        bare = path.removesuffix("/*") or "/"
        if bare in ("/", state.home) or (bare.count("/") == 1 and bare != "/tmp"):
            return _danger(name, path, "critical path", "a critical system directory")
        if any(
            folder == bare or folder.startswith(f"{bare}/") for folder in state.working_directories
        ):
            folders = (
                "a workspace directory (the working directory, an additional working directory, "
                "or one of their parent directories)"
            )
            return _danger(name, path, "working directory or its ancestor", folders)
    return None


def _danger(name: str, path: str, place: str, what: str) -> CommandFinding:
    return CommandFinding(
        behavior="ask",
        message=f"Dangerous {name} operation detected: '{path}'\n\n"
        f"This command would remove {what}. This requires explicit approval "
        "and cannot be auto-allowed by permission rules.",
        reason=f"Dangerous {name} operation on {place}: {path}",
        reason_type="safetyCheck",
        cautious=True,
    )


def _flagged(
    name: str, words: list[str], part: Part, state: PermissionState
) -> CommandFinding | None:
    flags = [word for word in words[1:] if word.startswith("-")]
    if name == "sed" and state.mode == "acceptEdits" and not set(flags) <= {"-i", "-n", "-E", "-r"}:
        return _SED
    if name not in ("cp", "mv") or not flags:
        return None
    return CommandFinding(
        behavior="ask",
        message=f"{name} with flags requires manual approval to ensure path safety. For security, "
        f"Claude Code cannot automatically validate {name} commands that use flags, as some flags "
        "like --target-directory=PATH can bypass path validation.",
        reason=f"{name} command with flags requires manual approval",
        reason_type="other",
        writes=True,
        text=part.text,
    )
