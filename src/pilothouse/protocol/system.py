"""The messages of type `system`, one class per subtype.

    SystemMessage               subtype
      InitMessage               the start of every turn, newest wins
      StatusMessage             compacting, requesting or neither; the permission mode
      Task...Message            the life of a background task: see `tasks`
      Hook...Message            the life of a command hook
      ...
      UnknownSystemMessage      a subtype this version does not know; nothing of it is lost

`class_of` gives the class of a subtype.
"""

from __future__ import annotations

from msgspec import field

from .shared import SlashCommand, SystemMessage
from .tasks import (
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskSummaryMessage,
    TaskUpdatedMessage,
)
from .wire import JsonObject, Record, always, members

__all__ = [
    "ApiRetryMessage",
    "CommandsChangedMessage",
    "CompactBoundaryMessage",
    "CompactMetadata",
    "ControlRequestProgressMessage",
    "ElicitationCompleteMessage",
    "FailedFile",
    "FilesPersistedMessage",
    "HookProgressMessage",
    "HookResponseMessage",
    "HookStartedMessage",
    "InformationalMessage",
    "InitMcpServer",
    "InitMessage",
    "InitPlugin",
    "LocalCommandOutputMessage",
    "ManagedLock",
    "Memory",
    "MemoryRecallMessage",
    "MirrorErrorMessage",
    "MirrorKey",
    "ModelRefusalFallbackMessage",
    "ModelRefusalNoFallbackMessage",
    "NoResponse",
    "NotificationMessage",
    "PermissionDeniedMessage",
    "PersistedFile",
    "PluginError",
    "PluginInstallMessage",
    "PostTurnSummaryMessage",
    "PreservedMessages",
    "PreservedSegment",
    "PromptSubmitOutcome",
    "SessionMetadataMessage",
    "SessionStateChangedMessage",
    "SessionTitleChangedMessage",
    "SessionWritesLostMessage",
    "StatusMessage",
    "SystemMessage",
    "ThinkingTokensMessage",
    "UnknownSystemMessage",
    "WorkerShuttingDownMessage",
    "class_of",
]


class UnknownSystemMessage(SystemMessage, tag="system"):
    """A `system` message of a subtype this version does not know."""

    @property
    def data(self) -> JsonObject:
        """The whole message as plain values."""
        return members(self.raw)


class InitMcpServer(Record):
    """An MCP server as `init` lists it."""

    name: str = always("")
    status: str = always("")
    source: str | None = None


class InitPlugin(Record):
    """A loaded plugin."""

    name: str = always("")
    path: str = always("")
    version: str | None = None
    source: str | None = None


class ManagedLock(Record):
    """The managed setting that holds a plugin."""

    plugin_enabled: bool = always(False)
    name: str = always("")
    marketplace: str | None = None


class PluginError(Record):
    """A plugin that could not be loaded."""

    plugin: str = always("")
    type: str = always("")
    message: str = always("")
    path: str | None = None
    managed_lock: ManagedLock | None = None


class InitMessage(SystemMessage, tag="system"):
    """The start of a turn: what the session is and can do now. Sent every turn, newest wins."""

    subtype: str = always("init")
    agents: list[str] = field(default_factory=list)
    api_key_source: str = always("", name="apiKeySource")
    betas: list[str] = field(default_factory=list)
    claude_code_version: str = always("")
    cwd: str = always("")
    tools: list[str] = always([])
    mcp_servers: list[InitMcpServer] = always([])
    model: str = always("")
    permission_mode: str = always("", name="permissionMode")
    slash_commands: list[str] = always([])
    terminal_slash_commands: list[str] = field(default_factory=list)
    output_style: str = always("")
    skills: list[str] = always([])
    plugins: list[InitPlugin] = always([])
    plugin_errors: list[PluginError] = field(default_factory=list)
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None
    effort: str | None = None
    view_mode: str | None = None
    capabilities: list[str] = field(default_factory=list)
    additional_directories: list[str] = field(default_factory=list)
    original_cwd: str | None = None
    memory_paths: JsonObject | None = None
    messaging_socket_path: str | None = None
    analytics_disabled: bool | None = None
    product_feedback_disabled: bool | None = None
    per_turn_effort_active: bool | None = None
    ultrathink_available: bool | None = None
    ultrathink_typed_raises: bool | None = None
    user_message_uuids: list[str] = field(default_factory=list)


class StatusMessage(SystemMessage, tag="system"):
    """What the CLI is busy with, or a changed permission mode."""

    subtype: str = always("status")
    status: str | None = always(None)
    permission_mode: str | None = field(default=None, name="permissionMode")
    compact_result: str | None = None
    compact_error: str | None = None
    user_message_uuids: list[str] = field(default_factory=list)


class PreservedSegment(Record):
    """The stretch of the transcript a compaction kept."""

    head_uuid: str = always("")
    anchor_uuid: str = always("")
    tail_uuid: str = always("")


class PreservedMessages(Record):
    """The messages a compaction kept."""

    anchor_uuid: str = always("")
    uuids: list[str] = always([])
    all_uuids: list[str] = field(default_factory=list)


class CompactMetadata(Record):
    """What a compaction did."""

    trigger: str = always("")
    pre_tokens: int = always(0)
    post_tokens: int | None = None
    cumulative_dropped_tokens: int | None = None
    duration_ms: float | None = None
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None


class CompactBoundaryMessage(SystemMessage, tag="system"):
    """The transcript before this was compacted."""

    subtype: str = always("compact_boundary")
    compact_metadata: CompactMetadata = always(CompactMetadata())
    logical_parent_uuid: str | None = None


class NoResponse(Record):
    """How long the API stayed silent."""

    waited_ms: float = always(0.0)
    retry_wait_ms: float = always(0.0)


class ApiRetryMessage(SystemMessage, tag="system"):
    """An API call failed and will be tried again. `error_status` is None without an HTTP answer."""

    subtype: str = always("api_retry")
    attempt: int = always(0)
    max_retries: int = always(0)
    retry_delay_ms: float = always(0.0)
    error_status: int | None = always(None)
    error: str = always("")
    no_response: NoResponse | None = None


class ControlRequestProgressMessage(SystemMessage, tag="system"):
    """Progress of a slow control request of the client's."""

    subtype: str = always("control_request_progress")
    request_id: str = always("")
    status: str = always("")
    attempt: int | None = None
    max_retries: int | None = None
    retry_delay_ms: float | None = None
    error_status: int | None = None


class ModelRefusalFallbackMessage(SystemMessage, tag="system"):
    """A model refused and another took over; the retracted messages are to be dropped."""

    subtype: str = always("model_refusal_fallback")
    trigger: str = always("")
    direction: str = always("")
    scope: str | None = None
    original_model: str = always("")
    fallback_model: str = always("")
    request_id: str | None = always(None)
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    retracted_message_uuids: list[str] = field(default_factory=list)
    refused_user_message_uuid: str | None = None
    content: str = always("")


class ModelRefusalNoFallbackMessage(SystemMessage, tag="system"):
    """A model refused and no other took over."""

    subtype: str = always("model_refusal_no_fallback")
    original_model: str = always("")
    request_id: str | None = always(None)
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: str | None = None
    content: str = always("")


class LocalCommandOutputMessage(SystemMessage, tag="system"):
    """The output of a slash command."""

    subtype: str = always("local_command_output")
    content: str = always("")


class HookStartedMessage(SystemMessage, tag="system"):
    """A command hook began."""

    subtype: str = always("hook_started")
    hook_id: str = always("")
    hook_name: str = always("")
    hook_event: str = always("")


class HookProgressMessage(SystemMessage, tag="system"):
    """A command hook wrote something."""

    subtype: str = always("hook_progress")
    hook_id: str = always("")
    hook_name: str = always("")
    hook_event: str = always("")
    stdout: str = always("")
    stderr: str = always("")
    output: str = always("")


class HookResponseMessage(SystemMessage, tag="system"):
    """A command hook ended."""

    subtype: str = always("hook_response")
    hook_id: str = always("")
    hook_name: str = always("")
    hook_event: str = always("")
    output: str = always("")
    stdout: str = always("")
    stderr: str = always("")
    exit_code: int | None = None
    outcome: str = always("")


class PluginInstallMessage(SystemMessage, tag="system"):
    """Progress of installing plugins."""

    subtype: str = always("plugin_install")
    status: str = always("")
    name: str | None = None
    error: str | None = None


class ThinkingTokensMessage(SystemMessage, tag="system"):
    """An estimate of the thinking done so far."""

    subtype: str = always("thinking_tokens")
    estimated_tokens: int = always(0)
    estimated_tokens_delta: int = always(0)
    user_message_uuid: str | None = None


class SessionStateChangedMessage(SystemMessage, tag="system"):
    """`idle`, `running` or `requires_action`; idle is the authoritative end of a run."""

    subtype: str = always("session_state_changed")
    state: str = always("")
    sdk_host_only: bool | None = None


class WorkerShuttingDownMessage(SystemMessage, tag="system"):
    """The CLI is about to end."""

    subtype: str = always("worker_shutting_down")
    reason: str = always("")


class CommandsChangedMessage(SystemMessage, tag="system"):
    """The whole list of slash commands; replaces the one before."""

    subtype: str = always("commands_changed")
    commands: list[SlashCommand] = always([])


class NotificationMessage(SystemMessage, tag="system"):
    """A note for the user."""

    subtype: str = always("notification")
    key: str = always("")
    text: str = always("")
    priority: str = always("")
    color: str | None = None
    timeout_ms: float | None = None


class PersistedFile(Record):
    """A file that was stored."""

    filename: str = always("")
    file_id: str = always("")


class FailedFile(Record):
    """A file that could not be stored."""

    filename: str = always("")
    error: str = always("")


class FilesPersistedMessage(SystemMessage, tag="system"):
    """Files were stored, or could not be."""

    subtype: str = always("files_persisted")
    files: list[PersistedFile] = always([])
    failed: list[FailedFile] = always([])
    processed_at: str = always("")


class Memory(Record):
    """A memory file the CLI recalled."""

    path: str = always("")
    scope: str = always("")
    content: str | None = None


class MemoryRecallMessage(SystemMessage, tag="system"):
    """Memory files were brought into the context."""

    subtype: str = always("memory_recall")
    mode: str = always("")
    memories: list[Memory] = always([])


class ElicitationCompleteMessage(SystemMessage, tag="system"):
    """A URL elicitation was completed elsewhere."""

    subtype: str = always("elicitation_complete")
    mcp_server_name: str = always("")
    elicitation_id: str = always("")


class PermissionDeniedMessage(SystemMessage, tag="system"):
    """A tool use was denied without asking. The record is `ResultMessage.permission_denials`."""

    subtype: str = always("permission_denied")
    tool_name: str = always("")
    tool_use_id: str = always("")
    agent_id: str | None = None
    decision_reason_type: str | None = None
    decision_reason_code: str | None = None
    decision_reason: str | None = None
    message: str = always("")


class MirrorKey(Record, rename="camel"):
    """Where a transcript entry belongs."""

    project_key: str = always("")
    session_id: str = always("")
    subpath: str | None = None


class MirrorErrorMessage(SystemMessage, tag="system"):
    """A transcript entry could not be mirrored. Made by client libraries, never by the CLI."""

    subtype: str = always("mirror_error")
    error: str = always("")
    key: MirrorKey = always(MirrorKey())


class PromptSubmitOutcome(Record):
    """What a UserPromptSubmit hook made of a prompt."""

    kind: str | None = None
    no_verdict_kind: str | None = None
    prompt_kept: bool | None = None
    reason: str | None = None


class InformationalMessage(SystemMessage, tag="system"):
    """A remark for the user."""

    subtype: str = always("informational")
    content: str = always("")
    level: str = always("")
    tool_use_id: str | None = None
    prevent_continuation: bool | None = None
    prompt_submit_outcome: PromptSubmitOutcome | None = None
    tag: str | None = None
    is_meta: bool | None = field(default=None, name="isMeta")
    timestamp: str | None = None


class SessionWritesLostMessage(SystemMessage, tag="system"):
    """The disk is full: parts of the session were not written."""

    subtype: str = always("session_writes_lost")
    error_code: str = always("")
    lost: list[str] = always([])
    transcript_session_ids: list[str] = field(default_factory=list)


class SessionTitleChangedMessage(SystemMessage, tag="system"):
    """The session was given a title."""

    subtype: str = always("session_title_changed")
    title: str = always("")


class PostTurnSummaryMessage(SystemMessage, tag="system"):
    """A summary of the turn. Its members are not documented: see `extra`."""

    subtype: str = always("post_turn_summary")


class SessionMetadataMessage(SystemMessage, tag="system"):
    """Data about the session. Its members are not documented: see `extra`."""

    subtype: str = always("session_metadata")


_CLASSES: dict[str, type[SystemMessage]] = {
    "init": InitMessage,
    "status": StatusMessage,
    "compact_boundary": CompactBoundaryMessage,
    "api_retry": ApiRetryMessage,
    "control_request_progress": ControlRequestProgressMessage,
    "model_refusal_fallback": ModelRefusalFallbackMessage,
    "model_refusal_no_fallback": ModelRefusalNoFallbackMessage,
    "local_command_output": LocalCommandOutputMessage,
    "hook_started": HookStartedMessage,
    "hook_progress": HookProgressMessage,
    "hook_response": HookResponseMessage,
    "plugin_install": PluginInstallMessage,
    "task_started": TaskStartedMessage,
    "task_progress": TaskProgressMessage,
    "task_updated": TaskUpdatedMessage,
    "task_notification": TaskNotificationMessage,
    "background_tasks_changed": BackgroundTasksChangedMessage,
    "thinking_tokens": ThinkingTokensMessage,
    "session_state_changed": SessionStateChangedMessage,
    "worker_shutting_down": WorkerShuttingDownMessage,
    "commands_changed": CommandsChangedMessage,
    "notification": NotificationMessage,
    "files_persisted": FilesPersistedMessage,
    "memory_recall": MemoryRecallMessage,
    "elicitation_complete": ElicitationCompleteMessage,
    "permission_denied": PermissionDeniedMessage,
    "mirror_error": MirrorErrorMessage,
    "informational": InformationalMessage,
    "session_writes_lost": SessionWritesLostMessage,
    "session_title_changed": SessionTitleChangedMessage,
    "post_turn_summary": PostTurnSummaryMessage,
    "task_summary": TaskSummaryMessage,
    "session_metadata": SessionMetadataMessage,
}


def class_of(subtype: str) -> type[SystemMessage]:
    """The class of a `system` message of this subtype."""
    return _CLASSES.get(subtype, UnknownSystemMessage)
