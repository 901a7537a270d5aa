"""What a client may ask of the CLI, one struct per subtype of control request.

`Request[R]` is a request whose answer is an `R`; its class knows it as `reply`. A member left
unset is not written; None is written as null. The requests only the official clients are known to
use stand in `host_requests`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from msgspec import UNSET, UnsetType, field

from .control_replies import (
    AsyncMessageCancelled,
    BinaryVersion,
    Empty,
    FileContents,
    FileSuggestions,
    HooksListing,
    InitializeResult,
    InterruptReceipt,
    McpCallResult,
    McpOverrideSet,
    McpResource,
    McpSetServersResult,
    McpStatus,
    ModelList,
    ModelSet,
    PermissionModeSet,
    PermissionRules,
    ReloadedOutputStyles,
    ReloadedPlugins,
    ReloadedSkills,
    Reply,
    RewindResult,
    SessionCost,
    SettingsReport,
    TaskOutput,
)
from .hook_outputs import HookMatcher
from .mcp_servers import McpServerConfig
from .permissions import PermissionMode
from .reports import ContextUsage, Usage
from .shared import McpServerToolPolicy
from .wire import JsonObject, Lazy, Record, always

__all__ = [
    "AgentDefinition",
    "ApplyFlagSettings",
    "BackgroundTasks",
    "CancelAsyncMessage",
    "GetBinaryVersion",
    "GetContextUsage",
    "GetHooksListing",
    "GetMcpStatus",
    "GetSessionCost",
    "GetSettings",
    "GetTaskOutput",
    "GetUsage",
    "Initialize",
    "Interrupt",
    "ListModels",
    "ListPermissionRules",
    "McpCall",
    "McpCallInput",
    "McpCallOutput",
    "McpMessage",
    "McpReadResource",
    "McpReconnect",
    "McpSetServers",
    "McpToggle",
    "PluginConfig",
    "ReadFile",
    "RegisterRepoRoot",
    "ReloadOutputStyles",
    "ReloadPlugins",
    "ReloadSkills",
    "RenameSession",
    "Request",
    "RewindFiles",
    "SdkMcpServerConfig",
    "SdkMcpServerManifest",
    "SeedReadState",
    "SetColor",
    "SetHasSubscribers",
    "SetMaxThinkingTokens",
    "SetMcpPermissionModeOverride",
    "SetModel",
    "SetPermissionMode",
    "StopTask",
    "SuggestFiles",
    "ThinkingDisplay",
    "UntypedRequest",
    "UpdateSettings",
]

ThinkingDisplay = Literal["summarized", "omitted", "highlights"]

ReplyT = TypeVar("ReplyT", bound=Reply)


class Request(Lazy, Generic[ReplyT], tag_field="subtype"):
    """A control request whose answer is a `ReplyT`."""

    reply: ClassVar[type[Reply]] = Reply

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in cls.__dict__.get("__orig_bases__", ()):
            for reply in get_args(base):
                cls.reply = reply

    @property
    def subtype(self) -> str:
        """The request's `subtype` on the wire."""
        return str(self.__struct_config__.tag)


class AgentDefinition(Record):
    """An agent defined by the client."""

    description: str
    prompt: str
    tools: list[str] | UnsetType = UNSET
    disallowed_tools: list[str] | UnsetType = field(default=UNSET, name="disallowedTools")
    model: str | UnsetType = UNSET
    mcp_servers: list[Any] | UnsetType = field(default=UNSET, name="mcpServers")
    critical_system_reminder: str | UnsetType = field(
        default=UNSET, name="criticalSystemReminder_EXPERIMENTAL"
    )
    skills: list[str] | UnsetType = UNSET
    initial_prompt: str | UnsetType = field(default=UNSET, name="initialPrompt")
    max_turns: int | UnsetType = field(default=UNSET, name="maxTurns")
    auto_compact_window: int | UnsetType = field(default=UNSET, name="autoCompactWindow")
    background: bool | UnsetType = UNSET
    omit_claude_md: bool | UnsetType = field(default=UNSET, name="omitClaudeMd")
    memory: Literal["user", "project", "local"] | UnsetType = UNSET
    effort: str | float | UnsetType = UNSET
    permission_mode: str | UnsetType = field(default=UNSET, name="permissionMode")
    observer: str | UnsetType = UNSET
    observer_message: str | UnsetType = field(default=UNSET, name="observerMessage")


class PluginConfig(Record, rename="camel"):
    """A plugin to load."""

    path: str
    type: Literal["local"] = always("local")
    skip_mcp_discovery: bool | UnsetType = UNSET


class SdkMcpServerConfig(Record):
    """How an in-process MCP server is to be used."""

    timeout: float | UnsetType = UNSET
    tools: list[McpServerToolPolicy] | UnsetType = UNSET


class SdkMcpServerManifest(Record, rename="camel"):
    """What an in-process MCP server answers to the handshake."""

    initialize_result: JsonObject
    tools_list_result: JsonObject | UnsetType = UNSET


class Initialize(Request[InitializeResult], tag="initialize", rename="camel"):
    """Begin, or re-register hooks on a running CLI."""

    hooks: dict[str, list[HookMatcher]] | UnsetType | None = UNSET
    sdk_mcp_servers: list[str] | UnsetType = UNSET
    sdk_mcp_server_configs: dict[str, SdkMcpServerConfig] | UnsetType = UNSET
    sdk_mcp_server_manifests: dict[str, SdkMcpServerManifest] | UnsetType = UNSET
    sdk_mcp_server_manifests_origin: str | UnsetType = UNSET
    json_schema: JsonObject | UnsetType = UNSET
    system_prompt: list[str] | UnsetType = UNSET
    append_system_prompt: str | UnsetType = UNSET
    system_prompt_snapshot: bool | UnsetType = UNSET
    plan_mode_instructions: str | UnsetType = UNSET
    tool_aliases: dict[str, str] | UnsetType = UNSET
    exclude_dynamic_sections: bool | UnsetType = UNSET
    agents: dict[str, AgentDefinition] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    skills: list[str] | UnsetType = UNSET
    prompt_suggestions: bool | UnsetType = UNSET
    agent_progress_summaries: bool | UnsetType = UNSET
    forward_subagent_text: bool | UnsetType = UNSET
    supported_dialog_kinds: list[str] | UnsetType = UNSET
    per_task_stop_affordance: bool | UnsetType = UNSET
    plugins: list[PluginConfig] | UnsetType = UNSET
    append_subagent_system_prompt: str | UnsetType = UNSET
    code_running_mcp_tools: Any | UnsetType = UNSET
    web_search_isolation_exempt_mcp_servers: list[str] | UnsetType = UNSET
    rapid_followup_preempt: bool | UnsetType = UNSET
    forward_nested_subagent_tool_calls: bool | UnsetType = UNSET
    workspace_trust: Any | UnsetType = UNSET
    managed_settings: JsonObject | UnsetType = UNSET


class Interrupt(Request[InterruptReceipt], tag="interrupt"):
    """Stop the running turn."""

    cancel_queued: bool | UnsetType = UNSET


class SetPermissionMode(Request[PermissionModeSet], tag="set_permission_mode"):
    """Change the permission mode."""

    mode: PermissionMode


class SetMcpPermissionModeOverride(
    Request[McpOverrideSet], tag="set_mcp_permission_mode_override", rename="camel"
):
    """Change the permission mode for one MCP server's tools."""

    server_name: str
    mode: str | None


class SetModel(Request[ModelSet], tag="set_model"):
    """Switch the model; None is the default one."""

    model: str | UnsetType | None = UNSET


class SetMaxThinkingTokens(Request[Empty], tag="set_max_thinking_tokens"):
    """Limit the thinking; None lifts the limit."""

    max_thinking_tokens: int | UnsetType | None = UNSET
    thinking_display: ThinkingDisplay | UnsetType | None = UNSET


class ApplyFlagSettings(Request[Empty], tag="apply_flag_settings"):
    """Change settings for this process."""

    settings: JsonObject


class UpdateSettings(Request[Empty], tag="update_settings"):
    """Change a settings file."""

    source: Literal["localSettings", "userSettings"]
    settings: JsonObject


class GetSettings(Request[SettingsReport], tag="get_settings"):
    """Which settings are in force."""


class GetMcpStatus(Request[McpStatus], tag="mcp_status", rename="camel"):
    """Which MCP servers are connected."""

    live_reply: bool | UnsetType = UNSET


class McpSetServers(Request[McpSetServersResult], tag="mcp_set_servers"):
    """Replace the MCP servers that were set this way."""

    servers: dict[str, McpServerConfig]


class McpReconnect(Request[Empty], tag="mcp_reconnect", rename="camel"):
    """Connect an MCP server again."""

    server_name: str


class McpToggle(Request[Empty], tag="mcp_toggle", rename="camel"):
    """Turn an MCP server on or off."""

    server_name: str
    enabled: bool


class McpMessage(Request[Empty], tag="mcp_message"):
    """A message of an in-process MCP server's, from or to it."""

    server_name: str
    message: JsonObject


class McpCallInput(Record):
    """A file for the tool."""

    name: str
    lane_path: str


class McpCallOutput(Record):
    """A file the tool writes."""

    name: str
    lane_path: str
    if_match: str | UnsetType = UNSET


class McpCall(Request[McpCallResult], tag="mcp_call"):
    """Call an MCP server's tool without the model."""

    tool: str
    arguments: JsonObject | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    timeout_ms: float | UnsetType = UNSET
    result_not_for_model: bool | UnsetType = UNSET
    check_permissions: bool | UnsetType = UNSET
    input_files: list[McpCallInput] | UnsetType = UNSET
    output_files: list[McpCallOutput] | UnsetType = UNSET


class McpReadResource(Request[McpResource], tag="mcp_read_resource", rename="camel"):
    """Read a resource of an MCP server."""

    server_name: str
    uri: str


class GetContextUsage(Request[ContextUsage], tag="get_context_usage"):
    """What fills the context window."""

    detail: Literal["summary", "full"] | UnsetType = UNSET


class GetUsage(Request[Usage], tag="get_usage"):
    """What the session and the account have used."""

    skip_behaviors: bool | UnsetType = UNSET


class GetSessionCost(Request[SessionCost], tag="get_session_cost"):
    """What the session costs."""


class ListModels(Request[ModelList], tag="list_models"):
    """Which models there are."""


class GetBinaryVersion(Request[BinaryVersion], tag="get_binary_version"):
    """Which CLI this is."""


class SuggestFiles(Request[FileSuggestions], tag="file_suggestions"):
    """Files matching what the user typed."""

    query: str


class ReadFile(Request[FileContents], tag="read_file"):
    """Read a file as the CLI may."""

    path: str
    max_bytes: int | UnsetType = UNSET
    encoding: Literal["utf-8", "base64"] | UnsetType = UNSET


class SeedReadState(Request[Empty], tag="seed_read_state"):
    """Let the CLI take a file as read."""

    path: str
    mtime: float


class RewindFiles(Request[RewindResult], tag="rewind_files"):
    """Put files back to where they were at a prompt."""

    user_message_id: str
    dry_run: bool | UnsetType = UNSET


class CancelAsyncMessage(Request[AsyncMessageCancelled], tag="cancel_async_message"):
    """Withdraw a queued prompt."""

    message_uuid: str


class StopTask(Request[Empty], tag="stop_task"):
    """Stop a background task."""

    task_id: str


class BackgroundTasks(Request[Empty], tag="background_tasks"):
    """Move running tools to the background."""

    tool_use_id: str | UnsetType = UNSET


class GetTaskOutput(Request[TaskOutput], tag="get_task_output"):
    """What a task has written."""

    task_id: str


class RegisterRepoRoot(Request[Empty], tag="register_repo_root"):
    """Add a directory the session works in."""

    directory: str
    reload_claude_md: bool | UnsetType = UNSET
    reload_plugins: bool | UnsetType = UNSET
    reload_skills: bool | UnsetType = UNSET


class ReloadPlugins(Request[ReloadedPlugins], tag="reload_plugins"):
    """Load plugins again."""

    hold_on_cache_impact: bool | UnsetType = UNSET
    add_plugins: list[PluginConfig] | UnsetType = UNSET
    refuse_if_busy: bool | UnsetType = UNSET


class ReloadSkills(Request[ReloadedSkills], tag="reload_skills"):
    """Load skills again."""


class ReloadOutputStyles(Request[ReloadedOutputStyles], tag="reload_output_styles"):
    """Load output styles again."""


class ListPermissionRules(Request[PermissionRules], tag="list_permission_rules"):
    """Which permission rules are in force."""


class GetHooksListing(Request[HooksListing], tag="get_hooks_listing"):
    """Which hooks there are."""


class RenameSession(Request[Empty], tag="rename_session"):
    """Give the session a title."""

    title: str
    source: Literal["remote", "host"] | UnsetType = UNSET
    session_id: str | UnsetType = UNSET


class SetColor(Request[Empty], tag="set_color"):
    """Colour the session. Refused over stdio."""

    color: str


class SetHasSubscribers(Request[Empty], tag="set_has_subscribers"):
    """Say whether anybody watches the stream."""

    has_subscribers: bool | None


class UntypedRequest(Request[Reply], tag=False):
    """Any request, by its subtype and its members as they are on the wire."""

    kind: str
    fields: JsonObject

    @property
    def subtype(self) -> str:
        return self.kind
