"""How a browser comes in: by a link that works once, for a cookie that stands for the token.

The code of a link is in the URL's fragment, which a browser sends to nobody: no server, no proxy
and no log has it. The page takes it from there and sends it in a body.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

__all__ = [
    "ENTER",
    "HEADER",
    "LEAVE",
    "LINKS",
    "ME",
    "ConsoleLink",
    "EnterConsole",
    "LeaveConsole",
    "SignedIn",
    "SignedOut",
]

LINKS: Final = "/api/console/links"
ENTER: Final = "/console/enter"
LEAVE: Final = "/console/leave"
ME: Final = "/console/me"
HEADER: Final = "Pilothouse-Console"
"""A page of another site cannot send a header of this name without being asked who it is first."""

LONGEST_CODE: Final = 256


class ConsoleLink(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A link that signs one browser in, once."""

    url: str
    expires_at: int
    warning: str = ""
    """Why the link leads to no console, where it does not."""


class EnterConsole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a link is exchanged with."""

    code: Annotated[str, Meta(min_length=1, max_length=LONGEST_CODE)]
    """The part of the URL after `#enter=`."""


class LeaveConsole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is to be signed out."""

    everywhere: bool = False
    """Every browser, not this one alone."""


class SignedIn(Struct, frozen=True, kw_only=True):
    """That this browser is signed in."""

    since: int
    expires_at: int
    version: str
    """The server's."""
    signed_in: bool = True


class SignedOut(Struct, frozen=True, kw_only=True):
    """How many browsers were signed out."""

    browsers: int
