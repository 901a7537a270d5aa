"""The addresses of resources: what is at which."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "SESSIONS",
    "STATUS_TEMPLATE",
    "TRANSCRIPT_TEMPLATE",
    "Place",
    "address_at",
    "address_of",
    "place_of",
    "session_of",
]

SESSIONS: Final = "pilothouse://sessions"
STATUS_TEMPLATE: Final = "pilothouse://sessions/{sessionId}"
TRANSCRIPT_TEMPLATE: Final = "pilothouse://sessions/{sessionId}/transcript{?before}"

_PATTERN: Final = re.compile(
    r"pilothouse://sessions(?:/(?P<session>[^/?#]+)(?P<transcript>/transcript"
    r"(?:\?before=(?P<before>[0-9]{1,18}))?)?)?/?"
)


class Place(NamedTuple):
    """What an address names: every session, one session, or what was said in it."""

    session_id: str | None = None
    transcript: bool = False
    before: int | None = None


def address_of(session_id: str, part: str = "") -> str:
    """The address of a session, or of a part of it."""
    address = f"{SESSIONS}/{quote(session_id, safe='')}"
    return f"{address}/{part}" if part else address


def place_of(address: str) -> Place | None:
    """What is at this address; None: nothing can be."""
    found = _PATTERN.fullmatch(address)
    if found is None:
        return None
    session, before = found["session"], found["before"]
    return Place(
        session_id=None if session is None else unquote(session),
        transcript=found["transcript"] is not None,
        before=None if before is None else int(before),
    )


def address_at(place: Place) -> str:
    """The one address under which changes of this place are told."""
    if place.session_id is None:
        return SESSIONS
    return address_of(place.session_id, "transcript" if place.transcript else "")


def session_of(address: str) -> str | None:
    """The one session that an address is about."""
    place = place_of(address)
    return None if place is None else place.session_id
