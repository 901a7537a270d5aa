"""Shapes which several messages, requests and replies have in common."""

from __future__ import annotations

from typing import Any

from msgspec import field

from .wire import JsonObject, Kept, Lazy, Record, always

__all__ = [
    "AccountInfo",
    "AgentInfo",
    "CacheCreation",
    "ContextReport",
    "ContextReportCategory",
    "DeferredToolUse",
    "ExtraUsage",
    "LimitScope",
    "LimitTarget",
    "McpResourceLink",
    "McpServerInfo",
    "McpServerProvenance",
    "McpServerStatus",
    "McpServerToolPolicy",
    "McpTool",
    "McpToolAnnotations",
    "Message",
    "MessageOrigin",
    "ModelInfo",
    "ModelUsage",
    "OutputTokensDetails",
    "OverLimit",
    "PermissionDenial",
    "RateLimit",
    "ReportAgent",
    "ReportMcpTool",
    "ReportMemoryFile",
    "ReportRateLimits",
    "ReportSkill",
    "ServerToolUsage",
    "SessionUsage",
    "SlashCommand",
    "SystemMessage",
    "TokenUsage",
    "UsageReport",
]


class Message(Kept, tag_field="type"):
    """One JSON object on the wire: `raw` is its line, `extra` the members not declared here."""

    uuid: str = ""
    session_id: str = ""

    @property
    def type(self) -> str:
        """The message's `type` on the wire."""
        return str(self.__struct_config__.tag)


class LazyMessage(Message, dict=True):
    """A message with parts that are read on demand: every kind but the stream event.

    What `Lazy` says of the instance dictionary holds here too.
    """


class SystemMessage(LazyMessage, tag="system"):
    """What the CLI says of itself; `subtype` tells which class it is."""

    subtype: str = always("")


class CacheCreation(Record):
    """Tokens written to the prompt cache, by lifetime."""

    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ServerToolUsage(Record):
    """Requests made by tools that run at the API."""

    web_search_requests: int = 0
    web_fetch_requests: int = 0


class OutputTokensDetails(Record):
    """What the output tokens were spent on."""

    thinking_tokens: int = 0


class TokenUsage(Lazy):
    """Tokens as the Messages API counts them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputTokensDetails | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: list[Any] | None = None
    fallback_credit: Any = None


class ModelUsage(Record, rename="camel"):
    """What one model has used. Totals of the process, unless said otherwise."""

    input_tokens: int = always(0)
    output_tokens: int = always(0)
    thinking_tokens: int | None = None
    cache_read_input_tokens: int = always(0)
    cache_creation_input_tokens: int = always(0)
    cache_creation_ephemeral_5m_input_tokens: int | None = field(
        default=None, name="cacheCreationEphemeral5mInputTokens"
    )
    cache_creation_ephemeral_1h_input_tokens: int | None = field(
        default=None, name="cacheCreationEphemeral1hInputTokens"
    )
    web_search_requests: int = always(0)
    cost_usd: float = always(0.0, name="costUSD")
    context_window: int = always(0)
    max_output_tokens: int = always(0)
    canonical_model: str | None = None
    provider: str | None = None
    cost_basis: str | None = None


class MessageOrigin(Record, rename="camel"):
    """Who or what a turn came from; `kind` says which members are there."""

    kind: str = always("")
    server: str = always("")
    from_: str = always("")
    from_mode: str | None = None
    name: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    body: str | None = None
    verified_peer_pid: int | None = None
    subkind: str | None = None
    fire_reason: str | None = None
    run_id: str | None = None
    producer: str | None = None


class McpServerInfo(Record):
    """How an MCP server names itself."""

    name: str = always("")
    version: str = always("")


class McpToolAnnotations(Record, rename="camel"):
    """Hints of an MCP tool."""

    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


class McpTool(Record):
    """A tool of an MCP server."""

    name: str = always("")
    description: str | None = None
    annotations: McpToolAnnotations | None = None
    meta: JsonObject | None = field(default=None, name="_meta")


class McpServerStatus(Record, rename="camel"):
    """An MCP server and whether it is connected."""

    name: str = always("")
    status: str = always("")
    server_info: McpServerInfo | None = None
    error: str | None = None
    config: JsonObject | None = None
    scope: str | None = None
    source: str | None = None
    transport: str | None = None
    tools: list[McpTool] = field(default_factory=list)


class McpServerProvenance(Record):
    """The MCP server a tool belongs to."""

    name: str = always("")
    source: str = always("")


class McpServerToolPolicy(Record):
    """What may be done with one tool of an MCP server."""

    name: str = always("")
    permission_policy: str | None = None
    org_max_permission: str | None = None


class McpResourceLink(Record, rename="camel"):
    """A resource of an MCP server's."""

    uri: str = always("")
    name: str = always("")
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: JsonObject | None = None


class SlashCommand(Record, rename="camel"):
    """A command the user may type."""

    name: str = always("")
    description: str = always("")
    argument_hint: str = always("")
    aliases: list[str] = field(default_factory=list)
    builtin: bool | None = None


class ModelInfo(Record, rename="camel"):
    """A model the session may switch to."""

    value: str = always("")
    resolved_model: str | None = None
    display_name: str = always("")
    description: str = always("")
    supports_effort: bool | None = None
    supported_effort_levels: list[str] = field(default_factory=list)
    supports_adaptive_thinking: bool | None = None
    supports_fast_mode: bool | None = None
    supports_auto_mode: bool | None = None
    supports_thinking_off: bool | None = None


class AgentInfo(Record):
    """An agent the session may start."""

    name: str = always("")
    description: str = always("")
    model: str | None = None


class AccountInfo(Record, rename="camel"):
    """The account the CLI is logged in with."""

    email: str | None = None
    organization: str | None = None
    subscription_type: str | None = None
    token_source: str | None = None
    api_key_source: str | None = None
    api_provider: str | None = None


class PermissionDenial(Record):
    """A tool use that was not permitted."""

    tool_name: str = always("")
    tool_use_id: str = always("")
    tool_input: JsonObject = always({})


class DeferredToolUse(Record):
    """A tool use left to the host."""

    id: str = always("")
    name: str = always("")
    input: JsonObject = always({})


class ContextReportCategory(Record):
    """One kind of content in the context window."""

    name: str = always("")
    tokens: int = always(0)
    kind: str = always("")


class OverLimit(Record):
    """By how much a limit is exceeded."""

    tokens_over: int = always(0)
    kind: str = always("")


class ReportMcpTool(Record):
    """An MCP tool's share of the context."""

    name: str = always("")
    server_name: str = always("")
    tokens: int = always(0)


class ReportMemoryFile(Record):
    """A memory file's share of the context."""

    path: str = always("")
    type: str = always("")
    tokens: int = always(0)


class ReportAgent(Record):
    """An agent's share of the context."""

    agent_type: str = always("")
    source: str = always("")
    tokens: int = always(0)


class ReportSkill(Record):
    """A skill's share of the context."""

    name: str = always("")
    source: str = always("")
    plugin_name: str | None = None
    tokens: int = always(0)


class ContextReport(Record):
    """The context window as /context reports it."""

    model: str = always("")
    total_tokens: int = always(0)
    raw_max_tokens: int = always(0)
    percentage: float = always(0.0)
    over_limit: OverLimit | None = None
    categories: list[ContextReportCategory] = always([])
    mcp_tools: list[ReportMcpTool] = always([])
    memory_files: list[ReportMemoryFile] = always([])
    agents: list[ReportAgent] = always([])
    skills: list[ReportSkill] = field(default_factory=list)


class SessionUsage(Record):
    """What the session has used."""

    total_cost_usd: float = always(0.0)
    total_api_duration_ms: float = always(0.0)
    total_duration_ms: float = always(0.0)
    total_lines_added: int = always(0)
    total_lines_removed: int = always(0)
    model_usage: dict[str, ModelUsage] = always({})


class LimitTarget(Record):
    """A model or surface a limit applies to."""

    display_name: str = always("")


class LimitScope(Record):
    """What a limit applies to."""

    model: LimitTarget | None = None
    surface: LimitTarget | None = None


class RateLimit(Record):
    """One limit of the account."""

    kind: str = always("")
    group: str = always("")
    percent: float = always(0.0)
    resets_at: str | None = always(None)
    scope: LimitScope | None = None
    severity: str = always("")
    is_active: bool = always(False)


class ExtraUsage(Record):
    """Usage beyond the plan."""

    is_enabled: bool = always(False)
    monthly_limit: float | None = always(None)
    used_credits: float | None = always(None)
    utilization: float | None = always(None)
    currency: str | None = None


class ReportRateLimits(Record):
    """The account's limits as /usage shows them."""

    limits: list[RateLimit] | None = always(None)
    extra_usage: ExtraUsage | None = None


class UsageReport(Record):
    """Usage and limits as /usage reports them."""

    session: SessionUsage = always(SessionUsage())
    rate_limits: ReportRateLimits | None = always(None)
