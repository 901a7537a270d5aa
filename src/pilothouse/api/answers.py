"""What a person, a policy, a face or a handler may answer to a question. Plain data.

The same classes everywhere: a handler of the library returns them, an engine is given them, the
journal keeps them, and over HTTP they are JSON whose `kind` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from pilothouse.protocol.permissions import (
    AddDirectories,
    AddRules,
    PermissionDestination,
    PermissionMode,
    PermissionRule,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
    SetMode,
)

__all__ = [
    "AddOwnDirectories",
    "AddOwnRules",
    "Allow",
    "Answer",
    "ApprovePlan",
    "Choose",
    "ClearContext",
    "Decline",
    "Deny",
    "Dismiss",
    "Fill",
    "OwnRule",
    "OwnUpdate",
    "PermissionDestination",
    "RejectPlan",
    "RemoveOwnDirectories",
    "RemoveOwnRules",
    "ReplaceOwnRules",
    "RevisePlan",
    "SetOwnMode",
    "Skip",
]


# What a caller may change together with a yes: the CLI's own updates, read strictly. A member with
# a wrong name must not be one that was left out: `behaviour: deny` would be an `allow`. What the
# CLI may leave out is required here, and the type checker takes no override without a default.


class OwnRule(PermissionRule, forbid_unknown_fields=True):
    """A tool, and what of it: `{"toolName": "Bash", "ruleContent": "git:*"}`."""

    tool_name: str  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues]


class AddOwnRules(AddRules, forbid_unknown_fields=True, tag="addRules"):
    """Add rules. A destination other than `session` and `cliArg` writes a settings file."""

    rules: list[OwnRule]  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride]


class ReplaceOwnRules(ReplaceRules, forbid_unknown_fields=True, tag="replaceRules"):
    """Replace the rules of that behaviour and destination."""

    rules: list[OwnRule]  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride]


class RemoveOwnRules(RemoveRules, forbid_unknown_fields=True, tag="removeRules"):
    """Remove rules."""

    rules: list[OwnRule]  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride]


class AddOwnDirectories(AddDirectories, forbid_unknown_fields=True, tag="addDirectories"):
    """Let the session work in these directories: absolute paths."""

    directories: list[str]  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues]


class RemoveOwnDirectories(RemoveDirectories, forbid_unknown_fields=True, tag="removeDirectories"):
    """Take directories away from the session."""

    directories: list[str]  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues]


class SetOwnMode(SetMode, forbid_unknown_fields=True, tag="setMode"):
    """Change the permission mode."""

    mode: PermissionMode  # required, other than in the CLI's  # pyright: ignore[reportGeneralTypeIssues]


OwnUpdate = (
    AddOwnRules
    | ReplaceOwnRules
    | RemoveOwnRules
    | AddOwnDirectories
    | RemoveOwnDirectories
    | SetOwnMode
)


class _Answer(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """One way to answer; `kind` names it on the wire."""


class Allow(_Answer, frozen=True, tag="allow"):
    """Yes, perhaps with an edited input, perhaps for good."""

    input: dict[str, Any] | None = None
    always: bool | PermissionDestination = False
    """True: not asked again in this session. A destination writes the CLI's settings there."""
    updates: list[OwnUpdate] | None = None
    """Rules, directories or a mode of one's own, in force together with the answer."""


class Deny(_Answer, frozen=True, tag="deny"):
    """No. The model reads the reason, or a usual one if it is empty; `stop` ends its turn."""

    reason: str = ""
    stop: bool = False


class Choose(_Answer, frozen=True, tag="choose"):
    """Answers to the model's questions: text of the question -> a label, labels, or free text."""

    answers: Mapping[str, str | Sequence[str]]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


class Skip(_Answer, frozen=True, tag="skip"):
    """The model's questions stay unanswered; it goes on without."""


class ApprovePlan(_Answer, frozen=True, tag="approve_plan"):
    """Yes. `plan` replaces the plan's text; `mode` is the mode to work in, in the same moment."""

    mode: PermissionMode | None = None
    plan: str | None = None
    compact: bool = False
    """Summarise the conversation as soon as the turn has ended, which only an engine can do."""


class RevisePlan(_Answer, frozen=True, tag="revise_plan"):
    """Not yet: the model reads the feedback and plans again.

    Images follow as a message, which only an engine can send.
    """

    feedback: str
    images: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class RejectPlan(_Answer, frozen=True, tag="reject_plan"):
    """No. `stop` ends the turn as well."""

    reason: str = ""
    stop: bool = False


class ClearContext(_Answer, frozen=True, tag="clear_context"):
    """End this session, and let a new one that knows only the plan implement it."""

    mode: PermissionMode = "acceptEdits"
    plan: str | None = None


class Fill(_Answer, frozen=True, tag="fill"):
    """The values a form of an MCP server asked for; empty where it asked to open a page."""

    content: dict[str, Any] = field(default_factory=dict[str, Any])


class Decline(_Answer, frozen=True, tag="decline"):
    """No to an MCP server's form or page."""


class Dismiss(_Answer, frozen=True, tag="dismiss"):
    """Neither yes nor no: the form was closed."""


Answer = (
    Allow
    | Deny
    | Choose
    | Skip
    | ApprovePlan
    | RevisePlan
    | RejectPlan
    | ClearContext
    | Fill
    | Decline
    | Dismiss
)
