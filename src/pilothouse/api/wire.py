"""What goes over HTTP besides the contract's own data: bodies, frames, and errors with their codes.

The face and the engine over HTTP both read this, so that neither can drift from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Raw, Struct, field

from pilothouse import errors
from pilothouse.api.contract import Event, Gap, JsonObject, Question
from pilothouse.errors import PilothouseError, Refused
from pilothouse.protocol.permissions import PermissionMode
from pilothouse.protocol.strict import TooManyParts, check_parts, encode_strictly

__all__ = [
    "CODES",
    "PROBLEM",
    "SUBPROTOCOL",
    "TOKEN_PREFIX",
    "AddRunner",
    "Compact",
    "Control",
    "Done",
    "Drain",
    "DryRunText",
    "Enable",
    "Events",
    "Failed",
    "Frame",
    "Problem",
    "Rewind",
    "Servers",
    "SetMode",
    "SetModel",
    "SetThinking",
    "TooManyParts",
    "Withdraw",
    "Wrong",
    "check_parts",
    "code_of",
    "encode_strictly",
    "error_from",
]

PROBLEM: Final = "application/problem+json"
SUBPROTOCOL: Final = "pilothouse"
TOKEN_PREFIX: Final = "bearer."
"""A browser cannot set headers on a WebSocket: the token rides in an offered subprotocol."""


# Bodies of requests that take more than one plain thing


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request carries. A name that is not known is an error, not a silence."""


class Rewind(_Body, frozen=True):
    """Take the files back to where they were before this message."""

    prompt_id: Annotated[str, Meta(max_length=256)]
    preview: bool = False


class Compact(_Body, frozen=True):
    """Summarise the conversation, perhaps with a word on what to keep."""

    instructions: str | None = None


class SetMode(_Body, frozen=True):
    """The permission mode to work in."""

    mode: PermissionMode


class SetModel(_Body, frozen=True):
    """The model to use; null for the CLI's default."""

    model: str | None


class SetThinking(_Body, frozen=True):
    """How many tokens a thought may have; null for the CLI's default."""

    tokens: Annotated[int, Meta(ge=0, le=2**31)] | None


class Servers(_Body, frozen=True):
    """MCP servers by name, in place of those that were set before."""

    servers: dict[str, JsonObject]


class Enable(_Body, frozen=True):
    """Whether an MCP server is in use."""

    enabled: bool


class Control(_Body, frozen=True):
    """A control request of the CLI's protocol that is on the list of allowed ones."""

    subtype: Annotated[str, Meta(min_length=1, max_length=128)]
    fields: JsonObject = field(default_factory=dict[str, Any])


class AddRunner(_Body, frozen=True):
    """The name under which a machine is let in."""

    name: Annotated[str, Meta(max_length=256)]


class Drain(_Body, frozen=True):
    """Whether a runner is to take no new sessions."""

    draining: bool = True


class Withdraw(_Body, frozen=True):
    """Why an answer is no longer wanted."""

    because: Annotated[str, Meta(min_length=1, max_length=1000)]


class DryRunText(_Body, frozen=True):
    """A policy file's text, to be tried on past questions."""

    text: str


# Errors


class Wrong(Struct, frozen=True):
    """One member of a request that cannot be taken."""

    member: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was not done, and what to do instead (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    advice: str
    errors: list[Wrong] = []
    about: JsonObject = {}
    """What the error carries besides its words."""
    question: Question | None = None
    """The question as it was settled."""


CODES: Final[dict[str, type[PilothouseError]]] = {
    "answer-refused": errors.AnswerRefused,
    "bypass-not-allowed": errors.BypassNotAllowed,
    "cap-reached": errors.CapReached,
    "cli-not-found": errors.CLINotFound,
    "cli-not-started": errors.CLINotStarted,
    "control-error": errors.ControlError,
    "control-refused": errors.ControlRefused,
    "control-timeout": errors.ControlTimeout,
    "directory-refused": errors.DirectoryRefused,
    "error": errors.PilothouseError,
    "hook-failed": errors.HookFailed,
    "invalid-option": errors.InvalidOption,
    "journal-error": errors.JournalError,
    "journal-in-use": errors.JournalInUse,
    "journal-too-new": errors.JournalTooNew,
    "key-reused": errors.KeyReused,
    "not-now": errors.NotNow,
    "policy-error": errors.PolicyError,
    "question-settled": errors.QuestionSettled,
    "refused": errors.Refused,
    "server-error": errors.ServerError,
    "session-ended": errors.SessionEnded,
    "session-taken": errors.SessionTaken,
    "setting-error": errors.SettingError,
    "too-many-sessions": errors.TooManySessions,
    "unknown-prompt": errors.UnknownPrompt,
    "unknown-question": errors.UnknownQuestion,
    "unknown-runner": errors.UnknownRunner,
    "unknown-session": errors.UnknownSession,
    "unsupported": errors.Unsupported,
    "usage": errors.UsageError,
}
"""The code of each error of ours; the server and the engine over HTTP both go by it."""

_CODE_OF: Final = {kind: code for code, kind in CODES.items()}


def code_of(kind: type[BaseException]) -> str:
    """The code of an error's class, or of the nearest one above it that has one."""
    return next((_CODE_OF[each] for each in kind.__mro__ if each in _CODE_OF), "error")


def error_from(problem: Problem) -> PilothouseError:
    """The error a server meant: the class it raised, with its words and what else it carried."""
    kind = CODES.get(problem.code)
    if kind is None:
        return errors.ServerError(f"{problem.detail} ({problem.status} {problem.title})")
    if issubclass(kind, Refused):
        return kind(problem.detail, advice=problem.advice)
    # The others put their words together themselves, from what is not here any more.
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    error.__dict__.update(problem.about)
    return error


# Frames of the WebSocket


class Events(Struct, frozen=True, kw_only=True, tag_field="type", tag="events"):
    """What happened, in order, and where to go on."""

    events: Sequence[Event]
    cursor: int
    gaps: list[Gap] = field(default_factory=list[Gap])


class Done(Struct, frozen=True, kw_only=True, tag_field="type", tag="done"):
    """What came of a request."""

    id: str | int
    result: Raw


class Failed(Struct, frozen=True, kw_only=True, tag_field="type", tag="failed"):
    """Why a request was not done; without an id, why the socket closes."""

    problem: Problem
    id: str | int | None = None


Frame = Events | Done | Failed
Group = Literal["turn", "session", "project", "day"]
