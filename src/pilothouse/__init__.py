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
    from .api.engine import (
        Engine as Engine,
    )
    from .api.events import (
        Batch as Batch,
    )
    from .api.events import (
        Event as Event,
    )
    from .api.events import (
        Gap as Gap,
    )
    from .api.questions import (
        Answered as Answered,
    )
    from .api.records import (
        QuestionClosed as QuestionClosed,
    )
    from .api.records import (
        QuestionOpened as QuestionOpened,
    )
    from .api.records import (
        TurnEnded as TurnEnded,
    )
    from .api.records import (
        decode_record as decode_record,
    )
    from .api.requests import (
        Caps as Caps,
    )
    from .api.requests import (
        Fork as Fork,
    )
    from .api.requests import (
        Say as Say,
    )
    from .api.requests import (
        SessionOptions as SessionOptions,
    )
    from .api.requests import (
        Start as Start,
    )
    from .api.results import (
        CostReport as CostReport,
    )
    from .api.results import (
        Health as Health,
    )
    from .api.results import (
        Interrupted as Interrupted,
    )
    from .api.results import (
        Said as Said,
    )
    from .api.results import (
        Started as Started,
    )
    from .api.results import (
        Stopped as Stopped,
    )
    from .api.statuses import (
        Listing as Listing,
    )
    from .api.statuses import (
        Status as Status,
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
        ModelQuestion as ModelQuestion,
    )
    from .client.permissions import (
        PermissionRequest as PermissionRequest,
    )
    from .client.permissions import (
        PlanRequest as PlanRequest,
    )
    from .client.permissions import (
        QuestionOption as QuestionOption,
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
        OpenTask as OpenTask,
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
    from .doors.dial_in import (
        DialInDoor as DialInDoor,
    )
    from .doors.dial_in import (
        listen as listen,
    )
    from .engine.engine import (
        SessionEngine as SessionEngine,
    )
    from .errors import (
        AnswerRefused as AnswerRefused,
    )
    from .errors import (
        BypassNotAllowed as BypassNotAllowed,
    )
    from .errors import (
        CapReached as CapReached,
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
        ControlRefused as ControlRefused,
    )
    from .errors import (
        ControlTimeout as ControlTimeout,
    )
    from .errors import (
        DirectoryRefused as DirectoryRefused,
    )
    from .errors import (
        HookFailed as HookFailed,
    )
    from .errors import (
        InvalidOption as InvalidOption,
    )
    from .errors import (
        JournalError as JournalError,
    )
    from .errors import (
        JournalInUse as JournalInUse,
    )
    from .errors import (
        JournalTooNew as JournalTooNew,
    )
    from .errors import (
        KeyReused as KeyReused,
    )
    from .errors import (
        NotNow as NotNow,
    )
    from .errors import (
        PilothouseError as PilothouseError,
    )
    from .errors import (
        PolicyError as PolicyError,
    )
    from .errors import (
        QuestionSettled as QuestionSettled,
    )
    from .errors import (
        Refused as Refused,
    )
    from .errors import (
        ServerError as ServerError,
    )
    from .errors import (
        SessionEnded as SessionEnded,
    )
    from .errors import (
        SessionTaken as SessionTaken,
    )
    from .errors import (
        SettingError as SettingError,
    )
    from .errors import (
        TooManySessions as TooManySessions,
    )
    from .errors import (
        UnknownPrompt as UnknownPrompt,
    )
    from .errors import (
        UnknownQuestion as UnknownQuestion,
    )
    from .errors import (
        UnknownRunner as UnknownRunner,
    )
    from .errors import (
        UnknownSession as UnknownSession,
    )
    from .errors import (
        Unsupported as Unsupported,
    )
    from .errors import (
        UsageError as UsageError,
    )
    from .journal.sqlite import (
        SqliteJournal as SqliteJournal,
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
    from .remote import (
        RemoteEngine as RemoteEngine,
    )
    from .server.background import (
        connect as connect,
    )
    from .settings import (
        Settings as Settings,
    )
    from .settings import (
        load as load_settings,
    )

__all__ = [
    "Allow",
    "AnswerRefused",
    "Answered",
    "ApprovePlan",
    "AssistantMessage",
    "Batch",
    "BypassNotAllowed",
    "CLINotFound",
    "CLINotStarted",
    "CapReached",
    "Caps",
    "Choose",
    "ClearContext",
    "Client",
    "ClientEvent",
    "ControlError",
    "ControlRefused",
    "ControlTimeout",
    "CostReport",
    "Decline",
    "Deny",
    "DialInDoor",
    "Dialog",
    "DialogAnswer",
    "DirectoryRefused",
    "Dismiss",
    "ElicitationAnswer",
    "ElicitationRequest",
    "Engine",
    "Event",
    "Fill",
    "Fork",
    "Gap",
    "Health",
    "HookContext",
    "HookFailed",
    "Hooks",
    "Image",
    "InitMessage",
    "Interrupted",
    "InvalidOption",
    "JournalError",
    "JournalInUse",
    "JournalTooNew",
    "KeyReused",
    "LineRejected",
    "Listing",
    "Message",
    "ModelQuestion",
    "NotNow",
    "OpenTask",
    "Options",
    "PermissionMode",
    "PermissionRequest",
    "PilothouseError",
    "PlanRequest",
    "PolicyError",
    "Prompt",
    "QuestionClosed",
    "QuestionOpened",
    "QuestionOption",
    "QuestionRequest",
    "QuestionSettled",
    "Refused",
    "RejectPlan",
    "RemoteEngine",
    "ResultMessage",
    "RevisePlan",
    "Said",
    "Say",
    "ServerError",
    "SessionEnded",
    "SessionEngine",
    "SessionOptions",
    "SessionTaken",
    "SettingError",
    "Settings",
    "Skip",
    "SqliteJournal",
    "Stalled",
    "Start",
    "Started",
    "Status",
    "Stopped",
    "StreamEvent",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "TooManySessions",
    "ToolAnnotations",
    "ToolContext",
    "ToolRequest",
    "ToolResult",
    "ToolResultBlock",
    "ToolServer",
    "ToolUseBlock",
    "Turn",
    "TurnEnded",
    "UnknownMessage",
    "UnknownPrompt",
    "UnknownQuestion",
    "UnknownRunner",
    "UnknownSession",
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
    "connect",
    "decode_record",
    "deny_tool",
    "document",
    "image",
    "listen",
    "load_settings",
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
    "api.engine": ("Engine",),
    "api.events": (
        "Batch",
        "Event",
        "Gap",
    ),
    "api.questions": ("Answered",),
    "api.records": (
        "QuestionClosed",
        "QuestionOpened",
        "TurnEnded",
        "decode_record",
    ),
    "api.requests": (
        "Caps",
        "Fork",
        "Say",
        "SessionOptions",
        "Start",
    ),
    "api.results": (
        "CostReport",
        "Health",
        "Interrupted",
        "Said",
        "Started",
        "Stopped",
    ),
    "api.statuses": (
        "Listing",
        "Status",
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
        "QuestionOption",
        "PermissionRequest",
        "PlanRequest",
        "ModelQuestion",
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
        "OpenTask",
        "Stalled",
        "Turn",
        "WaitingOn",
    ),
    "doors.dial_in": (
        "DialInDoor",
        "listen",
    ),
    "engine.engine": ("SessionEngine",),
    "errors": (
        "AnswerRefused",
        "BypassNotAllowed",
        "CLINotFound",
        "CLINotStarted",
        "CapReached",
        "ControlError",
        "ControlRefused",
        "ControlTimeout",
        "DirectoryRefused",
        "HookFailed",
        "InvalidOption",
        "JournalError",
        "JournalInUse",
        "JournalTooNew",
        "KeyReused",
        "NotNow",
        "PilothouseError",
        "PolicyError",
        "QuestionSettled",
        "Refused",
        "ServerError",
        "SessionEnded",
        "SessionTaken",
        "SettingError",
        "TooManySessions",
        "UnknownPrompt",
        "UnknownQuestion",
        "UnknownRunner",
        "UnknownSession",
        "Unsupported",
        "UsageError",
    ),
    "journal.sqlite": ("SqliteJournal",),
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
    "remote": ("RemoteEngine",),
    "server.background": ("connect",),
    "settings": (
        "Settings",
        "load_settings",
    ),
}
_HOME_OF: dict[str, str] = {name: home for home, names in _HOMES.items() for name in names}

# What says too little outside of its room has a longer name here.
_AT_HOME: dict[str, str] = {"load_settings": "load"}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), _AT_HOME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
