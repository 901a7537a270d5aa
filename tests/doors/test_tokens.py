"""Tokens are their session's and their run's alone, and the key is its owner's alone."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.doors.tokens import Keyring
from pilothouse.errors import ServerError

KEYRING = Keyring(b"k" * 32)
WIRE = st.text(st.characters(max_codepoint=0x20FF))


def test_a_token_names_its_run() -> None:
    token = KEYRING.issue("a-session", "a-run")
    assert token.startswith("a-run.")
    assert KEYRING.run_of("a-session", token) == "a-run"


def test_another_sessions_token_is_none_of_ours() -> None:
    assert KEYRING.run_of("a-session", KEYRING.issue("another", "a-run")) is None


def test_a_token_cannot_be_turned_into_another_runs() -> None:
    code = KEYRING.issue("a-session", "a-run").rpartition(".")[2]
    assert KEYRING.run_of("a-session", f"b-run.{code}") is None


def test_where_the_session_ends_and_the_run_begins_cannot_be_moved() -> None:
    code = KEYRING.issue("ab", "cd").rpartition(".")[2]
    assert KEYRING.run_of("abc", f"d.{code}") is None
    assert KEYRING.run_of("a", f"bcd.{code}") is None


def test_another_key_makes_other_tokens_and_knows_that_they_are() -> None:
    other, token = Keyring(b"j" * 32), KEYRING.issue("s", "r")
    assert other.run_of("s", token) is None
    assert (other.is_foreign(token), KEYRING.is_foreign(token)) == (True, False)
    assert not KEYRING.is_foreign("a-run.abc")


@pytest.mark.parametrize(
    "token", ["", ".", "a-run", "a-run.", ".abc", "a-run.\xff\u20ac", "\udce4.x"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert KEYRING.run_of("a-session", token) is None


@given(WIRE, WIRE)
def test_whatever_comes_over_the_wire_is_refused_and_never_fails(session: str, token: str) -> None:
    assert KEYRING.run_of(session, token) is None


def test_the_key_is_made_once_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "key"
    token = Keyring.open(path).issue("s", "r")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert Keyring.open(path).run_of("s", token) == "r"
    assert list(tmp_path.iterdir()) == [path]


def test_those_who_make_it_at_the_same_time_have_the_same(tmp_path: Path) -> None:
    tokens: list[str] = []
    together = threading.Barrier(8)

    def open_it() -> None:
        together.wait()
        tokens.append(Keyring.open(tmp_path / "key").issue("s", "r"))

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 8
    assert len(set(tokens)) == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    Keyring.open(path)
    path.chmod(mode)
    with pytest.raises(ServerError, match="open to other users"):
        Keyring.open(path)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ServerError, match="holds no key"):
        Keyring.open(path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    Keyring.open(tmp_path / "real")
    (tmp_path / "key").symlink_to(tmp_path / "real")
    with pytest.raises(ServerError, match="it is a link"):
        Keyring.open(tmp_path / "key")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot be used"):
        Keyring.open(tmp_path / "nowhere" / "key")
