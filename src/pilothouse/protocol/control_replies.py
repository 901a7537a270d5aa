"""What the CLI answers to each control request of a client's.

Every answer is a `Reply`: `raw` is its JSON, `extra` the members not declared here. The reports
on the context window and on usage, which are large, stand in `reports`.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from .shared import AccountInfo, AgentInfo, McpServerStatus, ModelInfo, SlashCommand
from .wire import JsonObject, Lazy, Record, always

__all__ = [
    "AsyncMessageCancelled",
    "BinaryVersion",
    "BrowserSelected",
    "CacheImpact",
    "ChromeBrowser",
    "ChromeBrowsers",
    "ChromeDialog",
    "Conversation",
    "CwdSet",
    "Empty",
    "FileContents",
    "FileSuggestions",
    "Forked",
    "HookCatalogEntry",
    "HookEditable",
    "HookEntry",
    "HookEventEntry",
    "HooksBareMode",
    "HooksListing",
    "HooksPolicy",
    "HooksSafeMode",
    "InitializeResult",
    "InterruptReceipt",
    "McpAuthentication",
    "McpCallResult",
    "McpOverrideSet",
    "McpResource",
    "McpSetServersResult",
    "McpStatus",
    "MemoryDialog",
    "ModelList",
    "ModelSet",
    "PermissionModeSet",
    "PermissionRuleDescription",
    "PermissionRuleEntry",
    "PermissionRules",
    "PermissionRulesState",
    "Plan",
    "ReloadedOutputStyles",
    "ReloadedPlugin",
    "ReloadedPlugins",
    "ReloadedSkills",
    "Reply",
    "ResourceContents",
    "RewindResult",
    "SandboxDialog",
    "SessionCost",
    "SettingsParseError",
    "SettingsReport",
    "SideAnswer",
    "SkillsDialog",
    "StatusSections",
    "TaskOutput",
    "Title",
    "WorkspaceDiff",
    "WorkspaceDirectory",
]


class Reply(Lazy):
    """The CLI's answer to a control request."""


class Empty(Reply):
    """Done; nothing more is said."""


class InitializeResult(Reply):
    """What the session is and can do."""

    commands: list[SlashCommand] = always([])
    agents: list[AgentInfo] = always([])
    output_style: str = always("")
    available_output_styles: list[str] = always([])
    models: list[ModelInfo] = always([])
    account: AccountInfo = always(AccountInfo())
    hooks_applied: bool | None = None
    hook_on_failure_supported: bool | None = None
    plugins_applied: bool | None = None
    sdk_mcp_manifests_parked: dict[str, str] = field(default_factory=dict)
    claude_code_version: str | None = None
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None
    pid: int | None = None
    session_state: str | None = None
    current_permission_mode: str | None = None
    capabilities: list[str] = field(default_factory=list)
    analytics_disabled: bool | None = None
    feedback_mode: JsonObject | None = None
    ide_rc_auto_enable_gate: bool | None = None
    other_hook_ask_outranks_host: bool | None = None
    remote_control_auto_connect_default: bool | None = None
    remote_control_auto_enable: bool | None = None
    remote_control_auto_on_by_default: bool | None = None
    remote_control_available: bool | None = None
    user_output_styles_dir: str | None = None


class InterruptReceipt(Reply):
    """Which queued prompts the interrupt left and which it cancelled."""

    still_queued: list[str] = always([])
    cancelled: list[str] = field(default_factory=list)


class PermissionModeSet(Reply):
    """The permission mode now."""

    mode: str = always("")


class ModelSet(Reply):
    """The model now, resolved; older CLIs do not say."""

    model: str | None = None


class McpOverrideSet(Reply):
    """The override was taken, perhaps with a warning."""

    warning: str | None = None


class SettingsReport(Reply):
    """The settings in force and where they come from."""

    effective: JsonObject = always({})
    sources: Any = always(None)
    applied: Any = always(None)
    errors: list[Any] = field(default_factory=list)


class McpStatus(Reply):
    """The MCP servers and whether they are connected."""

    servers: list[McpServerStatus] = always([], name="mcpServers")


class McpSetServersResult(Reply):
    """Which MCP servers were added, removed, or failed."""

    added: list[str] = always([])
    removed: list[str] = always([])
    errors: dict[str, str] = always({})


class McpCallResult(Reply, rename="camel"):
    """What an MCP tool gave back."""

    content: list[Any] = always([])
    structured_content: Any = None
    meta: JsonObject | None = field(default=None, name="_meta")
    staging: Any = None
    is_error: bool | None = None


class McpAuthentication(Reply, rename="camel"):
    """How a login to an MCP server goes on: the user opens `auth_url`, if it needs one."""

    requires_user_action: bool = always(False)
    callback_expected: bool | None = None
    auth_url: str | None = None
    redirect_scheme: str | None = None
    state: str | None = None
    callback_port: int | None = None


class ResourceContents(Record, rename="camel"):
    """The contents of one resource."""

    uri: str = always("")
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: JsonObject | None = field(default=None, name="_meta")


class McpResource(Reply):
    """The contents of an MCP resource."""

    contents: list[ResourceContents] = always([])


class SessionCost(Reply):
    """The cost of the session in words."""

    text: str = always("")


class ModelList(Reply):
    """The models there are."""

    models: list[ModelInfo] = always([])


class BinaryVersion(Reply, rename="camel"):
    """The CLI's version."""

    version: str = always("")
    build_time: str = always("")


class FileSuggestions(Reply):
    """Files that match what the user typed."""

    suggestions: list[Any] = always([])
    cwd: str = always("")


class FileContents(Reply, rename="camel"):
    """A file's contents."""

    contents: str = always("")
    abs_path: str = always("")
    truncated: bool | None = None
    encoding: str | None = None
    lossy: bool | None = None


class Forked(Reply, rename="camel"):
    """The session that goes on from a message, or why there is none."""

    forked: bool = always(False)
    session_id: str | None = None
    target_message_uuid: str | None = None
    prefill_text: str | None = None
    error: str | None = None
    reason: str | None = None


class RewindResult(Reply, rename="camel"):
    """What rewinding the files changed, or would change."""

    can_rewind: bool = always(False)
    error: str | None = None
    files_changed: list[str] = field(default_factory=list)
    insertions: int | None = None
    deletions: int | None = None
    skipped_links: int | None = None


class AsyncMessageCancelled(Reply):
    """Whether the queued prompt was withdrawn."""

    cancelled: bool = always(False)


class TaskOutput(Reply):
    """What a task has written."""

    output: str = always("")
    total_bytes: int = always(0)
    truncated: bool = always(False)


class ReloadedPlugin(Record):
    """A plugin after the reload."""

    name: str = always("")
    path: str = always("")
    source: str | None = None
    version: str | None = None


class CacheImpact(Record):
    """What a reload would do to the prompt cache."""

    mcp_servers_added: list[str] = always([])
    mcp_servers_removed: list[str] = always([])
    lsp_tool_change: str | None = always(None)


class ReloadedPlugins(Reply):
    """What there is after plugins were reloaded."""

    commands: list[SlashCommand] = always([])
    agents: list[AgentInfo] = always([])
    plugins: list[ReloadedPlugin] = always([])
    mcp_servers: list[McpServerStatus] = always([], name="mcpServers")
    error_count: int = always(0)
    held: bool | None = None
    cache_impact: CacheImpact | None = None


class ReloadedSkills(Reply):
    """The skills after the reload."""

    skills: list[SlashCommand] = always([])


class ReloadedOutputStyles(Reply):
    """The output styles after the reload."""

    available_output_styles: list[str] = always([])


class PermissionRuleDescription(Record):
    """A rule in words."""

    prefix: str = always("")
    emphasis: str | None = None
    suffix: str | None = None


class PermissionRuleEntry(Record, rename="camel"):
    """A permission rule in force."""

    behavior: str = always("")
    source: str = always("")
    rule: str = always("")
    description: PermissionRuleDescription | None = None
    editability: str = always("")
    not_in_effect: bool | None = None


class WorkspaceDirectory(Record):
    """A directory the session may work in."""

    path: str = always("")
    source: str = always("")


class SettingsParseError(Record):
    """A settings file that could not be read."""

    file: str | None = None
    path: str = always("")
    message: str = always("")


class PermissionRulesState(Record, rename="camel"):
    """All permission rules and directories."""

    rules: list[PermissionRuleEntry] = always([])
    workspace_directories: list[WorkspaceDirectory] = always([])
    original_cwd: str = always("")
    managed_only: bool = always(False)
    errors: list[SettingsParseError] = field(default_factory=list)
    withheld: bool | None = None


class PermissionRules(Reply):
    """All permission rules and directories."""

    state: PermissionRulesState = always(PermissionRulesState())


class HookEventEntry(Record, rename="camel"):
    """A hook event and how many hooks it has."""

    name: str = always("")
    summary: str = always("")
    supports_matcher: bool = always(False)
    hook_count: int = always(0)


class HookEditable(Record, rename="camel"):
    """A hook's configuration as it may be edited."""

    matcher: str = always("")
    config: JsonObject = always({})
    headers_redacted: bool | None = None


class HookEntry(Record, rename="camel"):
    """A configured hook."""

    event: str = always("")
    matcher: str = always("")
    source: str = always("")
    source_label: str = always("")
    plugin_name: str | None = None
    type: str = always("")
    display_text: str = always("")
    command_text: str = always("")
    content_label: str = always("")
    condition: str | None = None
    timeout: float | None = None
    status_message: str | None = None
    runs_once: bool | None = None
    runs_in_background: bool | None = None
    disabled: bool | None = None
    editable: HookEditable | None = None


class HookCatalogEntry(Record, rename="camel"):
    """A hook event there is."""

    name: str = always("")
    summary: str = always("")
    supports_matcher: bool = always(False)


class HooksPolicy(Record, rename="camel"):
    """What policy says of hooks."""

    disabled_by_policy: bool = always(False)
    managed_only: bool = always(False)
    plugin_only: bool = always(False)
    all_disabled: bool = always(False)
    policy_hook_count: int = always(0)
    policy_unreadable: bool | None = None


class HooksSafeMode(Record, rename="camel"):
    """Hooks are off: safe mode."""

    managed_hooks_still_apply: bool = always(False)
    exit_hint: str = always("")


class HooksBareMode(Record, rename="camel"):
    """Hooks are off: bare mode."""

    exit_hint: str = always("")


class HooksListing(Reply, rename="camel"):
    """The hooks there are and where they come from."""

    events: list[HookEventEntry] = always([])
    hooks: list[HookEntry] = always([])
    event_catalog: list[HookCatalogEntry] = always([])
    policy: HooksPolicy = always(HooksPolicy())
    safe_mode: HooksSafeMode | None = None
    bare_mode: HooksBareMode | None = None
    errors: list[SettingsParseError] = field(default_factory=list)


class CwdSet(Reply):
    """The working directory now."""

    cwd: str = always("")
    changed: bool = always(False)
    status: str = always("")
    directory: str | None = None
    transcript_relocated: bool | None = None


class Title(Reply):
    """A title for the session."""

    title: str | None = None


class SideAnswer(Reply):
    """The answer to a side question."""

    response: str | None = None
    synthetic: bool | None = None


class StatusSections(Reply):
    """The status page."""

    sections: list[Any] = always([])


class Plan(Reply):
    """The session's plan, where it has one."""

    exists: bool = always(False)
    content: str | None = None
    path: str | None = None


class WorkspaceDiff(Reply):
    """What changed in the workspace, or why that cannot be told."""

    diff: Any = always(None)
    no_diff_reason: str | None = field(default=None, name="noDiffReason")


class Conversation(Reply):
    """The conversation as text."""

    text: str = always("")
    default_filename: str = always("")


class MemoryDialog(Reply):
    """The files with instructions, the folders of memories, and what is remembered."""

    files: list[JsonObject] = always([])
    folders: list[JsonObject] = always([])
    memories: list[JsonObject] = field(default_factory=list)
    auto_memory: JsonObject = always({})
    auto_dream: JsonObject = always({})


class SkillsDialog(Reply):
    """The skills with their source, state, and size in tokens."""

    skills: list[JsonObject] = always([])


class SandboxDialog(Reply):
    """Whether commands run in a sandbox, and what it lets through."""

    supported: bool = always(False)
    unsupported_reason: str | None = None
    locked: bool = always(False)
    overrides_locked: bool = always(False)
    policy_origins: list[str] = field(default_factory=list)
    enabled: bool = always(False)
    enabled_in_settings: bool = always(False)
    unavailable_reason: str | None = None
    mode: str = always("")
    auto_allow_available: bool = always(False)
    no_sandbox_allowed: bool = always(False)
    unsandboxed_fallback: bool = always(False)
    dependencies: JsonObject = always({})
    excluded_commands: list[str] = always([])
    restrictions: JsonObject = always({})


class ChromeDialog(Reply):
    """Whether the browser extension may be used, is installed, and is connected."""

    allowed: bool = always(False)
    subscriber: bool = always(False)
    wsl: bool = always(False)
    installed: bool = always(False)
    connected: bool = always(False)
    paired_browser: str | None = None
    enabled_by_default: bool = always(False)
    at_startup: bool | None = None
    urls: dict[str, str] = always({})


class ChromeBrowser(Record):
    """A browser the session could use."""

    device_id: str = always("")
    name: str = always("")
    os_platform: str | None = None
    current: bool = always(False)


class ChromeBrowsers(Reply):
    """The connected browsers."""

    browsers: list[ChromeBrowser] = always([])


class BrowserSelected(Reply):
    """The browser in use now; its name where it is known."""

    name: str | None = None
