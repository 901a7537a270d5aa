"""The engine over HTTP: the same contract, the same errors, another process."""

from __future__ import annotations

from .engine import RemoteEngine

__all__ = ["RemoteEngine"]
