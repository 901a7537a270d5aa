"""How much work one decision may be. What a policy looks at is written by a model.

Work is counted, not timed, so that the same question gets the same decision on every machine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["TooMuch", "bounded", "spend"]

MOST: Final = 50_000_000
"""Steps of one decision. A step is a character compared, about ten nanoseconds at worst."""

_left: Final[ContextVar[list[int] | None]] = ContextVar("left", default=None)


class TooMuch(Exception):
    """A decision would be more work than it may be."""


@contextmanager
def bounded(steps: int = MOST) -> Generator[None]:
    """Whatever is decided in here takes no more steps than these."""
    token = _left.set([steps])
    try:
        yield
    finally:
        _left.reset(token)


def spend(steps: int) -> None:
    """To be called before the work is done. Raises TooMuch."""
    left = _left.get()
    if left is None:
        return
    left[0] -= steps
    if left[0] < 0:
        raise TooMuch
