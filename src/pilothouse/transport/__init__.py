"""Carries bytes between us and one Claude Code process; knows nothing of what they mean."""

from __future__ import annotations

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
