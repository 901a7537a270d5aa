"""Lists of sessions, by the directory they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.engine.session_list import merged
from pilothouse.engine.view import View


def listed(view: View, cwd: str) -> list[str]:
    return [each.session_id for each in merged([view], None, cwd=cwd, limit=5, offset=0).sessions]


def test_a_directory_is_found_by_whatever_path_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    view = View(session_id="one", cwd=str(tmp_path.resolve()))
    assert listed(view, str(tmp_path / "link" / "link")) == ["one"]
    assert listed(view, str(tmp_path / "other")) == []


@pytest.mark.parametrize("cwd", ["\0", "/a\0b", "/" + "a" * 5000, "/\ud800"])
def test_nobody_is_in_a_directory_that_cannot_be(cwd: str) -> None:
    assert listed(View(session_id="one", cwd="/"), cwd) == []


def test_a_link_to_itself_is_no_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert listed(View(session_id="one", cwd="/"), str(loop)) == []
