"""Steer Claude Code sessions over the CLI's own stream-json and control protocol."""

from __future__ import annotations

from importlib import import_module

# What type checkers know as `typing.TYPE_CHECKING`; importing that costs more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api.answers import (
        Allow as Allow,
    )
    from .api.answers import (
        ApprovePlan as ApprovePlan,
    )
    from .api.answers import (
        Choose as Choose,
    )
    from .api.answers import (
        ClearContext as ClearContext,
    )
    from .api.answers import (
        Decline as Decline,
    )
    from .api.answers import (
        Deny as Deny,
    )
    from .api.answers import (
        Dismiss as Dismiss,
    )
    from .api.answers import (
        Fill as Fill,
    )
    from .api.answers import (
        RejectPlan as RejectPlan,
    )
    from .api.answers import (
        RevisePlan as RevisePlan,
    )
    from .api.answers import (
        Skip as Skip,
    )
    from .client.client import (
        Client as Client,
    )
    from .client.client import (
        ClientEvent as ClientEvent,
    )
    from .client.elicitation import (
        Dialog as Dialog,
    )
    from .client.elicitation import (
        DialogAnswer as DialogAnswer,
    )
    from .client.elicitation import (
        ElicitationAnswer as ElicitationAnswer,
    )
    from .client.elicitation import (
        ElicitationRequest as ElicitationRequest,
    )
    from .client.hooks import (
        HookContext as HookContext,
    )
    from .client.hooks import (
        Hooks as Hooks,
    )
    from .client.hooks import (
        add_context as add_context,
    )
    from .client.hooks import (
        allow_tool as allow_tool,
    )
    from .client.hooks import (
        ask_user as ask_user,
    )
    from .client.hooks import (
        block as block,
    )
    from .client.hooks import (
        deny_tool as deny_tool,
    )
    from .client.options import (
        Options as Options,
    )
    from .client.permissions import (
        Choice as Choice,
    )
    from .client.permissions import (
        PermissionRequest as PermissionRequest,
    )
    from .client.permissions import (
        PlanRequest as PlanRequest,
    )
    from .client.permissions import (
        Question as Question,
    )
    from .client.permissions import (
        QuestionRequest as QuestionRequest,
    )
    from .client.permissions import (
        ToolRequest as ToolRequest,
    )
    from .client.permissions import (
        WithUpdates as WithUpdates,
    )
    from .client.prompts import (
        Prompt as Prompt,
    )
    from .client.prompts import (
        document as document,
    )
    from .client.prompts import (
        image as image,
    )
    from .client.query import (
        query as query,
    )
    from .client.query import (
        run as run,
    )
    from .client.tools import (
        Image as Image,
    )
    from .client.tools import (
        ToolAnnotations as ToolAnnotations,
    )
    from .client.tools import (
        ToolContext as ToolContext,
    )
    from .client.tools import (
        ToolResult as ToolResult,
    )
    from .client.tools import (
        ToolServer as ToolServer,
    )
    from .client.tools import (
        attach as attach,
    )
    from .client.tools import (
        tool as tool,
    )
    from .client.turns import (
        BackgroundTask as BackgroundTask,
    )
    from .client.turns import (
        Stalled as Stalled,
    )
    from .client.turns import (
        Turn as Turn,
    )
    from .client.turns import (
        WaitingOn as WaitingOn,
    )
    from .errors import (
        BypassNotAllowed as BypassNotAllowed,
    )
    from .errors import (
        CLINotFound as CLINotFound,
    )
    from .errors import (
        CLINotStarted as CLINotStarted,
    )
    from .errors import (
        ControlError as ControlError,
    )
    from .errors import (
        ControlTimeout as ControlTimeout,
    )
    from .errors import (
        HookFailed as HookFailed,
    )
    from .errors import (
        InvalidOption as InvalidOption,
    )
    from .errors import (
        PilothouseError as PilothouseError,
    )
    from .errors import (
        SessionEnded as SessionEnded,
    )
    from .errors import (
        Unsupported as Unsupported,
    )
    from .errors import (
        UsageError as UsageError,
    )
    from .protocol import (
        AssistantMessage as AssistantMessage,
    )
    from .protocol import (
        InitMessage as InitMessage,
    )
    from .protocol import (
        LineRejected as LineRejected,
    )
    from .protocol import (
        Message as Message,
    )
    from .protocol import (
        PermissionMode as PermissionMode,
    )
    from .protocol import (
        ResultMessage as ResultMessage,
    )
    from .protocol import (
        StreamEvent as StreamEvent,
    )
    from .protocol import (
        SystemMessage as SystemMessage,
    )
    from .protocol import (
        TextBlock as TextBlock,
    )
    from .protocol import (
        ThinkingBlock as ThinkingBlock,
    )
    from .protocol import (
        ToolResultBlock as ToolResultBlock,
    )
    from .protocol import (
        ToolUseBlock as ToolUseBlock,
    )
    from .protocol import (
        UnknownMessage as UnknownMessage,
    )
    from .protocol import (
        UserMessage as UserMessage,
    )

__all__ = [
    "Allow",
    "ApprovePlan",
    "AssistantMessage",
    "BackgroundTask",
    "BypassNotAllowed",
    "CLINotFound",
    "CLINotStarted",
    "Choice",
    "Choose",
    "ClearContext",
    "Client",
    "ClientEvent",
    "ControlError",
    "ControlTimeout",
    "Decline",
    "Deny",
    "Dialog",
    "DialogAnswer",
    "Dismiss",
    "ElicitationAnswer",
    "ElicitationRequest",
    "Fill",
    "HookContext",
    "HookFailed",
    "Hooks",
    "Image",
    "InitMessage",
    "InvalidOption",
    "LineRejected",
    "Message",
    "Options",
    "PermissionMode",
    "PermissionRequest",
    "PilothouseError",
    "PlanRequest",
    "Prompt",
    "Question",
    "QuestionRequest",
    "RejectPlan",
    "ResultMessage",
    "RevisePlan",
    "SessionEnded",
    "Skip",
    "Stalled",
    "StreamEvent",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ToolAnnotations",
    "ToolContext",
    "ToolRequest",
    "ToolResult",
    "ToolResultBlock",
    "ToolServer",
    "ToolUseBlock",
    "Turn",
    "UnknownMessage",
    "Unsupported",
    "UsageError",
    "UserMessage",
    "WaitingOn",
    "WithUpdates",
    "__version__",
    "add_context",
    "allow_tool",
    "ask_user",
    "attach",
    "block",
    "deny_tool",
    "document",
    "image",
    "query",
    "run",
    "tool",
]

__version__ = "0.1.0"

# Public names load on first use: importing the package costs neither asyncio nor a decoder.
# Each stands three times: here, in `__all__`, and imported under TYPE_CHECKING for type checkers.
_HOMES: dict[str, tuple[str, ...]] = {
    "api.answers": (
        "Allow",
        "ApprovePlan",
        "Choose",
        "ClearContext",
        "Decline",
        "Deny",
        "Dismiss",
        "Fill",
        "RejectPlan",
        "RevisePlan",
        "Skip",
    ),
    "client.client": (
        "Client",
        "ClientEvent",
    ),
    "client.elicitation": (
        "Dialog",
        "DialogAnswer",
        "ElicitationAnswer",
        "ElicitationRequest",
    ),
    "client.hooks": (
        "HookContext",
        "Hooks",
        "add_context",
        "allow_tool",
        "ask_user",
        "block",
        "deny_tool",
    ),
    "client.options": ("Options",),
    "client.permissions": (
        "Choice",
        "PermissionRequest",
        "PlanRequest",
        "Question",
        "QuestionRequest",
        "ToolRequest",
        "WithUpdates",
    ),
    "client.prompts": (
        "Prompt",
        "document",
        "image",
    ),
    "client.query": (
        "query",
        "run",
    ),
    "client.tools": (
        "Image",
        "ToolAnnotations",
        "ToolContext",
        "ToolResult",
        "ToolServer",
        "attach",
        "tool",
    ),
    "client.turns": (
        "BackgroundTask",
        "Stalled",
        "Turn",
        "WaitingOn",
    ),
    "errors": (
        "BypassNotAllowed",
        "CLINotFound",
        "CLINotStarted",
        "ControlError",
        "ControlTimeout",
        "HookFailed",
        "InvalidOption",
        "PilothouseError",
        "SessionEnded",
        "Unsupported",
        "UsageError",
    ),
    "protocol": (
        "AssistantMessage",
        "InitMessage",
        "LineRejected",
        "Message",
        "PermissionMode",
        "ResultMessage",
        "StreamEvent",
        "SystemMessage",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "UnknownMessage",
        "UserMessage",
    ),
}
_HOME_OF: dict[str, str] = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
