"""Hooks: what the CLI tells them.

    HookInput               session_id, cwd, ...; one class per event
      UnknownHookInput      an event this version does not know; nothing of it is lost

What they answer stands in `hook_outputs`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, field

from .permissions import PermissionUpdate, decode_updates
from .shared import McpServerProvenance
from .wire import NULL, JsonObject, Lazy, Record, always, load, members, once

__all__ = [
    "BackgroundTaskSummary",
    "BatchedToolCall",
    "ConfigChangeHookInput",
    "CwdChangedHookInput",
    "DirectoryAddedHookInput",
    "Effort",
    "ElicitationHookInput",
    "ElicitationResultHookInput",
    "FileChangedHookInput",
    "HookEvent",
    "HookInput",
    "InstructionsLoadedHookInput",
    "MessageDisplayHookInput",
    "NotificationHookInput",
    "PermissionDeniedHookInput",
    "PermissionRequestHookInput",
    "PostCompactHookInput",
    "PostModelSwitchHookInput",
    "PostToolBatchHookInput",
    "PostToolUseFailureHookInput",
    "PostToolUseHookInput",
    "PreCompactHookInput",
    "PreModelSwitchHookInput",
    "PreToolUseHookInput",
    "SessionCronSummary",
    "SessionEndHookInput",
    "SessionStartHookInput",
    "SetupHookInput",
    "StopFailureHookInput",
    "StopHookInput",
    "SubagentStartHookInput",
    "SubagentStopHookInput",
    "TaskCompletedHookInput",
    "TaskCreatedHookInput",
    "TeammateIdleHookInput",
    "UnknownHookInput",
    "UserPromptExpansionHookInput",
    "UserPromptSubmitHookInput",
    "WorktreeCreateHookInput",
    "WorktreeRemoveHookInput",
    "decode_hook_input",
]

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
]


class Effort(Record):
    """How hard the model works."""

    level: str = always("")


class HookInput(Lazy, tag_field="hook_event_name"):
    """What every hook is told; `extra` holds the members not declared here."""

    session_id: str = always("")
    transcript_path: str = always("")
    cwd: str = always("")
    prompt_id: str | None = None
    permission_mode: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    effort: Effort | None = None

    @property
    def hook_event_name(self) -> str:
        """The event."""
        return str(self.__struct_config__.tag)


class BackgroundTaskSummary(Record):
    """A task still running."""

    id: str = always("")
    type: str = always("")
    status: str = always("")
    description: str = always("")
    command: str | None = None
    agent_type: str | None = None
    server: str | None = None
    tool: str | None = None
    name: str | None = None


class SessionCronSummary(Record):
    """A prompt that is sent on a schedule."""

    id: str = always("")
    schedule: str = always("")
    recurring: bool = always(False)
    prompt: str = always("")


class BatchedToolCall(Record):
    """One tool use of a batch."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    tool_use_id: str = always("")
    tool_response: Any = None


class PreToolUseHookInput(HookInput, tag="PreToolUse"):
    """A tool is about to run."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    tool_use_id: str = always("")
    mcp_server: McpServerProvenance | None = None


class PostToolUseHookInput(HookInput, tag="PostToolUse"):
    """A tool has run."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    tool_response: Any = always(None)
    tool_use_id: str = always("")
    duration_ms: float | None = None
    mcp_server: McpServerProvenance | None = None


class PostToolUseFailureHookInput(HookInput, tag="PostToolUseFailure"):
    """A tool has failed."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    tool_use_id: str = always("")
    error: str = always("")
    is_interrupt: bool | None = None
    duration_ms: float | None = None
    mcp_server: McpServerProvenance | None = None


class PostToolBatchHookInput(HookInput, tag="PostToolBatch"):
    """All tools of one answer have run."""

    tool_calls: list[BatchedToolCall] = always([])


class NotificationHookInput(HookInput, tag="Notification"):
    """The user is told something."""

    message: str = always("")
    title: str | None = None
    notification_type: str = always("")


class UserPromptSubmitHookInput(HookInput, tag="UserPromptSubmit"):
    """A prompt came in."""

    prompt: str = always("")
    source: str | None = None
    session_title: str | None = None


class UserPromptExpansionHookInput(HookInput, tag="UserPromptExpansion"):
    """A command was expanded to a prompt."""

    expansion_type: str = always("")
    command_name: str = always("")
    command_args: str = always("")
    command_source: str | None = None
    prompt: str = always("")


class SessionStartHookInput(HookInput, tag="SessionStart"):
    """A session begins."""

    source: str = always("")
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: float | None = None
    context_tokens: int | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: float | None = None


class SessionEndHookInput(HookInput, tag="SessionEnd"):
    """A session ends."""

    reason: str = always("")


class StopHookInput(HookInput, tag="Stop"):
    """The model is done."""

    stop_hook_active: bool = always(False)
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] = field(default_factory=list)
    session_crons: list[SessionCronSummary] = field(default_factory=list)


class StopFailureHookInput(HookInput, tag="StopFailure"):
    """The turn ended with an API error."""

    error: str = always("")
    error_details: str | None = None
    last_assistant_message: str | None = None


class SubagentStartHookInput(HookInput, tag="SubagentStart"):
    """A subagent begins."""


class SubagentStopHookInput(HookInput, tag="SubagentStop"):
    """A subagent is done."""

    stop_hook_active: bool = always(False)
    agent_transcript_path: str = always("")
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] = field(default_factory=list)
    session_crons: list[SessionCronSummary] = field(default_factory=list)


class PreCompactHookInput(HookInput, tag="PreCompact"):
    """The transcript is about to be compacted."""

    trigger: str = always("")
    custom_instructions: str | None = always(None)


class PostCompactHookInput(HookInput, tag="PostCompact"):
    """The transcript was compacted."""

    trigger: str = always("")
    compact_summary: str = always("")


class PreModelSwitchHookInput(HookInput, tag="PreModelSwitch"):
    """The model is about to change."""

    from_model: str = always("")
    to_model: str = always("")
    requested_model: str | None = always(None)
    source: str = always("")
    context_tokens: int = always(0)
    prompt_cache_warm: bool = always(False)
    cache_ttl: str = always("")
    estimated_cache_write_usd: float = always(0.0)
    pricing: str = always("")


class PostModelSwitchHookInput(HookInput, tag="PostModelSwitch"):
    """The model has changed."""

    from_model: str = always("")
    to_model: str = always("")
    requested_model: str | None = always(None)
    source: str = always("")
    context_tokens: int = always(0)
    prompt_cache_warm: bool = always(False)
    cache_ttl: str = always("")
    estimated_cache_write_usd: float = always(0.0)
    pricing: str = always("")


class PermissionRequestHookInput(HookInput, tag="PermissionRequest"):
    """The user is about to be asked."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    permission_suggestions_raw: Raw = field(default=NULL, name="permission_suggestions")
    mcp_server: McpServerProvenance | None = None

    @once
    def permission_suggestions(self) -> list[PermissionUpdate]:
        """Updates under which the CLI would not ask again."""
        return decode_updates(self.permission_suggestions_raw)


class PermissionDeniedHookInput(HookInput, tag="PermissionDenied"):
    """A tool was denied."""

    tool_name: str = always("")
    tool_input: Any = always(None)
    tool_use_id: str = always("")
    reason: str = always("")
    mcp_server: McpServerProvenance | None = None


class SetupHookInput(HookInput, tag="Setup"):
    """The CLI sets itself up."""

    trigger: str = always("")


class TeammateIdleHookInput(HookInput, tag="TeammateIdle"):
    """A teammate has nothing to do."""

    teammate_name: str = always("")
    team_name: str = always("")


class TaskCreatedHookInput(HookInput, tag="TaskCreated"):
    """A task was created."""

    task_id: str = always("")
    task_subject: str = always("")
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None


class TaskCompletedHookInput(HookInput, tag="TaskCompleted"):
    """A task was completed."""

    task_id: str = always("")
    task_subject: str = always("")
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None


class ElicitationHookInput(HookInput, tag="Elicitation"):
    """An MCP server asks the user."""

    mcp_server_name: str = always("")
    message: str = always("")
    mode: str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: JsonObject | None = None


class ElicitationResultHookInput(HookInput, tag="ElicitationResult"):
    """The user answered an MCP server."""

    mcp_server_name: str = always("")
    elicitation_id: str | None = None
    mode: str | None = None
    action: str = always("")
    content: JsonObject | None = None


class ConfigChangeHookInput(HookInput, tag="ConfigChange"):
    """Settings have changed."""

    source: str = always("")
    file_path: str | None = None


class WorktreeCreateHookInput(HookInput, tag="WorktreeCreate"):
    """A worktree is to be made."""

    name: str = always("")


class WorktreeRemoveHookInput(HookInput, tag="WorktreeRemove"):
    """A worktree is to be removed."""

    worktree_path: str = always("")


class InstructionsLoadedHookInput(HookInput, tag="InstructionsLoaded"):
    """An instructions file was read."""

    file_path: str = always("")
    memory_type: str = always("")
    load_reason: str = always("")
    globs: list[str] = field(default_factory=list)
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class CwdChangedHookInput(HookInput, tag="CwdChanged"):
    """The working directory has changed."""

    old_cwd: str = always("")
    new_cwd: str = always("")


class FileChangedHookInput(HookInput, tag="FileChanged"):
    """A watched file has changed."""

    file_path: str = always("")
    event: str = always("")


class DirectoryAddedHookInput(HookInput, tag="DirectoryAdded"):
    """The session may work in another directory."""

    directory: str = always("")
    source: str = always("")


class MessageDisplayHookInput(HookInput, tag="MessageDisplay"):
    """Text is about to be shown."""

    turn_id: str = always("")
    message_id: str = always("")
    index: int = always(0)
    final: bool = always(False)
    delta: str = always("")


class UnknownHookInput(HookInput, tag=False):
    """An event this version does not know."""

    event: str = field(default="", name="hook_event_name")

    @property
    def hook_event_name(self) -> str:
        return self.event

    @property
    def data(self) -> JsonObject:
        """The whole input as plain values."""
        return members(self.raw)


_CLASSES: dict[str, type[HookInput]] = {
    "PreToolUse": PreToolUseHookInput,
    "PostToolUse": PostToolUseHookInput,
    "PostToolUseFailure": PostToolUseFailureHookInput,
    "PostToolBatch": PostToolBatchHookInput,
    "Notification": NotificationHookInput,
    "UserPromptSubmit": UserPromptSubmitHookInput,
    "UserPromptExpansion": UserPromptExpansionHookInput,
    "SessionStart": SessionStartHookInput,
    "SessionEnd": SessionEndHookInput,
    "Stop": StopHookInput,
    "StopFailure": StopFailureHookInput,
    "SubagentStart": SubagentStartHookInput,
    "SubagentStop": SubagentStopHookInput,
    "PreCompact": PreCompactHookInput,
    "PostCompact": PostCompactHookInput,
    "PreModelSwitch": PreModelSwitchHookInput,
    "PostModelSwitch": PostModelSwitchHookInput,
    "PermissionRequest": PermissionRequestHookInput,
    "PermissionDenied": PermissionDeniedHookInput,
    "Setup": SetupHookInput,
    "TeammateIdle": TeammateIdleHookInput,
    "TaskCreated": TaskCreatedHookInput,
    "TaskCompleted": TaskCompletedHookInput,
    "Elicitation": ElicitationHookInput,
    "ElicitationResult": ElicitationResultHookInput,
    "ConfigChange": ConfigChangeHookInput,
    "WorktreeCreate": WorktreeCreateHookInput,
    "WorktreeRemove": WorktreeRemoveHookInput,
    "InstructionsLoaded": InstructionsLoadedHookInput,
    "CwdChanged": CwdChangedHookInput,
    "FileChanged": FileChangedHookInput,
    "DirectoryAdded": DirectoryAddedHookInput,
    "MessageDisplay": MessageDisplayHookInput,
}


def decode_hook_input(raw: bytes | Raw) -> HookInput:
    """The input of one hook call, as the class of its event."""
    event = load(UnknownHookInput, raw).event
    return load(_CLASSES.get(event, UnknownHookInput), raw)
