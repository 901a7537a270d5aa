"""Words that requests and results share: ids, states, contents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

__all__ = [
    "ID",
    "ID_HAS",
    "LONGEST_WORD",
    "MAX_WHOLE",
    "Content",
    "JsonObject",
    "Reached",
    "RequestData",
    "ResultData",
    "State",
    "Via",
    "Word",
    "is_id",
]

State = Literal["active", "awaiting_input", "done", "error", "interrupted"]
Via = Literal["relay", "stdio", "sdk-url", "sdk-url-hybrid"]
Reached = Literal["relay", "stdio", "sdk-url", "sdk-url-hybrid", "dial-in"]
"""How a CLI is reached: as a caller may choose, or because somebody has started it by hand."""
"""How a CLI is reached: through a relay that outlives the engine, as a child of the engine, or by
its own WebSocket, which CLIs up to 2.1.120 have (hybrid: what it says comes by HTTP POST)."""
JsonObject = dict[str, Any]
Content = str | list[JsonObject]
"""A text, or content blocks as the Messages API has them."""
ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""What the id of a session, of a question or of a message looks like."""
ID_HAS: Final = "it has letters, digits and . _ : - alone"
_id = re.compile(ID.replace("$", r"\Z"))
MAX_WHOLE: Final = 2**53 - 1
LONGEST_WORD: Final = 256
Word = Annotated[str, Meta(min_length=1, max_length=LONGEST_WORD)]
"""A label or an idempotency key."""


def is_id(words: str) -> bool:
    """Return whether this can be an id. An id has no character that means something in a path."""
    return _id.match(words) is not None


class RequestData(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a caller gives. A name that is not known is an error, not a silence."""


class ResultData(Struct, frozen=True, kw_only=True):
    """What an engine returns."""
