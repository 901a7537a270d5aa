"""The connection of a client, and what lasts as long as it does."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["Context", "connection_of", "has_handshake"]

Context = ServerRequestContext[Any, Any]


def connection_of(ctx: Context) -> Connection:
    """Return the client's connection; what belongs to the client ends with it."""
    # The SDK gives handlers no other way to it.
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def has_handshake(ctx: Context) -> bool:
    """Return whether the client speaks a version in which a server may send requests."""
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
