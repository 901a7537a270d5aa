"""What a caller can ask of a CLI before it starts. Only what is set here reaches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.protocol.permissions import PermissionMode
from pilothouse.protocol.wire import JsonObject
from pilothouse.transport.base import LONGEST_LINE

if TYPE_CHECKING:
    from .elicitation import Dialog, DialogAnswer, ElicitationAnswer, ElicitationRequest
    from .hooks import Hooks
    from .permissions import HandlerAnswer, PermissionRequest, PlanRequest, QuestionRequest
    from .tools import ToolServer

__all__ = ["Effort", "Options", "SettingSource"]

Effort = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource = Literal["user", "project", "local"]

PermissionHandler = Callable[["PermissionRequest"], Awaitable["HandlerAnswer"]]
QuestionHandler = Callable[["QuestionRequest"], Awaitable["HandlerAnswer"]]
PlanHandler = Callable[["PlanRequest"], Awaitable["HandlerAnswer"]]
ElicitationHandler = Callable[["ElicitationRequest"], Awaitable["ElicitationAnswer"]]
DialogHandler = Callable[["Dialog"], Awaitable["DialogAnswer"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to start one CLI, and who answers what it asks.

    Every option that is left alone is left to the CLI and its own settings.
    """

    # The program and its surroundings
    cli_path: str | Path | None = None
    """The CLI; otherwise `CLAUDE_CODE_PATH`, PATH, and the usual install places."""
    cwd: str | Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Goes over the inherited environment."""
    inherit_env: bool = True
    """False: the CLI sees nothing but `env` and what Pilothouse itself sets."""
    extra_args: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Flags this version has no option for: name without dashes -> value, None for a switch."""
    client_app: str | None = None

    # The conversation
    session_id: str | None = None
    """A UUID; chosen for you, and known before the CLI starts, if you do not."""
    resume: str | None = None
    continue_latest: bool = False
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    persist_session: bool = True
    title: str | None = None
    enable_file_checkpointing: bool = False
    """Lets `rewind_files` work."""

    # The model
    model: str | None = None
    fallback_model: str | None = None
    effort: Effort | None = None
    thinking: Literal["adaptive", "disabled"] | None = None
    max_thinking_tokens: int | None = None
    thinking_display: Literal["summarized", "omitted", "highlights"] | None = None
    betas: Sequence[str] = ()
    max_turns: int | None = None
    max_budget_usd: float | None = None
    task_budget: int | None = None
    json_schema: JsonObject | None = None
    """Asks for a structured result of this shape."""

    # What it is told
    system_prompt: str | None = None
    system_prompt_file: str | Path | None = None
    append_system_prompt: str | None = None
    append_subagent_system_prompt: str | None = None
    exclude_dynamic_sections: bool | None = None
    system_prompt_snapshot: bool | None = None
    plan_mode_instructions: str | None = None
    agents: Mapping[str, JsonObject] | None = None
    agent: str | None = None
    skills: Sequence[str] | None = None

    # What it may do
    tools: Sequence[str] | Literal["default"] | None = None
    """The built-in tools there are; an empty list is none."""
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tool_aliases: Mapping[str, str] | None = None
    permission_mode: PermissionMode | None = None
    permission_prompt_tool: str | None = None
    """An MCP tool that answers permission requests instead of `on_permission`."""
    permission_prompts: Literal["host", "none"] | None = None
    allow_bypass: bool = False
    """The one gate to bypassPermissions: while it is False nothing here or later sets it."""
    add_dirs: Sequence[str | Path] = ()

    # Settings, servers, plugins
    settings: str | Path | JsonObject | None = None
    setting_sources: Sequence[SettingSource] | None = None
    managed_settings: JsonObject | None = None
    """No CLI takes these by file: everybody on the machine can read them in its command line."""
    mcp_servers: Mapping[str, JsonObject | ToolServer | Any] = field(
        default_factory=dict[str, "JsonObject | ToolServer | Any"]
    )
    """Name -> a server's configuration, a `ToolServer`, or a server object of the `mcp` package."""
    mcp_config: Sequence[str | Path] = ()
    strict_mcp_config: bool = False
    plugin_dirs: Sequence[str | Path] = ()
    plugin_dirs_without_mcp: Sequence[str | Path] = ()
    project_config_root: str | Path | None = None
    channels: Sequence[str] = ()

    # What it reports
    include_partial_messages: bool = False
    include_hook_events: bool = False
    session_mirror: bool = False
    prompt_suggestions: bool | None = None
    agent_progress_summaries: bool | None = None
    forward_subagent_text: bool | None = None
    verbatim_prompts: bool = False
    """Prompts are taken as they are: no `@path` expansion, no slash commands (CLI >= 2.1.248)."""
    debug: bool | str = False
    debug_file: str | Path | None = None

    # Who answers
    on_permission: PermissionHandler | None = None
    on_question: QuestionHandler | None = None
    on_plan: PlanHandler | None = None
    on_elicitation: ElicitationHandler | None = None
    on_dialog: DialogHandler | None = None
    dialog_kinds: Sequence[str] = ()
    """The kinds of dialog `on_dialog` can show; the CLI sends no others."""
    hooks: Hooks | None = None
    on_stderr: Callable[[str], None] | None = None

    # Limits of our own
    max_line: int | None = LONGEST_LINE
    """Bytes of one line; a longer one is a `LineRejected` event with its size. None: no limit."""
    stall_after: float | None = 60.0
    """Seconds of silence in a running turn after which a `Stalled` event says what it waits for."""
    deadlines: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    """Control subtype -> seconds to wait for its answer, over the defaults; None waits for ever."""
    close_grace: float = 5.0
    """Seconds the CLI gets to end by itself when its input closes, before it is terminated."""

    @property
    def answers_permissions(self) -> bool:
        """Whether somebody here answers what the CLI asks."""
        return bool(self.on_permission or self.on_question or self.on_plan)
