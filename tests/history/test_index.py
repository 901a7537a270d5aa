"""What is kept for the next process."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pilothouse.history import History, index, scan
from tests.support.history.transcripts import Shelf, encoded, noted, said, session_id


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the transcripts that were opened."""
    opened: list[str] = []
    windows = scan.windows

    def counted(path: str, width: int) -> tuple[os.stat_result, bytes, bytes]:
        opened.append(Path(path).name)
        return windows(path, width)

    monkeypatch.setattr(scan, "windows", counted)
    return opened


async def test_the_next_process_reads_only_what_changed(shelf: Shelf, reads: list[str]) -> None:
    for number in (1, 2, 3):
        shelf.put(number)
    before = await shelf.history().list()
    reads.clear()
    assert await shelf.history().list() == before
    assert reads == []
    shelf.put(2, said("other"))
    shelf.path(3).unlink()
    page = await shelf.history().list()
    assert [each.title for each in page.found] == ["other", "Prompt 1"]
    assert reads == [f"{session_id(2)}.jsonl"]


async def test_without_a_file_for_it_nothing_is_kept(shelf: Shelf, reads: list[str]) -> None:
    shelf.put(1)
    before = set(shelf.config_dir.rglob("*"))
    for _ in range(2):
        await History(shelf.config_dir).list()
    assert len(reads) == 2
    assert set(shelf.config_dir.rglob("*")) == before


async def test_the_file_is_for_its_owner_alone_and_nothing_lies_beside_it(shelf: Shelf) -> None:
    shelf.put(1)
    history = shelf.history()
    await history.list()
    shelf.put(2)
    await history.list()
    assert stat.S_IMODE(shelf.index.stat().st_mode) == 0o600
    assert list(shelf.index.parent.iterdir()) == [shelf.index]


async def test_only_headers_are_kept(shelf: Shelf) -> None:
    shelf.put(1, said("prompt"), noted("x", message="a secret"), said("w" * 300 + "the end"))
    await shelf.history().list()
    kept = shelf.index.read_bytes()
    assert b"prompt" in kept
    assert b"a secret" not in kept
    assert b"the end" not in kept


async def test_a_damaged_file_is_made_anew(shelf: Shelf, reads: list[str]) -> None:
    shelf.put(1)
    expected = await shelf.history().list()
    good = shelf.index.read_bytes()
    for bad in (b"", good[:5], good[:-1], good + b"x", good[:-9] + b"?" + good[-8:], b"x" + good):
        shelf.index.write_bytes(bad)
        reads.clear()
        assert await shelf.history().list() == expected
        assert len(reads) == 1
        assert shelf.index.read_bytes() == good


async def test_a_file_of_another_version_or_shape_is_made_anew(
    shelf: Shelf, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(1)
    expected = await shelf.history().list()
    monkeypatch.setattr(index, "_MAGIC", b"pilothouse history 0\n")
    assert await shelf.history().list() == expected
    assert len(reads) == 2
    body = b"\xa4word"
    shelf.index.write_bytes(b"pilothouse history 0\n" + index._checksum(body) + body)
    assert await shelf.history().list() == expected
    assert len(reads) == 3


async def test_what_was_kept_of_another_folder_is_of_no_use(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(1)
    await shelf.history().list()
    other = Shelf(tmp_path / "other")
    page = await History(other.config_dir, index=shelf.index).list()
    assert page.found == []


async def test_a_file_that_cannot_be_written_is_done_without(shelf: Shelf) -> None:
    shelf.put(1)
    shelf.index.parent.touch()
    history = shelf.history()
    assert (await history.list()).total == 1
    shelf.index.parent.unlink()
    shelf.index.mkdir(parents=True)
    shelf.put(2)
    assert (await history.list()).total == 2
    assert list(shelf.index.parent.iterdir()) == [shelf.index]


async def test_a_large_index_is_not_written_for_every_line_that_is_added(shelf: Shelf) -> None:
    for number in range(1, 302):
        shelf.put(number)
    history = shelf.history()
    await history.list()
    first = shelf.index.stat().st_ino, shelf.index.read_bytes()
    for number in range(1, 5):
        with shelf.path(number).open("ab") as file:
            file.write(encoded(noted("ai-title", aiTitle=f"title {number}")))
        page = await history.list(limit=400)
        assert f"title {number}" in {each.title for each in page.found}
        is_same = (shelf.index.stat().st_ino, shelf.index.read_bytes()) == first
        assert is_same == (number < 4)
