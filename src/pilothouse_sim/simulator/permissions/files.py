"""Judges the tools that read and write files."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .draft import VerdictDraft, add_directories, add_rules, allow, ask_by_rule, requested, set_mode
from .paths import expand, find_rule, is_inside, is_sensitive, sensitive_message

if TYPE_CHECKING:
    from .rules import CliRule
    from .state import PermissionState

__all__ = ["judge_reading", "judge_writing"]

_OUTSIDE = "Path is outside allowed working directories"
_DENIED = "File is in a directory that is denied by your permission settings."
_UNREADABLE = (
    "File is covered by a Read deny rule in your permission settings and cannot be written."
)


def judge_reading(path: str, state: PermissionState) -> VerdictDraft:
    """What the Read tool thinks of a path."""
    path = expand(path, state)
    message = requested(f"read from {path}")
    if (rule := find_rule(path, "read", "deny", state)) is not None:
        return _denied(_DENIED, rule)
    if (rule := find_rule(path, "read", "ask", state)) is not None:
        return ask_by_rule(rule, message)
    edit = find_rule(path, "write", "allow", state)
    inside = is_inside(path, state)
    if edit is not None and not (inside and state.mode == "acceptEdits"):
        return allow("rule", edit)
    if inside:
        return allow("mode")
    if (rule := find_rule(path, "read", "allow", state)) is not None:
        return allow("rule", rule)
    folder = posixpath.dirname(path)
    # Nobody is offered to open up the whole machine.
    opening = [] if folder == "/" else [add_rules([("Read", f"/{folder}/**")], "session")]
    whole = any(rule.names("Read") and rule.content is None for rule in state.rules["ask"])
    return VerdictDraft(
        behavior="ask",
        message=message,
        reason=_OUTSIDE,
        reason_type="workingDir",
        suggestions=opening,
        server_policy_ask_only=not whole,
    )


def judge_writing(path: str, state: PermissionState) -> VerdictDraft:
    """What Write, Edit and NotebookEdit think of a path."""
    path = expand(path, state)
    return replace(_judge_writing(path, state), path=path)


def _judge_writing(path: str, state: PermissionState) -> VerdictDraft:
    if state.plan_file and path == state.plan_file:
        return allow("other")
    if (rule := find_rule(path, "write", "deny", state)) is not None:
        return _denied(_DENIED, rule)
    if (rule := find_rule(path, "read", "deny", state)) is not None:
        return _denied(_UNREADABLE, rule)
    if is_sensitive(path):
        return _sensitive(path, state)
    if (rule := find_rule(path, "write", "ask", state)) is not None:
        return ask_by_rule(rule, requested(f"write to {path}"))
    if is_inside(path, state) and state.mode == "acceptEdits":
        return allow("mode")
    if (rule := find_rule(path, "write", "allow", state)) is not None:
        return allow("rule", rule)
    return _unlisted(path, state)


def _unlisted(path: str, state: PermissionState) -> VerdictDraft:
    inside = is_inside(path, state)
    ruled = any(rule.tool in ("Edit", "Write", "NotebookEdit") for rule in state.rules["ask"])
    return VerdictDraft(
        behavior="ask",
        message=requested(f"write to {path}"),
        reason=None if inside else _OUTSIDE,
        reason_type=None if inside else "workingDir",
        suggestions=_opening(path, state),
        server_policy_ask_only=not ruled,
        edits=inside,
    )


def _opening(path: str, state: PermissionState) -> list[dict[str, object]]:
    folder = [] if is_inside(path, state) else [add_directories(posixpath.dirname(path))]
    return [*set_mode(state), *folder]


def _sensitive(path: str, state: PermissionState) -> VerdictDraft:
    message = sensitive_message(path)
    skill = re.match(re.escape(state.cwd) + r"(/\.claude/skills/[^/]+)/", path)
    own = [add_rules([("Edit", f"{skill[1]}/**")], "session")] if skill else None
    return VerdictDraft(
        behavior="ask",
        message=message,
        reason=message,
        reason_type="safetyCheck",
        suggestions=own or _opening(path, state),
        classifier_approvable=True,
    )


def _denied(message: str, rule: CliRule) -> VerdictDraft:
    return VerdictDraft(
        behavior="deny",
        message=f"<tool_use_error>{message}</tool_use_error>",
        reason_type="rule",
        rule=rule,
        silent=True,
    )
