"""The folders that stand for a caller's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.engine.scratch import Scratch


def test_sessions_of_one_directory_share_a_folder_and_others_do_not(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    one = scratch.folder_for("/home/me/boat")
    assert scratch.folder_for("/home/me/boat") == one
    assert scratch.folder_for("/home/you/boat") != one
    assert Path(one).parent == tmp_path
    assert Path(one).name.startswith("boat-")


@pytest.mark.parametrize("cwd", ["/", "/a b/ç d", f"/{'x' * 200}", "/home/.."])
def test_every_directory_has_a_name_below_the_root(cwd: str, tmp_path: Path) -> None:
    folder = Path(Scratch(tmp_path).folder_for(cwd))
    assert folder.parent == tmp_path
    assert len(folder.name) < 60


def test_a_folder_that_is_one_already_stands_for_itself(tmp_path: Path) -> None:
    own = str(tmp_path / "boat-1")
    assert Scratch(tmp_path).folder_for(own) == own
