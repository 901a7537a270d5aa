"""The addresses of resources, and what they name."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "SESSIONS",
    "STATUS_TEMPLATE",
    "TRANSCRIPT_TEMPLATE",
    "ResourceTarget",
    "address_at",
    "address_of",
    "session_of",
    "target_of",
]

SESSIONS: Final = "pilothouse://sessions"
STATUS_TEMPLATE: Final = "pilothouse://sessions/{sessionId}"
TRANSCRIPT_TEMPLATE: Final = "pilothouse://sessions/{sessionId}/transcript{?before}"

_PATTERN: Final = re.compile(
    r"pilothouse://sessions(?:/(?P<session>[^/?#]+)(?P<transcript>/transcript"
    r"(?:\?before=(?P<before>[^/?#&]{1,1600}))?)?)?/?"
)


class ResourceTarget(NamedTuple):
    """What an address names: every session, one session, or what was said in it."""

    session_id: str | None = None
    transcript: bool = False
    before: str | None = None
    """The item that ends it; None: to the end."""


def address_of(session_id: str, part: str = "", *, before: str | None = None) -> str:
    """Return the address of a session, or of a part of it; `before`: up to that item."""
    address = f"{SESSIONS}/{quote(session_id, safe='')}"
    end = "" if before is None else f"?before={quote(before, safe='')}"
    return f"{address}/{part}{end}" if part else address


def target_of(address: str) -> ResourceTarget | None:
    """Return what this address names; None if it names nothing."""
    found = _PATTERN.fullmatch(address)
    if found is None:
        return None
    session, before = found["session"], found["before"]
    return ResourceTarget(
        session_id=None if session is None else unquote(session),
        transcript=found["transcript"] is not None,
        before=None if before is None else unquote(before),
    )


def address_at(target: ResourceTarget) -> str:
    """Return the one address under which changes of this target are reported."""
    if target.session_id is None:
        return SESSIONS
    return address_of(target.session_id, "transcript" if target.transcript else "")


def session_of(address: str) -> str | None:
    """Return the session that an address is about, if it is about one."""
    target = target_of(address)
    return None if target is None else target.session_id
