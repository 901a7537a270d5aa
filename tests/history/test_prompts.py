"""`history.jsonl`, read as it grows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.history.files import Fence
from pilothouse.history.prompts import Prompts
from tests.support.history.transcripts import Line, Shelf, encoded, session_id, typed


def prompts(shelf: Shelf) -> Prompts:
    return Prompts(shelf.typed, Fence(shelf.config_dir))


def firsts(it: Prompts) -> dict[str, str]:
    it.refresh()
    return {key: each.first for key, each in it.sessions.items()}


def test_the_first_prompt_of_each_session_is_kept(shelf: Shelf) -> None:
    shelf.type(typed(1, "one"), typed(2, "two"), typed(1, "more"))
    assert firsts(prompts(shelf)) == {session_id(1): "one", session_id(2): "two"}


def test_an_older_name_of_the_id_is_understood(shelf: Shelf) -> None:
    shelf.type({"display": "one", "session_id": session_id(1)})
    assert firsts(prompts(shelf)) == {session_id(1): "one"}


def test_what_is_added_is_read_and_nothing_else(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.type(typed(1, "one"))
    it = prompts(shelf)
    it.refresh()
    size, places, pread = shelf.typed.stat().st_size, list[int](), os.pread
    monkeypatch.setattr(os, "pread", lambda *of: places.append(of[2]) or pread(*of))
    it.refresh()
    assert (places, it.changes) == ([], 1)
    shelf.type(typed(2, "two"))
    assert len(firsts(it)) == 2
    assert (min(places), it.changes) == (size, 2)


def test_a_line_that_is_being_written_is_read_when_it_is_complete(shelf: Shelf) -> None:
    whole = encoded(typed(1, "one"))
    it = prompts(shelf)
    for part, expected in ((whole[:10], {}), (whole[10:], {session_id(1): "one"})):
        with shelf.typed.open("ab") as file:
            file.write(part)
        assert firsts(it) == expected


@pytest.mark.parametrize("text", [[typed(2, "2")], [typed(2, "22")], []])
def test_a_file_that_was_cut_or_rewritten_is_read_anew(shelf: Shelf, text: list[Line]) -> None:
    shelf.type(typed(1, "11"))
    it = prompts(shelf)
    it.refresh()
    before = shelf.typed.stat().st_mtime_ns
    while shelf.typed.stat().st_mtime_ns == before:  # until the clock of the disk has moved on
        shelf.typed.write_bytes(encoded(*text))
    assert list(firsts(it)) == ([session_id(2)] if text else [])


def test_another_file_in_its_place_is_read_anew_also_if_it_is_longer(shelf: Shelf) -> None:
    shelf.type(typed(1, "one"))
    it = prompts(shelf)
    it.refresh()
    new = shelf.typed.with_suffix(".new")
    new.write_bytes(encoded(typed(2, "two"), typed(3, "three")))
    new.rename(shelf.typed)
    assert list(firsts(it)) == [session_id(2), session_id(3)]


def test_a_file_that_goes_away_takes_its_prompts_along(shelf: Shelf) -> None:
    shelf.type(typed(1, "one"))
    it = prompts(shelf)
    assert firsts(it)
    shelf.typed.unlink()
    assert (firsts(it), it.problem, it.changes) == ({}, None, 2)


def test_a_link_that_leaves_the_folder_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(encoded(typed(1, "one")))
    shelf.typed.symlink_to(tmp_path / "outside")
    it = prompts(shelf)
    assert firsts(it) == {}
    assert it.problem == f"{shelf.typed}: a link that leaves the folder"


def test_a_link_within_the_folder_is_followed(shelf: Shelf) -> None:
    (shelf.config_dir / "real").write_bytes(encoded(typed(1, "one")))
    shelf.typed.symlink_to(shelf.config_dir / "real")
    assert firsts(prompts(shelf)) == {session_id(1): "one"}


def test_a_file_longer_than_what_is_read_at_once_is_read_whole(shelf: Shelf) -> None:
    pasted = {"1": {"content": "x" * 900_000}}
    shelf.type(*[typed(number, "p", pastedContents=pasted) for number in range(1, 5)])
    assert len(firsts(prompts(shelf))) == 4


def test_a_line_without_end_is_passed_over(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "pilothouse.history.prompts"
    monkeypatch.setattr(f"{module}._CHUNK", 500)
    monkeypatch.setattr(f"{module}._LONGEST", 1000)
    shelf.type(typed(1, "one"), typed(2, "two" * 1000), typed(3, "three"))
    assert list(firsts(prompts(shelf))) == [session_id(1), session_id(3)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100))
def test_arbitrary_bytes_spoil_no_line_but_their_own(shelf: Shelf, data: bytes) -> None:
    shelf.typed.write_bytes(
        data + b"\n" + encoded(typed(1, "one"), typed(2, "two", timestamp=1e300))
    )
    assert firsts(prompts(shelf)).items() >= {session_id(1): "one", session_id(2): "two"}.items()
