"""What lasts as long as a client is there."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["Context", "connection_of", "has_handshake"]

Context = ServerRequestContext[Any, Any]


def connection_of(ctx: Context) -> Connection:
    """The client's connection, whose end is the end of what is kept for it."""
    # The SDK gives handlers no other way to it.
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def has_handshake(ctx: Context) -> bool:
    """Whether the client speaks a version in which a server may tell and ask by itself."""
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
