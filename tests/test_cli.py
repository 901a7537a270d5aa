"""The command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse import __version__
from pilothouse.cli import main


def test_the_demonstration_runs_without_a_cli_or_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "may Bash run" in shown
    assert "'All is well.\\n'" in shown
    assert "finished, 'The note is in note.txt.'" in shown


def test_the_doctor_fails_where_something_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CODE_PATH", str(tmp_path / "claude"))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "PROBLEM cli" in shown
    assert "->" in shown


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.strip() == f"pilothouse {__version__}"


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert "{demo,doctor,record}" in capsys.readouterr().err


def test_record_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["record"])
    assert left.value.code == 2
    assert "pilothouse record -- claude" in capsys.readouterr().err
