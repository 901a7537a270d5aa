"""Every error Pilothouse raises.

    PilothouseError
    ├── UsageError              the caller asked for what cannot be; nothing was sent
    │   ├── BypassNotAllowed    a way to bypassPermissions that the caller did not open
    │   └── InvalidOption       an option, or a mix of options, that no CLI takes
    ├── CLINotFound             no `claude` where we looked
    ├── CLINotStarted           it was found, but could not be run
    ├── SessionEnded            the CLI is gone; every waiter gets this same one
    ├── ControlError            the CLI answered a control request with an error
    │   └── Unsupported         this CLI does not have it, or would ignore it
    ├── ControlTimeout          the CLI did not answer a control request in time
    ├── HookFailed              a hook could not answer; the CLI is told so
    ├── Refused                 an engine cannot do what it was asked; it says what to do instead
    │   ├── UnknownSession      no session has this id, here or on disk
    │   ├── UnknownQuestion     no question has this id
    │   ├── UnknownPrompt       no queued message has this id
    │   ├── UnknownRunner       no runner has this name
    │   ├── DirectoryRefused    the working directory is missing, or outside the allowed roots
    │   ├── SessionTaken        another process has this session's CLI
    │   ├── TooManySessions     as many CLIs as allowed are busy
    │   ├── QuestionSettled     it was answered, withdrawn or has expired before
    │   ├── AnswerRefused       the answer does not fit the question
    │   ├── KeyReused           the idempotency key was used for another request
    │   ├── CapReached          the money a session or a day may cost is spent
    │   ├── ControlRefused      this control request is not on the list of allowed ones
    │   └── NotNow              the session is in no state to do it
    ├── JournalError            the journal cannot be opened or written
    │   ├── JournalTooNew       a newer version wrote it
    │   └── JournalInUse        another server has it
    ├── PolicyError             a policy file is wrong; it says where
    ├── SettingError            a setting is wrong; it says which, and from where it came
    └── ServerError             a server cannot be started, or none can be reached

What a `handler` of the caller's raises is never among them: it becomes a denial.
"""

from __future__ import annotations

# What type checkers know as `typing.TYPE_CHECKING`; `import pilothouse` does without that module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
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
]


class PilothouseError(Exception):
    """Base of every error of ours."""


class UsageError(PilothouseError):
    """The caller asked for what cannot be. Nothing was sent."""


class BypassNotAllowed(UsageError):
    """bypassPermissions was asked for where nobody had allowed it."""

    def __init__(
        self,
        where: str,
        *,
        advice: str = "pass Options(allow_bypass=True) if that is what you want",
    ) -> None:
        super().__init__(f"{where} would bypass every permission check; {advice}")
        self.where = where
        self.advice = advice


class InvalidOption(UsageError):
    """An option, or a mix of options, that no CLI takes."""


class CLINotFound(PilothouseError):
    """No Claude Code CLI was found."""


class CLINotStarted(PilothouseError):
    """The CLI was found but could not be run."""


class SessionEnded(PilothouseError):
    """The CLI is gone. Carries how it ended and the last it wrote to stderr."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(f"{message}\n{stderr_tail.strip()}" if stderr_tail.strip() else message)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr_tail = stderr_tail


class ControlError(PilothouseError):
    """The CLI refused a control request."""

    def __init__(self, subtype: str, message: str, error_code: str | None = None) -> None:
        super().__init__(f"{subtype}: {message}")
        self.subtype = subtype
        self.message = message
        self.error_code = error_code


class Unsupported(ControlError):
    """This CLI does not have this control, or takes it without effect."""


class ControlTimeout(PilothouseError):
    """The CLI did not answer a control request in time. It may still act on it."""

    def __init__(self, subtype: str, seconds: float) -> None:
        super().__init__(f"{subtype}: no answer within {seconds:g} s")
        self.subtype = subtype
        self.seconds = seconds


class HookFailed(PilothouseError):
    """A hook has no answer; the CLI is told so and goes on as its `onFailure` says."""


class Refused(PilothouseError):
    """An engine cannot do what it was asked. `advice` says what to do instead."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.message = message
        self.advice = advice


class UnknownSession(Refused):
    """No session has this id, here or on disk."""


class UnknownQuestion(Refused):
    """No question has this id."""


class UnknownPrompt(Refused):
    """No queued message has this id."""


class UnknownRunner(Refused):
    """No runner has this name."""


class DirectoryRefused(Refused):
    """The working directory is missing, or outside the allowed roots."""


class SessionTaken(Refused):
    """Another process has this session's CLI."""


class TooManySessions(Refused):
    """As many CLIs as allowed are alive, and none of them is idle."""


class QuestionSettled(Refused):
    """The question was answered otherwise, was withdrawn, or has expired before."""

    def __init__(self, message: str, *, advice: str = "", question: Any = None) -> None:
        super().__init__(message, advice=advice)
        self.question = question
        """The `Question` as it was settled, where it is known."""


class AnswerRefused(Refused):
    """The answer does not fit the question."""


class KeyReused(Refused):
    """The idempotency key was used for another request."""


class CapReached(Refused):
    """The money a session or a day may cost is spent."""


class ControlRefused(Refused):
    """This control request is not on the list of allowed ones."""


class NotNow(Refused):
    """The session is in no state to do it."""


class JournalError(PilothouseError):
    """The journal cannot be opened or written."""


class JournalTooNew(JournalError):
    """A newer version wrote the journal."""


class JournalInUse(JournalError):
    """Another server has the journal."""


class PolicyError(PilothouseError):
    """A policy file is wrong; the message says where."""


class SettingError(PilothouseError):
    """A setting is wrong; the message says which, and from where it came."""


class ServerError(PilothouseError):
    """A server cannot be started, or none can be reached."""
