"""Whether a tool call runs, is asked about, or is refused, as CLI 2.1.325 decides it."""

from __future__ import annotations

from .judge import is_withdrawn, judge
from .rules import CliRule, parse_rule
from .settings import grant, load_settings, persist
from .state import PermissionState
from .verdict import Verdict

__all__ = [
    "CliRule",
    "PermissionState",
    "Verdict",
    "grant",
    "is_withdrawn",
    "judge",
    "load_settings",
    "parse_rule",
    "persist",
]
