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
    └── HookFailed              a hook could not answer; the CLI is told so

What a `handler` of the caller's raises is never among them: it becomes a denial.
"""

from __future__ import annotations

__all__ = [
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
]


class PilothouseError(Exception):
    """Base of every error of ours."""


class UsageError(PilothouseError):
    """The caller asked for what cannot be. Nothing was sent."""


class BypassNotAllowed(UsageError):
    """bypassPermissions was asked for without `Options(allow_bypass=True)`."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} would bypass every permission check; "
            "pass Options(allow_bypass=True) if that is what you want"
        )


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
