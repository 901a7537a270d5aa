"""What a server leaves on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pilothouse.errors import ServerError
from pilothouse.server import runtime
from pilothouse.server.runtime import Lock, Running
from pilothouse.settings import load


def running(pid: int | None = None) -> Running:
    return Running(
        address="http://127.0.0.1:1",
        token="a-token-of-some-length",
        pid=os.getpid() if pid is None else pid,
        version="1",
        started_at=0,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return runtime.keep_private(tmp_path / "run", "runtime_dir")


@pytest.fixture
def lock(folder: Path):
    lock = Lock(folder / runtime.LOCK_NAME)
    yield lock
    lock.release()


def a_pid_that_is_gone() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_server_with_the_lock_is_found(folder: Path, lock: Lock) -> None:
    assert lock.acquire()
    runtime.publish(folder, running())
    assert runtime.find(folder) == running()


def test_the_file_is_for_its_user_alone(folder: Path, lock: Lock) -> None:
    lock.acquire()
    runtime.publish(folder, running())
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_file_without_the_lock_is_a_leftover_although_its_process_lives(folder: Path) -> None:
    runtime.publish(folder, running())
    assert runtime.find(folder) is None


def test_a_file_whose_process_is_gone_is_a_leftover_although_the_lock_is_held(
    folder: Path, lock: Lock
) -> None:
    lock.acquire()
    runtime.publish(folder, running(a_pid_that_is_gone()))
    assert runtime.find(folder) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"address": 3}'])
def test_a_file_that_makes_no_sense_is_a_leftover(folder: Path, lock: Lock, content: str) -> None:
    lock.acquire()
    path = folder / runtime.FILE_NAME
    path.touch(0o600)
    path.write_text(content)
    assert runtime.find(folder) is None


def test_nothing_is_found_where_nothing_ever_ran(tmp_path: Path) -> None:
    assert runtime.find(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_a_runtime_file_open_to_others_is_refused(folder: Path, lock: Lock) -> None:
    lock.acquire()
    runtime.publish(folder, running())
    (folder / runtime.FILE_NAME).chmod(0o640)
    with pytest.raises(ServerError, match="open to other users"):
        runtime.find(folder)


def test_a_folder_open_to_others_is_refused_with_the_next_step(folder: Path) -> None:
    folder.chmod(0o750)
    with pytest.raises(ServerError, match=f"chmod 700 {folder}"):
        runtime.keep_private(folder, "runtime_dir")
    with pytest.raises(ServerError, match="chmod 700"):
        runtime.find(folder)


def test_a_folder_of_somebody_else_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ServerError, match="belongs to another user; set runtime_dir"):
        runtime.keep_private(folder, "runtime_dir")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match="cannot be used as state_dir"):
        runtime.keep_private(tmp_path / "file" / "state", "state_dir")


@pytest.mark.parametrize("name", ["state_dir", "runtime_dir"])
def test_a_folder_that_is_there_but_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings = load(env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")})
    runtime.own_folders(settings)
    folder = getattr(settings, name)
    # Its rights alone would not stop a test that runs as root.
    monkeypatch.setattr(os, "access", lambda path, _: path != folder)
    told = f"{folder} cannot be written to; open it to yourself: chmod 700 {folder}"
    with pytest.raises(ServerError, match=f"{told}, or set {name} to another folder"):
        runtime.own_folders(settings)


def refused(path: Path) -> Any:
    return pytest.raises(ServerError, match=rf"{path} cannot be used: .+; see to its folder")


def test_what_the_system_refuses_is_one_line_with_the_next_step(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "taken").mkdir()
    with refused(folder / "taken"):
        Lock(folder / "taken").acquire()
    with refused(folder / "missing" / "lock"):
        Lock(folder / "missing" / "lock").acquire()
    (tmp_path / "file").touch()
    with refused(tmp_path / "file" / "lock"):
        Lock(tmp_path / "file" / "lock").is_held()
    with refused(folder / "missing" / runtime.TOKEN_NAME):
        runtime.token(folder / "missing")
    with refused(folder / "missing" / runtime.FILE_NAME):
        runtime.publish(folder / "missing", running())
    (folder / runtime.FILE_NAME).mkdir()
    with refused(folder / runtime.FILE_NAME):
        runtime.forget(folder)


def test_a_folder_that_cannot_be_looked_into_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    with refused(folder):
        runtime.find(folder)


def test_one_process_has_the_lock(folder: Path, lock: Lock) -> None:
    assert not lock.is_held()
    assert lock.acquire()
    other = Lock(folder / runtime.LOCK_NAME)
    assert other.is_held()
    assert not other.acquire()
    lock.release()
    assert not other.is_held()
    assert other.acquire()
    other.release()


def test_asking_whether_it_is_held_does_not_take_it(folder: Path, lock: Lock) -> None:
    for _ in range(3):
        assert not Lock(folder / runtime.LOCK_NAME).is_held()
    assert lock.acquire()


def test_the_token_is_made_once_and_kept_for_its_user_alone(folder: Path) -> None:
    made = runtime.token(folder)
    assert len(made) >= 43
    assert runtime.token(folder) == made
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    (folder / "token").unlink()
    assert runtime.token(folder) != made


def test_a_token_open_to_others_is_refused_with_the_next_step(folder: Path) -> None:
    runtime.token(folder)
    (folder / "token").chmod(0o644)
    with pytest.raises(ServerError, match="token is open to other users; delete it"):
        runtime.token(folder)


def test_a_token_of_somebody_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.token(folder)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ServerError, match="belongs to another user"):
        runtime.token(folder)


@pytest.mark.parametrize("content", ["", "short\n", "a token with spaces in it, and long\n"])
def test_a_file_that_holds_no_token_is_refused(folder: Path, content: str) -> None:
    runtime.token(folder)
    (folder / "token").write_text(content)
    with pytest.raises(ServerError, match="holds no token; delete it"):
        runtime.token(folder)


def test_a_token_behind_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.touch(0o600)
    (folder / "token").symlink_to(target)
    with pytest.raises(ServerError, match="it is a link; delete it"):
        runtime.token(folder)
