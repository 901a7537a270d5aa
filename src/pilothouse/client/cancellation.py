"""Tells being cancelled from a cancellation that only passed through."""

from __future__ import annotations

import asyncio

__all__ = ["is_being_cancelled"]


def is_being_cancelled() -> bool:
    """Whether somebody cancels this very task; else a `CancelledError` is a handler's failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
