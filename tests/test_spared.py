"""What `scripts/test` leaves to `scripts/prove` is named in lists: each name is that of a test."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import pytest

from tests.real import conftest as real

TESTS = Path(__file__).parent
LISTS = {
    "every version": (TESTS / "real", real.EVERY_VERSION),
    "every build": (TESTS / "real", real.EVERY_BUILD | real.BOTH_DIALECTS),
}


@pytest.mark.parametrize(("folder", "names"), LISTS.values(), ids=LISTS)
def test_every_name_in_a_list_is_that_of_a_test(folder: Path, names: Set[str]) -> None:
    text = "".join(each.read_text() for each in folder.glob("test_*.py"))
    assert [name for name in sorted(names) if f"def {name}(" not in text] == []
