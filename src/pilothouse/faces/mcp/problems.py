"""Errors as a model reads them: what is wrong, and what to do next."""

from __future__ import annotations

from typing import Final

from pilothouse.errors import (
    BypassNotAllowed,
    CapReached,
    CLINotFound,
    DirectoryRefused,
    NotNow,
    PilothouseError,
    QuestionSettled,
    ServerError,
    SessionTaken,
    TooManySessions,
    UnknownSession,
)

__all__ = [
    "FORM_CLOSED",
    "OTHERS_ANSWER",
    "OWN",
    "PERSON_ONLY",
    "SIGN_IN",
    "lacking",
    "told",
    "wants_sign_in",
]

SIGN_IN: Final = (
    "Claude Code is not signed in. A person has to run `claude` in a terminal on the machine of "
    "the session and use /login, or set ANTHROPIC_API_KEY for the Pilothouse server; then send "
    "the message again with claude_say"
)
PERSON_ONLY: Final = (
    "only a person may approve here (the operator's setting mcp_answers is `person`)"
)
OWN: Final = "the CLI that asks this is the one that calls: what it may do is not its own to decide"
OTHERS_ANSWER: Final = (
    "a person answers in another face of Pilothouse, or in a form that another client shows"
)
FORM_CLOSED: Final = "closed it without an answer"
"""In a note: a person was asked in a form, and has left it at that."""
_SIGNED_OUT: Final = ("not logged in", "/login", "invalid api key", "authentication_")

_NEXT: Final[tuple[tuple[type[PilothouseError], str], ...]] = (
    (UnknownSession, "claude_list lists every session"),
    (TooManySessions, "claude_list shows which are active; claude_interrupt stops one's turn"),
    (QuestionSettled, "claude_status tells what the session asks now"),
    (DirectoryRefused, "give another workingDirectory"),
    (CapReached, "a person has to raise the limit"),
    (NotNow, "claude_status tells what the session does now"),
    (SessionTaken, "claude_say with fork: true goes on in a copy of it"),
    (CLINotFound, "install it: npm install -g @anthropic-ai/claude-code"),
    (ServerError, "try again; `pilothouse doctor` in a terminal tells more"),
    (BypassNotAllowed, "or leave it out, and answer what the session asks"),
)


def told(error: PilothouseError) -> str:
    """Return the text of a tool error."""
    text = str(error).strip() or type(error).__name__
    if wants_sign_in(text):
        return f"{text}\n{SIGN_IN}"
    for kind, then in _NEXT:
        if isinstance(error, kind):
            return f"{text}. Next: {then}"
    return text


def lacking(lack: str) -> str:
    """Return the text of a tool error for a machine that cannot run sessions."""
    return f"no session can run here: {lack}"


def wants_sign_in(text: str | None) -> bool:
    """Return whether this is the message of a CLI that is not signed in."""
    lowered = (text or "").lower()
    return any(each in lowered for each in _SIGNED_OUT)
