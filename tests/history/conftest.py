from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.history.transcripts import Shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """An empty configuration folder."""
    return Shelf(tmp_path)
