"""Configuration for the usual clients."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pilothouse.faces.mcp.configs import CLIENTS, command_of, config_of, print_config

COMMAND = ["/opt/my tools/pilothouse", "mcp"]
STARTED = {"command": COMMAND[0], "args": ["mcp"]}
TYPED = {"type": "stdio", **STARTED}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-desktop", {"mcpServers": {"pilothouse": STARTED}}),
        ("claude-code", {"mcpServers": {"pilothouse": TYPED}}),
        ("cursor", {"mcpServers": {"pilothouse": TYPED}}),
        ("vscode", {"servers": {"pilothouse": TYPED}}),
        ("zed", {"context_servers": {"pilothouse": STARTED}}),
    ],
)
def test_each_client_has_its_own_form(name: str, expected: object):
    assert json.loads(config_of(name, COMMAND).text) == expected


def test_every_client_has_one_line_that_says_where_it_goes():
    for name in CLIENTS:
        hint = config_of(name, COMMAND).hint
        assert "\n" not in hint
        assert "{" not in hint


def test_claude_code_can_be_told_by_a_command():
    hint = config_of("claude-code", COMMAND).hint
    assert hint.endswith("claude mcp add --scope user pilothouse -- '/opt/my tools/pilothouse' mcp")


def test_stdout_has_the_json_alone(capsys: pytest.CaptureFixture[str]):
    print_config("vscode", COMMAND)
    out, err = capsys.readouterr()
    assert json.loads(out)["servers"]["pilothouse"]["args"] == ["mcp"]
    assert err == config_of("vscode", COMMAND).hint + "\n"


def test_the_program_that_runs_is_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "pilothouse"
    program.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./pilothouse", "mcp"])
    assert command_of("mcp", "--standalone") == [str(program), "mcp", "--standalone"]


def test_a_program_beside_the_interpreter_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pilothouse").touch()
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert command_of("mcp") == [str(tmp_path / "pilothouse"), "mcp"]


def test_without_a_program_the_interpreter_runs_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_of("mcp") == [str(tmp_path / "python"), "-P", "-m", "pilothouse", "mcp"]
