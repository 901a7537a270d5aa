"""The two large reports a client may ask for: what fills the context, and what was used."""

from __future__ import annotations

from msgspec import field

from .control_replies import Reply
from .shared import ExtraUsage, SessionUsage
from .wire import Record, always

__all__ = [
    "ApiUsage",
    "Behavior",
    "BehaviorFix",
    "BehaviorPeriod",
    "ContextAgent",
    "ContextCategory",
    "ContextMcpInstructions",
    "ContextMcpTool",
    "ContextMemoryFile",
    "ContextSkill",
    "ContextSkills",
    "ContextSlashCommands",
    "ContextUsage",
    "DeferredBuiltinTool",
    "GridCell",
    "MessageBreakdown",
    "ModelScopedWindow",
    "NamedShare",
    "NamedTokens",
    "Recommendation",
    "ToolCallTokens",
    "Usage",
    "UsageBehaviors",
    "UsageRateLimits",
    "UsageWindow",
]


class ContextCategory(Record, rename="camel"):
    """One kind of content in the context window."""

    id: str | None = None
    name: str = always("")
    tokens: int = always(0)
    color: str = always("")
    is_deferred: bool | None = None
    kind: str = always("")


class GridCell(Record, rename="camel"):
    """A cell of the picture of the context window."""

    color: str = always("")
    is_filled: bool = always(False)
    category_name: str = always("")
    tokens: int = always(0)
    percentage: float = always(0.0)
    square_fullness: float = always(0.0)


class ContextMemoryFile(Record):
    """A memory file's share."""

    path: str = always("")
    type: str = always("")
    tokens: int = always(0)


class ContextMcpTool(Record, rename="camel"):
    """An MCP tool's share."""

    name: str = always("")
    server_name: str = always("")
    tokens: int = always(0)
    is_loaded: bool | None = None


class ContextMcpInstructions(Record, rename="camel"):
    """An MCP server's instructions' share."""

    server_name: str = always("")
    tokens: int = always(0)


class DeferredBuiltinTool(Record, rename="camel"):
    """A built-in tool loaded on demand."""

    name: str = always("")
    tokens: int = always(0)
    is_loaded: bool = always(False)


class NamedTokens(Record):
    """A named share of the context."""

    name: str = always("")
    tokens: int = always(0)


class ContextAgent(Record, rename="camel"):
    """An agent's share."""

    agent_type: str = always("")
    source: str = always("")
    plugin_id: str | None = None
    path: str | None = None
    tokens: int = always(0)


class ContextSlashCommands(Record, rename="camel"):
    """The slash commands' share."""

    total_commands: int = always(0)
    included_commands: int = always(0)
    tokens: int = always(0)


class ContextSkill(Record, rename="camel"):
    """A skill's share."""

    name: str = always("")
    source: str = always("")
    plugin_name: str | None = None
    plugin_id: str | None = None
    path: str | None = None
    tokens: int = always(0)


class ContextSkills(Record, rename="camel"):
    """The skills' share."""

    total_skills: int = always(0)
    included_skills: int = always(0)
    tokens: int = always(0)
    skill_frontmatter: list[ContextSkill] = always([])


class ToolCallTokens(Record, rename="camel"):
    """A tool's share of the messages."""

    name: str = always("")
    call_tokens: int = always(0)
    result_tokens: int = always(0)


class MessageBreakdown(Record, rename="camel"):
    """What the messages consist of."""

    tool_call_tokens: int = always(0)
    tool_result_tokens: int = always(0)
    attachment_tokens: int = always(0)
    assistant_message_tokens: int = always(0)
    user_message_tokens: int = always(0)
    redirected_context_tokens: int = always(0)
    unattributed_tokens: int = always(0)
    tool_calls_by_type: list[ToolCallTokens] = always([])
    attachments_by_type: list[NamedTokens] = always([])


class ApiUsage(Record):
    """Tokens of the last API call."""

    input_tokens: int = always(0)
    output_tokens: int = always(0)
    cache_creation_input_tokens: int = always(0)
    cache_read_input_tokens: int = always(0)


class ContextUsage(Reply, rename="camel"):
    """What fills the context window."""

    categories: list[ContextCategory] = always([])
    total_tokens: int = always(0)
    max_tokens: int = always(0)
    raw_max_tokens: int = always(0)
    percentage: float = always(0.0)
    grid_rows: list[list[GridCell]] = always([])
    model: str = always("")
    memory_files: list[ContextMemoryFile] = always([])
    mcp_tools: list[ContextMcpTool] = always([])
    mcp_instructions: list[ContextMcpInstructions] = field(default_factory=list)
    deferred_builtin_tools: list[DeferredBuiltinTool] = field(default_factory=list)
    system_tools: list[NamedTokens] = field(default_factory=list)
    system_prompt_sections: list[NamedTokens] = field(default_factory=list)
    agents: list[ContextAgent] = always([])
    slash_commands: ContextSlashCommands | None = None
    skills: ContextSkills | None = None
    auto_compact_threshold: int | None = None
    autocompact_source: str | None = None
    is_auto_compact_enabled: bool = always(False)
    message_breakdown: MessageBreakdown | None = None
    api_usage: ApiUsage | None = always(None)


class UsageWindow(Record):
    """How far one limit is used."""

    utilization: float | None = always(None)
    resets_at: str | None = always(None)


class ModelScopedWindow(Record):
    """How far a model's limit is used."""

    display_name: str = always("")
    utilization: float | None = always(None)
    resets_at: str | None = always(None)


class UsageRateLimits(Record):
    """The account's limits."""

    five_hour: UsageWindow | None = None
    seven_day: UsageWindow | None = None
    seven_day_oauth_apps: UsageWindow | None = None
    seven_day_opus: UsageWindow | None = None
    seven_day_sonnet: UsageWindow | None = None
    model_scoped: list[ModelScopedWindow] = field(default_factory=list)
    extra_usage: ExtraUsage | None = None


class Behavior(Record):
    """A habit that costs usage."""

    key: str = always("")
    pct: float = always(0.0)
    count: int = always(0)


class Recommendation(Record):
    """Advice to use less."""

    key: str = always("")
    pct: float = always(0.0)
    title: str = always("")
    detail: str | None = None


class BehaviorFix(Record):
    """A fix on offer."""

    keys: list[str] = always([])
    messages: list[str] = always([])


class NamedShare(Record):
    """A named share of usage."""

    name: str = always("")
    pct: float = always(0.0)


class BehaviorPeriod(Record):
    """Habits over a day or a week."""

    request_count: int = always(0)
    session_count: int = always(0)
    behaviors: list[Behavior] = always([])
    recommendations: list[Recommendation] = field(default_factory=list)
    fix: BehaviorFix | None = None
    agents: list[NamedShare] = always([])
    skills: list[NamedShare] = always([])
    plugins: list[NamedShare] = always([])
    mcp_servers: list[NamedShare] = always([])


class UsageBehaviors(Record):
    """What drives usage."""

    day: BehaviorPeriod = always(BehaviorPeriod())
    week: BehaviorPeriod = always(BehaviorPeriod())


class Usage(Reply):
    """What the session and the account have used."""

    session: SessionUsage = always(SessionUsage())
    subscription_type: str | None = always(None)
    rate_limits_available: bool = always(False)
    rate_limits: UsageRateLimits | None = always(None)
    behaviors: UsageBehaviors | None = always(None)
