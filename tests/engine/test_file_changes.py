"""What the call that somebody is asked about would change in its file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilothouse.api.answers import Deny
from pilothouse.api.questions import FileChange, Question
from pilothouse.engine.file_changes import LONGEST_FILE, change_asked_for
from pilothouse.errors import UnknownQuestion
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import OpenEngine

BOAT = "oak\nash\nelm\n"


def written(path: str | Path, content: str) -> Question:
    return asked("Write", file_path=str(path), content=content)


def asked(tool_name: str, **given: object) -> Question:
    return Question(
        id="q",
        session_id="s",
        kind="tool",
        state="open",
        title="",
        tool_name=tool_name,
        input=given,
    )


def lines_of(question: Question, cwd: Path) -> list[str]:
    change = change_asked_for(question, str(cwd))
    assert change.diff is not None, change.because
    return [line for hunk in change.diff.hunks for line in hunk.lines]


@pytest.mark.simulated
async def test_a_write_over_a_file_is_shown_against_it_while_it_is_asked_about(
    house: OpenEngine,
) -> None:
    it = await house(reply(tool("Write", file_path="boat.txt", content="oak\nfir\nelm\n")), "No.")
    (it.cwd / "boat.txt").write_text(BOAT)
    session_id = await it.start()
    question = await it.asked(session_id)
    change = await it.engine.file_change(question.id)
    assert change.diff is not None
    assert change.diff.hunks[0].lines == [" oak", "-ash", "+fir", " elm"]
    assert change.diff.path == str(it.cwd / "boat.txt")
    (it.cwd / "boat.txt").write_text("oak\n")
    again = await it.engine.file_change(question.id)
    assert again.diff is not None
    assert again.diff.hunks[0].lines == [" oak", "+fir", "+elm"], "it is the file as it is now"
    await it.engine.answer(question.id, Deny())
    assert await it.engine.file_change(question.id) == FileChange(), "nothing is asked any more"
    with pytest.raises(UnknownQuestion):
        await it.engine.file_change("nobody")


def test_an_edit_is_shown_with_the_lines_of_its_file(tmp_path: Path) -> None:
    boat = tmp_path / "boat.txt"
    boat.write_text(BOAT)
    edit = asked("Edit", file_path=str(boat), old_string="ash", new_string="fir")
    assert lines_of(edit, tmp_path) == [" oak", "-ash", "+fir", " elm"]
    boat.write_text("ash\nash\n")
    assert change_asked_for(edit, str(tmp_path)) == FileChange(), "which one is not said"
    every = asked("Edit", file_path=str(boat), old_string="ash", new_string="fir", replace_all=True)
    assert lines_of(every, tmp_path) == ["-ash", "-ash", "+fir", "+fir"]


@pytest.mark.parametrize(
    ("content", "because"),
    [
        (b"\xff\xfe", "it is no text"),
        (b"x" * (LONGEST_FILE + 1), "it is longer than 1 MB"),
        (b"same", "like that already"),
    ],
)
def test_what_cannot_be_compared_says_why(tmp_path: Path, content: bytes, because: str) -> None:
    (tmp_path / "boat.txt").write_bytes(content)
    change = change_asked_for(written("boat.txt", "same"), str(tmp_path))
    assert change.diff is None
    assert because in change.because


def test_nothing_is_waited_for_but_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, because in {
        "none": "There is no such file yet.",
        "pipe": "it is no regular file",
        ".": "Is a directory",
    }.items():
        change = change_asked_for(written(tmp_path / name, "x"), str(tmp_path))
        assert because in change.because


def test_line_ends_that_the_cli_keeps_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "boat.txt").write_bytes(b"oak\r\nash\r\n")
    lines = lines_of(written("boat.txt", "oak\nfir\n"), tmp_path)
    assert lines == [" oak", "-ash", "+fir"]


def test_nothing_hidden_deceives_whoever_decides(tmp_path: Path) -> None:
    (tmp_path / "boat.txt").write_text("oak\n")
    lines = lines_of(written("boat.txt", "oak\u202e\x1b[2K\n"), tmp_path)
    assert lines == ["-oak", "+oak\\u202e\\x1b[2K"]


def test_other_tools_and_odd_inputs_have_no_change(tmp_path: Path) -> None:
    (tmp_path / "boat.txt").write_text(BOAT)
    for question in (
        asked("Bash", command="rm boat.txt"),
        asked("Write", file_path=["boat.txt"], content="x"),
        asked("Write", file_path="boat.txt", content=3),
        asked("Write", file_path="~/boat.txt", content="x"),
        asked("Edit", file_path="boat.txt", old_string="", new_string="x"),
        asked("Edit", file_path="boat.txt", old_string="pine", new_string="x"),
    ):
        assert change_asked_for(question, str(tmp_path)) == FileChange()
