"""Names as the CLI makes them up for tasks and their runs.

The `secrets` module would do the same and take longer to import than everything else here.
"""

from __future__ import annotations

import os
import time

__all__ = ["agent_id", "run_id", "task_id"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def task_id() -> str:
    """The id of a command in the background, such as `bmh4ihzx2`."""
    return "b" + "".join(_DIGITS[byte % 36] for byte in os.urandom(8))


def agent_id() -> str:
    """The id of a sub-agent, such as `a638acab85f83e211`."""
    return "a" + os.urandom(8).hex()


def run_id() -> str:
    """The id of one run of a task, such as `0mwicbiuf-9ff3f467`: when it began, and chance."""
    left, digits = time.time_ns() // 1_000_000, ""
    while left:
        left, digit = divmod(left, 36)
        digits = _DIGITS[digit] + digits
    return f"{digits:0>9}-{os.urandom(4).hex()}"
