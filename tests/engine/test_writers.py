"""One writer per session, across processes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engine import writers as module
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.writers import Writers
from pilothouse.errors import NotNow, SessionTaken
from pilothouse.settings import load
from tests.support.waiting import DEADLINE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "writers"


def locks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.lock"))


HOLDER = """
import sys
from pathlib import Path
from pilothouse.engine.writers import Writers
held = Writers(Path(sys.argv[1])).acquire("s")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Has the session `s`, until the context ends or it is killed."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_session_has_one_writer(folder: Path) -> None:
    held = Writers(folder).acquire("s")
    with pytest.raises(SessionTaken, match=f"pid {os.getpid()}"):
        Writers(folder).acquire("s")
    other = Writers(folder).acquire("t")
    held.release()
    Writers(folder).acquire("s").release()
    other.release()


def test_another_process_that_has_it_is_named_and_its_end_frees_it(folder: Path) -> None:
    with another_process(folder) as process:
        with pytest.raises(SessionTaken, match=f"pid {process.pid}"):
            Writers(folder).acquire("s")
        process.kill()
    Writers(folder).acquire("s").release()


def test_a_release_leaves_no_file(folder: Path) -> None:
    writer = Writers(folder).acquire("s")
    assert locks(folder) == ["s.lock"]
    writer.release()
    writer.release()
    assert locks(folder) == []


def test_what_a_killed_process_left_is_removed_and_what_is_held_is_not(folder: Path) -> None:
    with another_process(folder) as process:
        held = Writers(folder).acquire("t")
        process.kill()
        process.wait(DEADLINE)
        assert locks(folder) == ["s.lock", "t.lock"]
        other = Writers(folder).acquire("u")
    assert locks(folder) == ["t.lock", "u.lock"]
    with pytest.raises(SessionTaken):
        Writers(folder).acquire("t")
    held.release()
    other.release()


def test_a_file_that_was_removed_in_the_meantime_is_not_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened by one while the other, who holds it, releases it."""
    first = Writers(folder).acquire("s")
    opened = module._open
    releasing = [first]

    def open_late(path: Path) -> int:
        descriptor = opened(path)
        if path.suffix == ".lock" and releasing:
            releasing.pop().release()
        return descriptor

    monkeypatch.setattr(module, "_open", open_late)
    second = Writers(folder).acquire("s")
    assert locks(folder) == ["s.lock"]
    with pytest.raises(SessionTaken):
        Writers(folder).acquire("s")
    second.release()


def test_one_who_tidies_up_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    path = folder / "s.lock"
    path.touch()
    looking = os.open(path, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    waited: list[float] = []

    def leave(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1:
            path.unlink(missing_ok=True)
            os.close(looking)

    monkeypatch.setattr(module.time, "sleep", leave)
    monkeypatch.setattr(Writers, "_tidy_once", lambda _: None)
    Writers(folder).acquire("s").release()
    assert len(waited) == 1


def test_two_never_have_it_at_once_while_others_come_and_go(folder: Path) -> None:
    inside: list[int] = []
    wrong: list[str] = []
    taken = threading.Semaphore(0)

    def come_and_go(number: int) -> None:
        for _ in range(200):
            try:
                # A new one tidies up as well.
                writer = Writers(folder).acquire("s")
            except SessionTaken:
                continue
            inside.append(number)
            if len(inside) > 1:
                wrong.append(f"{inside}")
            inside.remove(number)
            writer.release()
            taken.release()

    threads = [threading.Thread(target=come_and_go, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert wrong == []
    assert taken.acquire(blocking=False)
    assert locks(folder) == []


def test_a_folder_that_cannot_be_used_is_refused_with_advice(folder: Path) -> None:
    folder.touch()
    with pytest.raises(NotNow, match=r"no session can be locked in .*; see to that folder"):
        Writers(folder).acquire("s")


def test_what_a_relay_holds_with_us_stays_locked_when_we_let_go(folder: Path) -> None:
    writer = Writers(folder).acquire("s")
    shared = writer.fileno()
    assert shared is not None
    relays = os.dup(shared)
    os.ftruncate(relays, 0)
    os.pwrite(relays, b"4711", 0)
    writer.release()
    assert locks(folder) == ["s.lock"]
    with pytest.raises(SessionTaken, match="pid 4711"):
        Writers(folder).acquire("s")
    os.close(relays)
    Writers(folder).acquire("s").release()
    assert locks(folder) == []


def test_what_a_relay_held_with_us_is_removed_when_it_has_ended_before(folder: Path) -> None:
    writer = Writers(folder).acquire("s")
    assert writer.fileno() is not None
    writer.release()
    assert locks(folder) == []


def test_a_writer_that_was_taken_up_removes_the_file_once_its_relay_has_ended(folder: Path) -> None:
    first = Writers(folder).acquire("s")
    shared = first.fileno()
    assert shared is not None
    relays = os.dup(shared)
    first.leave()
    second = Writers(folder).take_up("s")
    third = Writers(folder).take_up("s")
    second.release()
    assert locks(folder) == ["s.lock"]
    os.close(relays)
    third.release()
    assert locks(folder) == []


def test_who_lets_go_twice_takes_nothing_from_the_next(folder: Path) -> None:
    first = Writers(folder).acquire("s")
    assert first.fileno() is not None
    first.release()
    second = Writers(folder).acquire("s")
    first.release()
    assert locks(folder) == ["s.lock"]
    second.release()


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(codec=None), max_size=300),
            st.text("./ab\0-_", max_size=12),
            st.from_regex(r"\A(\.\./){0,4}/?[a-z.]{0,8}\Z"),
        ),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_whatever_sessions_are_called_each_has_one_file_in_the_folder(names: list[str]) -> None:
    with TemporaryDirectory() as base:
        folder = Path(base) / "up/up/writers"
        beside = Path(base) / "up/beside.lock"
        beside.parent.mkdir()
        beside.write_text("precious")
        # Looked at before anything is written: a name that leads elsewhere must not get there.
        assert {Writers(folder).none(name)._path.parent for name in names} == {folder}
        held = [Writers(folder).acquire(name) for name in names]
        files = {path for path in Path(base).rglob("*") if path.is_file()}
        assert {path.parent for path in files - {beside}} == {folder}
        assert len(locks(folder)) == len(names)
        for each in held:
            each.release()
        assert locks(folder) == []
        assert beside.read_text() == "precious"


async def test_the_locks_are_where_the_transcripts_are_whatever_the_login(tmp_path: Path) -> None:
    """A login and a cron job have other runtime folders; the transcripts are the same."""
    home = {"HOME": str(tmp_path)}
    login = load(env={**home, "XDG_RUNTIME_DIR": str(tmp_path / "run")})
    cron = load(env=home, flags={"state_dir": tmp_path / "state"})
    first, second = (
        SessionEngine(each, journal=None).services.writers  # type: ignore[arg-type]  # none is used
        for each in (login, cron)
    )
    held = first.acquire("s")
    with pytest.raises(SessionTaken):
        second.acquire("s")
    held.release()
