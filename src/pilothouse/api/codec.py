"""JSON as it comes in from others and goes out to them."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.protocol.strict import TooManyParts, check_parts, clean
from pilothouse.protocol.wire import parse

__all__ = ["TooManyParts", "check_parts", "encode_strictly"]


def encode_strictly(value: Any) -> bytes:
    """Return a value as JSON that every reader takes, whatever a CLI has written into it."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=parse)
        return msgspec.json.encode(clean(plain))
