"""What a tool by itself thinks of a call, before the session's mode has its say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .verdict import Json

if TYPE_CHECKING:
    from .rules import CliRule
    from .state import PermissionState

__all__ = [
    "VerdictDraft",
    "add_directories",
    "add_rules",
    "allow",
    "ask_by_rule",
    "requested",
    "set_mode",
]


class VerdictDraft(Struct, frozen=True, kw_only=True):
    """allow, ask or deny; or `pass`: no objection, yet nothing allows it either."""

    behavior: str
    message: str = ""
    reason: str | None = None
    reason_type: str | None = None
    suggestions: list[Json] | None = None
    blocked_path: str | None = None
    rule: CliRule | None = None
    server_policy_ask_only: bool | None = None
    classifier_approvable: bool | None = None
    suppress_always_allow_rule: bool | None = None
    silent: bool = False
    """A denial that no `system/permission_denied` line tells of."""
    path: str = ""
    """The file the call would write."""
    edits: bool = False
    """The call edits a file in a working directory: what `auto` lets pass."""


def allow(reason_type: str | None = None, rule: CliRule | None = None) -> VerdictDraft:
    """The call may run."""
    return VerdictDraft(behavior="allow", reason_type=reason_type, rule=rule)


def ask_by_rule(rule: CliRule, message: str) -> VerdictDraft:
    """Somebody wants to be asked about such calls."""
    return VerdictDraft(
        behavior="ask",
        message=message,
        reason_type="rule",
        rule=rule,
        server_policy_ask_only=False,
    )


def requested(what: str) -> str:
    """The sentence for most calls that were not granted."""
    return f"Claude requested permissions to {what}, but you haven't granted it yet."


def add_rules(rules: list[tuple[str, str | None]], destination: str = "localSettings") -> Json:
    """Suggest rules: tools and their contents."""
    entries: list[Json] = [
        {"toolName": tool} if content is None else {"toolName": tool, "ruleContent": content}
        for tool, content in rules
    ]
    return {"type": "addRules", "rules": entries, "behavior": "allow", "destination": destination}


def add_directories(*folders: str) -> Json:
    """Suggest to work in more folders."""
    return {"type": "addDirectories", "directories": list(folders), "destination": "session"}


def set_mode(state: PermissionState) -> list[Json]:
    """Suggest to accept edits, unless they are."""
    if state.mode not in ("default", "plan"):
        return []
    return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
