from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.folders import make_private, replace_private


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o300])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("umask")
def test_every_folder_that_is_made_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a/b/c"
    assert make_private(folder) == folder
    assert [mode(each) for each in (folder, *folder.parents[:2])] == [0o700] * 3


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    make_private(tmp_path / "a")
    make_private(tmp_path / "a/b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_what_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "none/at/all")
    for path in ("file", "file/below", "nowhere"):
        with pytest.raises(OSError, match=path.split("/")[0]):
            make_private(tmp_path / path)


@pytest.mark.usefixtures("umask")
def test_a_file_is_replaced_whole_and_is_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "a/names.json"
    (tmp_path / "a").mkdir(0o700)
    (tmp_path / "a").chmod(0o700)
    file.with_name("names.json.part").write_bytes(b"what a killed writer left")
    for content in (b"first", b"second"):
        replace_private(file, content)
        assert (file.read_bytes(), mode(file) & 0o177) == (content, 0)
    assert [each.name for each in file.parent.iterdir()] == ["names.json"]
