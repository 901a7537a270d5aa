"""Every session on the machine, whoever made it: what lists show, and where its transcript is."""

from __future__ import annotations

from .found import FoundSession, HistoryPage
from .history import History

__all__ = ["FoundSession", "History", "HistoryPage"]
