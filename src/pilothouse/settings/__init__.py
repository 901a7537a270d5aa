"""Every setting: a table, and the values that a file, the environment and flags give.

What is wrong with a value is said with its name, where it came from, and what is allowed.
"""

from __future__ import annotations

from .settings import CONFIG_VARIABLE, Settings, load
from .table import TABLE, Setting, reference

__all__ = ["CONFIG_VARIABLE", "TABLE", "Setting", "Settings", "load", "reference"]
