"""What stands in a runner's way is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.runner.main import main


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("a-token\n")
    file.chmod(0o600)
    return file


def run(tmp_path: Path, token: Path, *options: str, connect: str = "ws://127.0.0.1:9") -> int:
    given = ["--connect", connect, "--token-file", str(token), "--state", str(tmp_path / "state")]
    return main([*given, *options])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    "connect", ["nonsense", "ftp://host", "ws://", "ws://user:secret@host", "ws://host?token=x"]
)
def test_an_address_that_is_none_is_refused(
    tmp_path: Path, token: Path, connect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, token, connect=connect) == 2
    assert "secret" not in told(capsys)


def test_a_token_that_others_can_read_is_refused(
    tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token.chmod(0o640)
    assert run(tmp_path, token) == 2
    assert "chmod 600" in told(capsys)


def test_a_root_that_is_not_there_is_refused(
    tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, token, "--root", str(tmp_path / "missing")) == 2
    assert "is no directory" in told(capsys)


def test_authorities_that_cannot_be_read_are_refused(
    tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    assert run(tmp_path, token, "--ca", missing, connect="wss://127.0.0.1:9") == 2
    assert missing in told(capsys)


def test_a_token_in_the_command_line_is_not_taken(tmp_path: Path, token: Path) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, token, "--token", "a-token")
