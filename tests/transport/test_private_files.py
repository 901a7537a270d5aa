"""Files of a start: for their owner alone, and gone with it, however it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.transport import private_files
from pilothouse.transport.private_files import PREFIX, PrivateFiles

OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from pilothouse.transport.private_files import PrivateFiles
files = PrivateFiles()
print(files.write("a.json", b"hush"), flush=True)
sys.stdin.read()
files.remove()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    private_files._clear_once.cache_clear()


def owner(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process, and the file it has."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", OWNER, str(folder)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def write_one() -> None:
    files = PrivateFiles()
    files.write("b.json", b"")
    files.remove()


def test_what_was_written_is_read_as_it_is(folder: Path) -> None:
    files = PrivateFiles()
    path = files.write("prompt.txt", b"one\r\ntwo\rthree\n")
    assert files.read() == {path: "one\r\ntwo\rthree\n"}
    assert Path(path).is_relative_to(folder)
    files.remove()


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(folder: Path) -> None:
    process, left = owner(folder)
    with process:
        process.kill()
    assert left.read_bytes() == b"hush"
    write_one()
    assert list(folder.iterdir()) == []


def test_what_another_process_still_needs_stays(folder: Path) -> None:
    process, held = owner(folder)
    with process:
        write_one()
        assert held.read_bytes() == b"hush"
        process.communicate(timeout=30)
    assert list(folder.iterdir()) == []


def test_what_was_taken_for_left_before_it_was_locked_is_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = private_files.tempfile.mkdtemp

    def make_and_lose(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(private_files.tempfile, "mkdtemp", make_and_lose)
    files = PrivateFiles()
    assert Path(files.write("a", b"x")).read_bytes() == b"x"
    files.remove()
    assert len(made) == 2


def test_links_and_files_of_such_a_name_are_left_alone(folder: Path) -> None:
    precious = folder / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (folder / f"{PREFIX}link").symlink_to(precious)
    (folder / f"{PREFIX}file").touch()
    write_one()
    assert (precious / "file").exists()
    assert (folder / f"{PREFIX}file").exists()
