"""Where relays and runners keep their files unless they are told."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["state"]


def state() -> Path:
    """The folder that `state_dir` is by default; settings are too much to load for a relay."""
    base = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative ones ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".local/state") / "pilothouse"
