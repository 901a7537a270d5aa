"""A journal in a file and one in memory, closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pilothouse.journal.sqlite import SqliteJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    opened = await SqliteJournal.open(path)
    yield opened
    await opened.aclose()


@pytest.fixture(params=["file", "memory"])
async def either(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[SqliteJournal]:
    opened = await SqliteJournal.open(path if request.param == "file" else None)
    yield opened
    await opened.aclose()
