"""Lists of sessions, by the directory they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.engine.session_list import resolved


def test_a_directory_is_found_by_whatever_path_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert resolved(str(tmp_path / "link" / "link")) == str(tmp_path.resolve())
    assert resolved(str(tmp_path / "other")) != str(tmp_path.resolve())


@pytest.mark.parametrize("cwd", ["\0", "/a\0b", "/" + "a" * 5000, "/\ud800"])
def test_nobody_is_in_a_directory_that_cannot_be(cwd: str) -> None:
    assert resolved(cwd) != "/"


def test_a_link_to_itself_is_no_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert resolved(str(loop)) != "/"
