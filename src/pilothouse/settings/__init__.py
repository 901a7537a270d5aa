"""Every setting: a table, and the values that a file, the environment and flags give.

The error for a wrong value names the setting, its source and the allowed values.
"""

from __future__ import annotations

from .settings import CONFIG_VARIABLE, Settings, load
from .table import TABLE, Setting, reference

__all__ = ["CONFIG_VARIABLE", "TABLE", "Setting", "Settings", "load", "reference"]
