"""Where simulated sessions work: in a folder of their own, which stands for the caller's."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

__all__ = ["Scratch"]

LONGEST: Final = 40
"""Characters of a directory's own name that its folder here begins with."""


class Scratch:
    """Names a folder below `root` for each directory; sessions of one directory share it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder_for(self, cwd: str) -> str:
        """Return the folder that stands for a directory. One that is below `root` is its own."""
        if Path(cwd).is_relative_to(self._root):
            return cwd
        plain = re.sub(r"[^\w.-]+", "-", Path(cwd).name)[:LONGEST] or "root"
        return str(self._root / f"{plain}-{hashlib.sha256(cwd.encode()).hexdigest()[:12]}")
