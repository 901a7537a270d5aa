"""Property tests whose long form is cut into parts: workers share them, and none takes an hour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.support.switches import PROVING

PARTS: Final = 20 if PROVING else 1


def in_parts(test: Callable[..., Any]) -> Callable[..., Any]:
    """Let a test run as so many parts, each with its share of the examples, as its argument
    `part`. Each part of the long form draws examples of its own."""
    share = settings(max_examples=settings().max_examples // PARTS)(test)
    return pytest.mark.parametrize("part", range(PARTS))(share)
