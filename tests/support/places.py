"""Where things lie in this repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = ROOT / "tests/data"
"""What real CLIs wrote, as `tests/data/record.py` recorded it."""
PROGRAMS: Final = ROOT / "tests/support/programs"
"""The scripts that tests start as processes of their own."""
