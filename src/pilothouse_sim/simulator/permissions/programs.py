"""Judges one simple command of a shell script."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .findings import ALLOWED, WRAPPING, CommandFinding, find_command_rule, is_plain, unwrapped
from .paths import expand, find_rule, is_inside, listed
from .tables import (
    PATHLESS,
    PATTERN_FIRST,
    READERS,
    SAFE_VARIABLES,
    SUBCOMMANDS,
    VERBS,
    WRAPPERS,
    WRITERS,
)
from .writers import check_writer

if TYPE_CHECKING:
    from .shell import Part
    from .state import PermissionState

__all__ = ["judge_part", "suggest_rule"]

APPROVAL = "This command requires approval"
_WORD = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FIND_ACTIONS = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-fprintf")
_GIT_BARE = {"branch": ("-a", "-v", "-vv", "--list"), "tag": ("-l", "--list"), "remote": ("-v",)}
_GIT_PAIRS = {("stash", "list"), ("worktree", "list"), ("config", "--get"), ("remote", "show")}


def judge_part(part: Part, state: PermissionState) -> CommandFinding:
    """Whether this command may run by itself; redirections are judged elsewhere."""
    words = unwrapped(part.words, WRAPPING)
    blocked = _check_paths(words, part, state)
    if blocked is not None:
        return blocked
    rule = find_command_rule(part, "allow", state)
    if rule is not None or (not part.words and len(part.environment) == 1):
        return ALLOWED
    if _may_edit(part, state) or (
        is_plain(part) and _only_reads(unwrapped(part.words, ("timeout", "command")))
    ):
        return ALLOWED
    return CommandFinding(
        behavior="ask", message=APPROVAL, reason=APPROVAL, reason_type="other", text=part.text
    )


def suggest_rule(text: str) -> str:
    """The rule that would let a command run the next time: its first two words, or all of it."""
    head, heredoc, _ = text.partition("<<")
    words = (head if heredoc else text).split()
    while words and "=" in words[0]:
        if words[0].partition("=")[0] not in SAFE_VARIABLES:
            return text
        words.pop(0)
    if heredoc and len(words) > 2:
        return f"{words[0]} {words[1]} *"
    if len(words) > 1 and _WORD.fullmatch(words[1]) and words[0] not in WRAPPERS:
        return f"{words[0]} {words[1]} *"
    return head.strip() if heredoc else text


def _only_reads(words: list[str]) -> bool:
    if not words or words[0] not in READERS:
        return not words
    name, arguments = words[0], words[1:]
    if name == "xargs":
        return next((word for word in arguments if word[0] != "-"), "") in ("grep", "head", "wc")
    if name == "git":
        return _git_reads(arguments)
    if name in SUBCOMMANDS:
        return bool(arguments) and arguments[0] in SUBCOMMANDS[name]
    if name == "sed":
        return _sed_reads(arguments)
    if name == "sort":
        return not any(argument.startswith(("-o", "--output")) for argument in arguments)
    if name == "uniq":
        return all(argument.startswith("-") for argument in arguments)
    return name != "hostname" or not arguments


def _git_reads(arguments: list[str]) -> bool:
    if not arguments:
        return False
    verb, rest = arguments[0], arguments[1:]
    if verb in SUBCOMMANDS["git"]:
        return not any(argument.startswith("--output") for argument in rest)
    if verb in _GIT_BARE and all(argument in _GIT_BARE[verb] for argument in rest):
        return True
    return bool(rest) and (verb, rest[0]) in _GIT_PAIRS


def _sed_reads(arguments: list[str]) -> bool:
    scripts = [argument for argument in arguments if not argument.startswith("-")]
    return "-n" in arguments and bool(scripts) and bool(re.fullmatch(r"[\d,$;p]+", scripts[0]))


def _may_edit(part: Part, state: PermissionState) -> bool:
    """In acceptEdits the file commands run unasked, when their paths have passed."""
    if state.mode != "acceptEdits" or part.environment:
        return False
    flags = [word for word in part.words[1:] if word.startswith("-")]
    if part.name == "tee" or part.name not in WRITERS:
        return False
    return part.name != "touch" or not flags


def _check_paths(words: list[str], part: Part, state: PermissionState) -> CommandFinding | None:
    name = words[0] if words else ""
    plain = [word for word in words[1:] if not word.startswith("-")]
    if "--" in words:
        plain = words[words.index("--") + 1 :]
    if name in WRITERS and not (name == "sed" and _sed_reads(words[1:])):
        return check_writer(name, words, plain[1:] if name == "sed" else plain, part, state)
    if name in READERS and name not in PATHLESS:
        paths = plain[1:] if name in PATTERN_FIRST else plain
        if name == "cd" and not plain:
            paths = ["~"] if len(words) == 1 else []
        if name == "find":
            paths = [word for word in plain[:1] if words[1] == word]
        return _check_reader(name, words, paths, part, state)
    return None


def _check_reader(
    name: str, words: list[str], paths: list[str], part: Part, state: PermissionState
) -> CommandFinding | None:
    action = (
        next((word for word in words if word in _FIND_ACTIONS), None) if name == "find" else None
    )
    if action is not None:
        reason = (
            f"find with '{action}' executes commands or modifies files — "
            "cannot be auto-allowed by a Bash(find:*) prefix rule"
        )
        return CommandFinding(
            behavior="ask", message=reason, reason=reason, reason_type="other", cautious=True
        )
    whole = [expand(written, state) for written in paths]
    denied = (find_rule(path, "read", "deny", state) for path in whole)
    rule = next((rule for rule in denied if rule is not None), None)
    if rule is not None:
        return CommandFinding(behavior="deny", rule=rule, reason_type="subcommandResults")
    blocked = [
        _blocked_reader(name, path, part, state)
        for path in whole
        if not is_inside(path, state) and find_rule(path, "read", "allow", state) is None
    ]
    folders = {finding.folder for finding in blocked}
    # Nothing is suggested for several folders at once.
    return replace(blocked[0], folder=None) if len(folders) > 1 else next(iter(blocked), None)


def _blocked_reader(name: str, path: str, part: Part, state: PermissionState) -> CommandFinding:
    verb = VERBS.get(name, "read files from")
    whole = name in ("cd", "find", "ls") or posixpath.basename(path) == ""
    return CommandFinding(
        behavior="ask",
        message=f"{name} in '{path}' was blocked. For security, Claude Code may only {verb} "
        f"the allowed working directories for this session: {listed(state)}.",
        blocked_path=path,
        folder=path if whole or _has_flag(part, "r") else posixpath.dirname(path),
        text=part.text,
    )


def _has_flag(part: Part, letter: str) -> bool:
    return part.name in ("grep", "rg") and any(
        word.startswith("-") and letter in word for word in part.words[1:]
    )
