"""One method for each control request a CLI answers, and `control` for any other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from msgspec import UNSET, UnsetType

from pilothouse.protocol import (
    ApplyFlagSettings,
    AsyncMessageCancelled,
    BackgroundTasks,
    BinaryVersion,
    BrowserSelected,
    CancelAsyncMessage,
    ChannelEnable,
    ChromeBrowser,
    ChromeDialog,
    ContextUsage,
    Conversation,
    CwdSet,
    EndSession,
    ExportConversation,
    FileContents,
    FileSuggestions,
    GenerateSessionTitle,
    GetBinaryVersion,
    GetChromeBrowsers,
    GetChromeDialog,
    GetContextUsage,
    GetHooksListing,
    GetMcpStatus,
    GetMemoryDialog,
    GetPlan,
    GetSandboxDialog,
    GetSessionCost,
    GetSettings,
    GetSkillsDialog,
    GetStatus,
    GetTaskOutput,
    GetUsage,
    GetWorkspaceDiff,
    HooksListing,
    Interrupt,
    InterruptReceipt,
    ListModels,
    ListPermissionRules,
    McpAuthenticate,
    McpAuthentication,
    McpCall,
    McpCallResult,
    McpClearAuth,
    McpMessage,
    McpOauthCallbackUrl,
    McpOverrideSet,
    McpReadResource,
    McpReconnect,
    McpResource,
    McpSetServers,
    McpSetServersResult,
    McpStatus,
    McpToggle,
    MemoryDialog,
    MessageRated,
    ModelInfo,
    ModelSet,
    PermissionMode,
    PermissionModeSet,
    PermissionRules,
    Plan,
    ReadFile,
    RegisterRepoRoot,
    ReloadedOutputStyles,
    ReloadedPlugins,
    ReloadedSkills,
    ReloadOutputStyles,
    ReloadPlugins,
    ReloadSkills,
    RenameSession,
    Reply,
    Request,
    RewindFiles,
    RewindResult,
    SandboxDialog,
    SeedReadState,
    SelectChromeBrowser,
    SessionCost,
    SetCwd,
    SetHasSubscribers,
    SetMaxThinkingTokens,
    SetMcpPermissionModeOverride,
    SetModel,
    SetPermissionMode,
    SetPromptSuggestionsPaused,
    SettingsReport,
    SideAnswer,
    SideQuestion,
    SkillsDialog,
    StatusSections,
    StopTask,
    SuggestFiles,
    TaskOutput,
    ThinkingDisplay,
    Title,
    UpdateSettings,
    Usage,
)
from pilothouse.protocol.control_requests import UntypedRequest
from pilothouse.protocol.wire import JsonObject, members

__all__ = ["Controls"]

R = TypeVar("R", bound=Reply)


def _given(value: Any) -> Any:
    """None is "leave it out" here: these requests know no null."""
    return UNSET if value is None else value


class Controls(ABC):
    """What can be asked of a running CLI. Each raises `ControlError` where the CLI refuses."""

    @abstractmethod
    async def request(
        self, request: Request[R], *, deadline: float | UnsetType | None = UNSET
    ) -> R:
        """Send one control request and wait for its typed answer."""

    async def control(
        self, subtype: str, *, deadline: float | UnsetType | None = UNSET, **fields: Any
    ) -> JsonObject:
        """Any other control request, with its fields as they are on the wire."""
        untyped = UntypedRequest(kind=subtype, fields=fields)
        return members((await self.request(untyped, deadline=deadline)).raw)

    # The turn

    async def interrupt(self, *, cancel_queued: bool = False) -> InterruptReceipt:
        """Stop the running turn. The receipt names queued prompts (empty on older CLIs)."""
        return await self.request(Interrupt(cancel_queued=True if cancel_queued else UNSET))

    async def cancel_prompt(self, uuid: str) -> bool:
        """Take back a queued prompt; False if it has left the queue."""
        reply: AsyncMessageCancelled = await self.request(CancelAsyncMessage(message_uuid=uuid))
        return reply.cancelled

    async def end_session(self) -> None:
        """Let the CLI end by itself, now."""
        await self.request(EndSession())

    async def side_question(self, question: str) -> SideAnswer:
        """Ask the model something that leaves no trace in the conversation."""
        return await self.request(SideQuestion(question=question))

    # Modes and models

    async def set_permission_mode(self, mode: PermissionMode) -> PermissionModeSet:
        """Change the permission mode."""
        return await self.request(SetPermissionMode(mode=mode))

    async def set_mcp_permission_mode(
        self, server_name: str, mode: Literal["default", "auto"] | None
    ) -> McpOverrideSet:
        """Override the mode for one MCP server; None takes the override back.

        A server the CLI does not know brings a warning, not an error.
        """
        return await self.request(SetMcpPermissionModeOverride(server_name=server_name, mode=mode))

    async def set_model(self, model: str | None) -> ModelSet:
        """Switch the model; None is the default one."""
        return await self.request(SetModel(model=model))

    async def set_max_thinking_tokens(
        self, tokens: int | None, *, display: ThinkingDisplay | UnsetType | None = UNSET
    ) -> None:
        """Limit the thinking; None lifts the limit."""
        await self.request(
            SetMaxThinkingTokens(max_thinking_tokens=tokens, thinking_display=display)
        )

    async def models(self) -> list[ModelInfo]:
        """The models there are."""
        return (await self.request(ListModels())).models

    # Settings and rules

    async def settings(self) -> SettingsReport:
        """The settings in force and where they come from."""
        return await self.request(GetSettings())

    async def apply_settings(self, settings: Mapping[str, Any]) -> None:
        """Change settings for this process only."""
        await self.request(ApplyFlagSettings(settings=dict(settings)))

    async def update_settings(
        self, source: Literal["localSettings", "userSettings"], settings: Mapping[str, Any]
    ) -> None:
        """Write to a settings file."""
        await self.request(UpdateSettings(source=source, settings=dict(settings)))

    async def permission_rules(self) -> PermissionRules:
        """The rules in force."""
        return await self.request(ListPermissionRules())

    async def hooks_listing(self) -> HooksListing:
        """The hooks there are."""
        return await self.request(GetHooksListing())

    # MCP servers

    async def mcp_status(self) -> McpStatus:
        """The MCP servers, their state and tools."""
        return await self.request(GetMcpStatus())

    async def mcp_set_servers(self, servers: Mapping[str, JsonObject]) -> McpSetServersResult:
        """Replace the servers that were set this way before."""
        return await self.request(McpSetServers(servers=dict(servers)))

    async def mcp_reconnect(self, server_name: str) -> None:
        """Connect to a server again."""
        await self.request(McpReconnect(server_name=server_name))

    async def mcp_toggle(self, server_name: str, *, enabled: bool) -> None:
        """Turn a server off or on."""
        await self.request(McpToggle(server_name=server_name, enabled=enabled))

    async def mcp_message(self, server_name: str, message: JsonObject) -> None:
        """Send an in-process server's own message, a notification say, to the CLI."""
        await self.request(McpMessage(server_name=server_name, message=message))

    async def mcp_call(
        self,
        tool: str,
        arguments: JsonObject | None = None,
        *,
        timeout_ms: float | None = None,
        check_permissions: bool | None = None,
    ) -> McpCallResult:
        """Call a tool of an MCP server without the model. Not for in-process servers."""
        return await self.request(
            McpCall(
                tool=tool,
                arguments=_given(arguments),
                timeout_ms=_given(timeout_ms),
                check_permissions=_given(check_permissions),
            )
        )

    async def mcp_read_resource(self, server_name: str, uri: str) -> McpResource:
        """Read a server's `ui://` resource."""
        return await self.request(McpReadResource(server_name=server_name, uri=uri))

    async def mcp_authenticate(
        self, server_name: str, *, redirect_uri: str | None = None, redirect_uri_only: bool = False
    ) -> McpAuthentication:
        """Begin a login to a server; the user opens the URL. `redirect_uri` may be replaced.

        With `redirect_uri_only` the CLI fails where it would come back to itself instead.
        """
        return await self.request(
            McpAuthenticate(
                server_name=server_name,
                redirect_uri=_given(redirect_uri),
                redirect_uri_only=True if redirect_uri_only else UNSET,
            )
        )

    async def mcp_oauth_callback_url(self, server_name: str, callback_url: str) -> None:
        """Hand over the URL the browser came back to after a login."""
        await self.request(McpOauthCallbackUrl(server_name=server_name, callback_url=callback_url))

    async def mcp_clear_auth(self, server_name: str) -> None:
        """Log out of a server."""
        await self.request(McpClearAuth(server_name=server_name))

    async def channel_enable(self, server_name: str) -> None:
        """Let a server that came with a plugin send prompts."""
        await self.request(ChannelEnable(server_name=server_name))

    # Figures

    async def context_usage(self, detail: Literal["summary", "full"] | None = None) -> ContextUsage:
        """What fills the context window."""
        return await self.request(GetContextUsage(detail=_given(detail)))

    async def usage(self, *, skip_behaviors: bool | None = None) -> Usage:
        """What the session and the account have used."""
        return await self.request(GetUsage(skip_behaviors=_given(skip_behaviors)))

    async def session_cost(self) -> SessionCost:
        """The cost, in words."""
        return await self.request(GetSessionCost())

    async def binary_version(self) -> BinaryVersion:
        """Which CLI this is."""
        return await self.request(GetBinaryVersion())

    async def status(self) -> StatusSections:
        """The status page."""
        return await self.request(GetStatus())

    # Files

    async def rewind_files(self, user_message_id: str, *, dry_run: bool = False) -> RewindResult:
        """Put files back to where they were at a prompt; `dry_run` only tells what would change.

        Needs `Options(enable_file_checkpointing=True)`.
        """
        return await self.request(
            RewindFiles(user_message_id=user_message_id, dry_run=True if dry_run else UNSET)
        )

    async def read_file(
        self,
        path: str,
        *,
        max_bytes: int | None = None,
        encoding: Literal["utf-8", "base64"] | None = None,
    ) -> FileContents:
        """Read a file through the CLI."""
        return await self.request(
            ReadFile(path=path, max_bytes=_given(max_bytes), encoding=_given(encoding))
        )

    async def seed_read_state(self, path: str, mtime: float) -> None:
        """Let the CLI take a file as already read, as of `mtime` (milliseconds)."""
        await self.request(SeedReadState(path=path, mtime=mtime))

    async def file_suggestions(self, query: str) -> FileSuggestions:
        """Files that match what was typed."""
        return await self.request(SuggestFiles(query=query))

    async def workspace_diff(self) -> JsonObject:
        """What changed in the workspace."""
        return members((await self.request(GetWorkspaceDiff())).raw)

    async def set_cwd(self, path: str, *, trusted_directory: str | None = None) -> CwdSet:
        """Work in another directory from here on.

        For one nobody has trusted yet the status is `needs_trust`, with its `directory`; say it
        again with that as `trusted_directory` to trust it.
        """
        trusted = UNSET if trusted_directory is None else True
        return await self.request(
            SetCwd(path=path, trust_accepted=trusted, trusted_directory=_given(trusted_directory))
        )

    async def register_repo_root(self, directory: str, **reload: bool) -> None:
        """Add a directory to the session. `reload_claude_md`, `reload_plugins`, `reload_skills`."""
        await self.request(RegisterRepoRoot(directory=directory, **reload))

    # Background work

    async def stop_task(self, task_id: str) -> None:
        """Stop background work."""
        await self.request(StopTask(task_id=task_id))

    async def background_tasks(self, tool_use_id: str | None = None) -> JsonObject:
        """Move a running tool, or all of them, to the background."""
        request = BackgroundTasks(tool_use_id=_given(tool_use_id))
        return members((await self.request(request)).raw)

    async def task_output(self, task_id: str) -> TaskOutput:
        """What a task has written."""
        return await self.request(GetTaskOutput(task_id=task_id))

    # The conversation

    async def rename_session(self, title: str) -> None:
        """Give the session a title."""
        await self.request(RenameSession(title=title))

    async def generate_session_title(
        self, description: str, *, persist: bool | None = None
    ) -> Title:
        """Let a model make a title."""
        return await self.request(
            GenerateSessionTitle(description=description, persist=_given(persist))
        )

    async def plan(self) -> Plan:
        """The session's plan."""
        return await self.request(GetPlan())

    async def export_conversation(self) -> Conversation:
        """The conversation as text."""
        return await self.request(ExportConversation())

    async def rate_message(
        self,
        message_uuid: str,
        sentiment: Literal["positive", "negative"],
        *,
        surface: Literal["tool_use", "assistant_text"] | None = None,
        cleared: bool = False,
    ) -> None:
        """Count a rating in the CLI's telemetry; `cleared` takes it back."""
        await self.request(
            MessageRated(
                message_uuid=message_uuid,
                sentiment=sentiment,
                surface=_given(surface),
                cleared=True if cleared else UNSET,
            )
        )

    # Plugins, skills, styles

    async def reload_plugins(
        self, *, refuse_if_busy: bool | None = None, hold_on_cache_impact: bool | None = None
    ) -> ReloadedPlugins:
        """Load plugins anew."""
        return await self.request(
            ReloadPlugins(
                refuse_if_busy=_given(refuse_if_busy),
                hold_on_cache_impact=_given(hold_on_cache_impact),
            )
        )

    async def reload_skills(self) -> ReloadedSkills:
        """Load skills anew."""
        return await self.request(ReloadSkills())

    async def reload_output_styles(self) -> ReloadedOutputStyles:
        """Load output styles anew."""
        return await self.request(ReloadOutputStyles())

    # What the CLI's own dialogs show

    async def memory_dialog(self) -> MemoryDialog:
        """Files with instructions, folders of memories, and whether the CLI adds to them."""
        return await self.request(GetMemoryDialog())

    async def skills_dialog(self) -> SkillsDialog:
        """The skills with their source, state, and size."""
        return await self.request(GetSkillsDialog())

    async def sandbox_dialog(self) -> SandboxDialog:
        """Whether commands run in a sandbox, what it lacks, and what it lets through."""
        return await self.request(GetSandboxDialog())

    async def chrome_dialog(self) -> ChromeDialog:
        """Whether the browser extension may be used, is installed, and is connected."""
        return await self.request(GetChromeDialog())

    async def chrome_browsers(self) -> list[ChromeBrowser]:
        """The connected browsers; refused while there is no connection to the extension."""
        return (await self.request(GetChromeBrowsers())).browsers

    async def select_chrome_browser(self, device_id: str) -> BrowserSelected:
        """Use another of the connected browsers."""
        return await self.request(SelectChromeBrowser(device_id=device_id))

    # What the CLI spends effort on for us

    async def set_has_subscribers(self, watched: bool | None) -> None:
        """Whether anybody watches the partial messages now."""
        await self.request(SetHasSubscribers(has_subscribers=watched))

    async def pause_prompt_suggestions(self, *, paused: bool) -> None:
        """Pause them, or go on."""
        await self.request(SetPromptSuggestionsPaused(paused=paused))
