"""The close codes with which a door turns a relay away, or a relay a door.

A door that refuses accepts the WebSocket first: an HTTP status may come from anything in between,
so a relay takes every one of them for a passing trouble and tries again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["PERMANENT", "Refusal"]


class Refusal(IntEnum):
    TOKEN_REFUSED = 4001
    SESSION_UNKNOWN = 4003
    REPLACED = 4009
    """Another connection of the same run came later, and the newest wins."""
    SESSION_ENDED = 4010
    OTHER_SERVER = 4011
    """The token was issued by another server at this address, which may come back."""
    FRAME_REFUSED = 4400
    """What came is no frame, or not the one that had to come next: connect anew."""


PERMANENT: Final = frozenset(
    {Refusal.TOKEN_REFUSED, Refusal.SESSION_UNKNOWN, Refusal.SESSION_ENDED}
)
"""There is no use in coming back: the relay ends its CLI in order, at once."""
