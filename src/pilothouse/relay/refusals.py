"""The close codes with which a door turns a relay away, or a relay a door.

Whoever shows no token of the door's is not even given a WebSocket: the door answers with an HTTP
status, and names the code in a header. A status alone may come from anything in between, so
without that header it is a passing trouble, and the relay tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

__all__ = ["HEADER", "PERMANENT", "Refusal", "refusal_in"]

HEADER: Final = "Pilothouse-Refusal"
"""Has the code of a refusal, in an HTTP answer to a WebSocket's request."""


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


def refusal_in(values: Sequence[str]) -> Refusal | None:
    """The refusal that the values of the header name; None if they name none."""
    return next((each for each in Refusal if list(values) == [str(each.value)]), None)
