"""Hooks: what they answer. Members that are not set are not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Raw, UnsetType, field

from .permissions import PermissionUpdate
from .wire import JsonObject, Record, always, load, members

__all__ = [
    "AsyncHookOutput",
    "CwdChangedHookOutput",
    "ElicitationAction",
    "ElicitationHookOutput",
    "ElicitationResultHookOutput",
    "FileChangedHookOutput",
    "HookAllow",
    "HookDecision",
    "HookDeny",
    "HookMatcher",
    "HookOutput",
    "HookPermissionDecision",
    "HookSpecificOutput",
    "MessageDisplayHookOutput",
    "NotificationHookOutput",
    "PermissionDeniedHookOutput",
    "PermissionRequestHookOutput",
    "PostModelSwitchHookOutput",
    "PostToolBatchHookOutput",
    "PostToolUseFailureHookOutput",
    "PostToolUseHookOutput",
    "PreModelSwitchHookOutput",
    "PreToolUseHookOutput",
    "SessionStartHookOutput",
    "SetupHookOutput",
    "StopHookOutput",
    "SubagentStartHookOutput",
    "SubagentStopHookOutput",
    "UserPromptExpansionHookOutput",
    "UserPromptSubmitHookOutput",
    "WorktreeCreateHookOutput",
    "decode_hook_output",
]

HookDecision = Literal["allow", "deny", "ask", "defer"]
ElicitationAction = Literal["accept", "decline", "cancel"]


class HookMatcher(Record, rename="camel"):
    """Which callbacks a hook event calls, and for which tools."""

    hook_callback_ids: list[str]
    matcher: str | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    on_failure: Literal["continue", "block"] | UnsetType = UNSET


class HookAllow(Record, tag_field="behavior", tag="allow", rename="camel"):
    """A PermissionRequest hook lets the tool run."""

    updated_input: JsonObject | UnsetType = UNSET
    updated_permissions: list[PermissionUpdate] | UnsetType = UNSET


class HookDeny(Record, tag_field="behavior", tag="deny"):
    """A PermissionRequest hook does not let the tool run."""

    message: str | UnsetType = UNSET
    interrupt: bool | UnsetType = UNSET


HookPermissionDecision = HookAllow | HookDeny


class _SpecificOutput(Record, tag_field="hookEventName"):
    @property
    def hook_event_name(self) -> str:
        """The event this belongs to."""
        return str(self.__struct_config__.tag)


class PreToolUseHookOutput(_SpecificOutput, tag="PreToolUse", rename="camel"):
    """What a PreToolUse hook may decide."""

    permission_decision: HookDecision | UnsetType = UNSET
    permission_decision_reason: str | UnsetType = UNSET
    updated_input: JsonObject | UnsetType = UNSET
    additional_context: str | UnsetType = UNSET


class PostToolUseHookOutput(_SpecificOutput, tag="PostToolUse", rename="camel"):
    """What a PostToolUse hook may decide."""

    additional_context: str | UnsetType = UNSET
    classifier_context: str | UnsetType = UNSET
    updated_tool_output: Any | UnsetType = UNSET
    updated_mcp_tool_output: Any | UnsetType = field(default=UNSET, name="updatedMCPToolOutput")


class PostToolUseFailureHookOutput(_SpecificOutput, tag="PostToolUseFailure", rename="camel"):
    """What a PostToolUseFailure hook may add."""

    additional_context: str | UnsetType = UNSET


class PostToolBatchHookOutput(_SpecificOutput, tag="PostToolBatch", rename="camel"):
    """What a PostToolBatch hook may add."""

    additional_context: str | UnsetType = UNSET


class UserPromptSubmitHookOutput(_SpecificOutput, tag="UserPromptSubmit", rename="camel"):
    """What a UserPromptSubmit hook may add."""

    additional_context: str | UnsetType = UNSET
    session_title: str | UnsetType = UNSET
    suppress_original_prompt: bool | UnsetType = UNSET


class UserPromptExpansionHookOutput(_SpecificOutput, tag="UserPromptExpansion", rename="camel"):
    """What a UserPromptExpansion hook may add."""

    additional_context: str | UnsetType = UNSET
    suppress_original_prompt: bool | UnsetType = UNSET


class SessionStartHookOutput(_SpecificOutput, tag="SessionStart", rename="camel"):
    """What a SessionStart hook may add."""

    additional_context: str | UnsetType = UNSET
    initial_user_message: str | UnsetType = UNSET
    session_title: str | UnsetType = UNSET
    watch_paths: list[str] | UnsetType = UNSET
    reload_skills: bool | UnsetType = UNSET


class SetupHookOutput(_SpecificOutput, tag="Setup", rename="camel"):
    """What a Setup hook may add."""

    additional_context: str | UnsetType = UNSET


class SubagentStartHookOutput(_SpecificOutput, tag="SubagentStart", rename="camel"):
    """What a SubagentStart hook may add."""

    additional_context: str | UnsetType = UNSET


class StopHookOutput(_SpecificOutput, tag="Stop", rename="camel"):
    """What a Stop hook may add."""

    additional_context: str | UnsetType = UNSET


class SubagentStopHookOutput(_SpecificOutput, tag="SubagentStop", rename="camel"):
    """What a SubagentStop hook may add."""

    additional_context: str | UnsetType = UNSET


class NotificationHookOutput(_SpecificOutput, tag="Notification", rename="camel"):
    """What a Notification hook may add."""

    additional_context: str | UnsetType = UNSET


class PermissionRequestHookOutput(_SpecificOutput, tag="PermissionRequest", rename="camel"):
    """What a PermissionRequest hook may decide."""

    decision: HookPermissionDecision


class PermissionDeniedHookOutput(_SpecificOutput, tag="PermissionDenied", rename="camel"):
    """What a PermissionDenied hook may decide."""

    retry: bool | UnsetType = UNSET


class PreModelSwitchHookOutput(_SpecificOutput, tag="PreModelSwitch", rename="camel"):
    """What a PreModelSwitch hook may decide."""

    permission_decision: Literal["allow", "deny", "ask"] | UnsetType = UNSET
    permission_decision_reason: str | UnsetType = UNSET


class PostModelSwitchHookOutput(_SpecificOutput, tag="PostModelSwitch", rename="camel"):
    """What a PostModelSwitch hook may add."""

    additional_context: str | UnsetType = UNSET


class ElicitationHookOutput(_SpecificOutput, tag="Elicitation", rename="camel"):
    """What a Elicitation hook may decide."""

    action: ElicitationAction | UnsetType = UNSET
    content: JsonObject | UnsetType = UNSET


class ElicitationResultHookOutput(_SpecificOutput, tag="ElicitationResult", rename="camel"):
    """What a ElicitationResult hook may add."""

    action: ElicitationAction | UnsetType = UNSET
    content: JsonObject | UnsetType = UNSET


class CwdChangedHookOutput(_SpecificOutput, tag="CwdChanged", rename="camel"):
    """What a CwdChanged hook may add."""

    watch_paths: list[str] | UnsetType = UNSET


class FileChangedHookOutput(_SpecificOutput, tag="FileChanged", rename="camel"):
    """What a FileChanged hook may add."""

    watch_paths: list[str] | UnsetType = UNSET


class WorktreeCreateHookOutput(_SpecificOutput, tag="WorktreeCreate", rename="camel"):
    """What a WorktreeCreate hook may add."""

    worktree_path: str


class MessageDisplayHookOutput(_SpecificOutput, tag="MessageDisplay", rename="camel"):
    """What a MessageDisplay hook may add."""

    display_content: str | UnsetType = UNSET


KnownSpecificOutput = (
    PreToolUseHookOutput
    | PostToolUseHookOutput
    | PostToolUseFailureHookOutput
    | PostToolBatchHookOutput
    | UserPromptSubmitHookOutput
    | UserPromptExpansionHookOutput
    | SessionStartHookOutput
    | SetupHookOutput
    | SubagentStartHookOutput
    | StopHookOutput
    | SubagentStopHookOutput
    | NotificationHookOutput
    | PermissionRequestHookOutput
    | PermissionDeniedHookOutput
    | PreModelSwitchHookOutput
    | PostModelSwitchHookOutput
    | ElicitationHookOutput
    | ElicitationResultHookOutput
    | CwdChangedHookOutput
    | FileChangedHookOutput
    | WorktreeCreateHookOutput
    | MessageDisplayHookOutput
)

# The decoder takes tagged structs only; callers may also write plain members.
if TYPE_CHECKING:
    HookSpecificOutput = KnownSpecificOutput | JsonObject
else:
    HookSpecificOutput = KnownSpecificOutput


class HookOutput(Record, rename="camel"):
    """A hook's answer; an empty one changes nothing."""

    continue_: bool | UnsetType = UNSET
    suppress_output: bool | UnsetType = UNSET
    stop_reason: str | UnsetType = UNSET
    decision: Literal["approve", "block"] | UnsetType = UNSET
    system_message: str | UnsetType = UNSET
    terminal_sequence: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    hook_specific_output: HookSpecificOutput | UnsetType = UNSET


class AsyncHookOutput(Record, rename="camel"):
    """The hook works on by itself and decides nothing."""

    async_: bool = always(True, name="async")
    async_timeout: float | UnsetType = UNSET


def decode_hook_output(raw: bytes | Raw) -> HookOutput | AsyncHookOutput:
    """A hook's answer, read as a CLI does."""
    if members(raw).get("async") is True:
        return load(AsyncHookOutput, raw)
    return load(HookOutput, raw)
