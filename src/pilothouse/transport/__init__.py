"""Carries bytes between us and one Claude Code process; knows nothing of what they mean."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Exit, Receiver, SpawnFailed, Transport, TransportClosed, TransportError
    from .memory import MemoryTransport, pair
    from .stdio import StdioTransport

__all__ = [
    "Exit",
    "MemoryTransport",
    "Receiver",
    "SpawnFailed",
    "StdioTransport",
    "Transport",
    "TransportClosed",
    "TransportError",
    "pair",
]

_HOME_OF = {"MemoryTransport": "memory", "pair": "memory", "StdioTransport": "stdio"}


def __getattr__(name: str) -> object:
    # A relay needs the contract alone, and not asyncio, which costs each of them 3 MB.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'base')}"), name)
    globals()[name] = value
    return value
