"""Control requests that the official clients use and the CLI's typings do not declare."""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import UNSET, UnsetType

from .control_replies import (
    BrowserSelected,
    ChromeBrowsers,
    ChromeDialog,
    Conversation,
    CwdSet,
    Empty,
    Forked,
    McpAuthentication,
    MemoryDialog,
    Plan,
    Reply,
    SandboxDialog,
    SideAnswer,
    SkillsDialog,
    StatusSections,
    Title,
    WorkspaceDiff,
)
from .control_requests import Request
from .wire import tag_of

__all__ = [
    "CLIENT_REQUESTS",
    "ChannelEnable",
    "ClaimSession",
    "ClaudeAuthenticate",
    "ClaudeOauthCallback",
    "ClaudeOauthWaitForCompletion",
    "EndSession",
    "ExportConversation",
    "ForkConversation",
    "GenerateSessionTitle",
    "GetChromeBrowsers",
    "GetChromeDialog",
    "GetMemoryDialog",
    "GetPlan",
    "GetSandboxDialog",
    "GetSkillsDialog",
    "GetStatus",
    "GetWorkspaceDiff",
    "McpAuthenticate",
    "McpClearAuth",
    "McpOauthCallbackUrl",
    "MessageRated",
    "RemoteControl",
    "SelectChromeBrowser",
    "SetChromeBrowserHints",
    "SetCwd",
    "SetPromptSuggestionsPaused",
    "SideQuestion",
    "SubmitFeedback",
    "SubmitSurveyFeedback",
    "UltrareviewLaunch",
]


class EndSession(Request[Empty], tag="end_session"):
    """End the CLI: it answers, then exits."""


class ClaimSession(Request[Reply], tag="claim_session"):
    """Take over a prewarmed CLI."""

    include_initialize: bool | UnsetType = UNSET


class SetCwd(Request[CwdSet], tag="set_cwd"):
    """Change the working directory."""

    path: str
    trust_accepted: bool | UnsetType = UNSET
    trusted_directory: str | UnsetType = UNSET


class GenerateSessionTitle(Request[Title], tag="generate_session_title"):
    """Let a model make a title."""

    description: str
    persist: bool | UnsetType = UNSET


class SideQuestion(Request[SideAnswer], tag="side_question"):
    """Ask beside the conversation."""

    question: str
    history: Any | UnsetType = UNSET


class GetStatus(Request[StatusSections], tag="get_status"):
    """The status page."""


class GetPlan(Request[Plan], tag="get_plan"):
    """The session's plan."""


class ExportConversation(Request[Conversation], tag="export_conversation"):
    """The conversation as text."""


class ForkConversation(Request[Forked], tag="fork_conversation"):
    """Go on from a message in a session of its own. Refused unless it is remotely controlled."""

    target_message_uuid: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class GetWorkspaceDiff(Request[WorkspaceDiff], tag="get_workspace_diff"):
    """What changed in the workspace."""


class GetMemoryDialog(Request[MemoryDialog], tag="get_memory_dialog"):
    """What the memory dialog shows."""


class GetSkillsDialog(Request[SkillsDialog], tag="get_skills_dialog"):
    """What the skills dialog shows."""


class GetSandboxDialog(Request[SandboxDialog], tag="get_sandbox_dialog"):
    """What the sandbox dialog shows."""


class GetChromeDialog(Request[ChromeDialog], tag="get_chrome_dialog"):
    """What the browser dialog shows."""


class GetChromeBrowsers(Request[ChromeBrowsers], tag="get_chrome_browsers"):
    """Which browsers are connected."""


class SelectChromeBrowser(Request[BrowserSelected], tag="select_chrome_browser"):
    """Choose a browser."""

    device_id: str


class SetChromeBrowserHints(Request[Reply], tag="set_chrome_browser_hints"):
    """Hints for choosing a browser."""


class SetPromptSuggestionsPaused(Request[Empty], tag="set_prompt_suggestions_paused"):
    """Pause prompt suggestions."""

    paused: bool


class ChannelEnable(Request[Empty], tag="channel_enable", rename="camel"):
    """Let an MCP server send prompts."""

    server_name: str


class McpAuthenticate(Request[McpAuthentication], tag="mcp_authenticate", rename="camel"):
    """Log in to an MCP server."""

    server_name: str
    redirect_uri: str | UnsetType = UNSET
    redirect_uri_only: bool | UnsetType = UNSET


class McpClearAuth(Request[Empty], tag="mcp_clear_auth", rename="camel"):
    """Log out of an MCP server."""

    server_name: str


class McpOauthCallbackUrl(Request[Empty], tag="mcp_oauth_callback_url", rename="camel"):
    """Hand over the URL a login came back with."""

    server_name: str
    callback_url: str


class ClaudeAuthenticate(Request[Reply], tag="claude_authenticate"):
    """Log in to Claude."""


class ClaudeOauthCallback(Request[Reply], tag="claude_oauth_callback"):
    """Hand over what the login came back with."""


class ClaudeOauthWaitForCompletion(Request[Reply], tag="claude_oauth_wait_for_completion"):
    """Wait until the login is done."""


class RemoteControl(Request[Reply], tag="remote_control"):
    """Turn remote control on or off."""


class SubmitFeedback(Request[Empty], tag="submit_feedback"):
    """Send feedback."""


class SubmitSurveyFeedback(Request[Empty], tag="submit_survey_feedback"):
    """Send an answer to a survey."""


class MessageRated(Request[Empty], tag="message_rated", rename="camel"):
    """Rate a message."""

    message_uuid: str
    sentiment: Literal["positive", "negative"]
    surface: Literal["tool_use", "assistant_text"] | UnsetType = UNSET
    cleared: bool | UnsetType = UNSET


class UltrareviewLaunch(Request[Reply], tag="ultrareview_launch"):
    """Start a large review."""


_subclasses = cast(list[type[Request[Any]]], Request.__subclasses__())

CLIENT_REQUESTS = {tag_of(kind): kind for kind in _subclasses if tag_of(kind)}
"""Every request a client may make, by subtype."""
