"""The doctor finds what there is, says what to do, and reads no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.client.doctor import Finding, examine, missing


def fake_cli(folder: Path, script: str) -> str:
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def found(env: dict[str, str]) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(env)}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("version", "state"),
    [("2.1.325", "ok"), ("2.1.37", "ok"), ("2.0.9", "problem"), ("3.0.0", "note")],
)
def test_the_version_is_judged(
    env: dict[str, str], tmp_path: Path, version: str, state: str
) -> None:
    env["CLAUDE_CODE_PATH"] = fake_cli(tmp_path, f"echo '{version} (Claude Code)'")
    findings = found(env)
    assert findings["cli"].state == "ok"
    assert findings["version"].state == state
    assert version in findings["version"].text


def test_what_a_version_supports_is_told(env: dict[str, str], tmp_path: Path) -> None:
    env["CLAUDE_CODE_PATH"] = fake_cli(tmp_path, "echo 2.1.37")
    assert "edited plans" not in found(env)["supports"].text
    env["CLAUDE_CODE_PATH"] = fake_cli(tmp_path, "echo 2.1.325")
    assert "edited plans" in found(env)["supports"].text


def test_a_named_cli_that_is_not_there_is_a_problem_with_advice(env: dict[str, str]) -> None:
    env["CLAUDE_CODE_PATH"] = "/nowhere/claude"
    assert found(env)["cli"].state == "problem"
    assert "/nowhere/claude" in found(env)["cli"].text
    assert found(env)["cli"].advice


@pytest.mark.parametrize("script", ["echo no version", "exit 3", "echo boom >&2; exit 1"])
def test_a_cli_that_does_not_run_is_a_problem(
    env: dict[str, str], tmp_path: Path, script: str
) -> None:
    env["CLAUDE_CODE_PATH"] = fake_cli(tmp_path, script)
    assert found(env)["version"].state == "problem"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_a_key_is_found_and_never_shown(env: dict[str, str], tmp_path: Path, name: str) -> None:
    env["CLAUDE_CODE_PATH"] = fake_cli(tmp_path, "echo 2.1.325")
    assert found(env)["credential"].state != "ok"
    env[name] = "sk-very-secret"
    assert found(env)["credential"].state == "ok"
    assert "sk-very-secret" not in str(examine(env))


def test_a_sign_in_is_found_without_being_read(env: dict[str, str], tmp_path: Path) -> None:
    env["CLAUDE_CONFIG_DIR"] = str(tmp_path / "config")
    (tmp_path / "config").mkdir()
    secret = tmp_path / "config/.credentials.json"
    secret.write_text("secret")
    secret.chmod(0)
    assert found(env)["credential"].text == "signed in"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (".claude/settings.json", '{"apiKeyHelper": "secret"}'),
        (".claude/settings.json", '{"env": {"ANTHROPIC_API_KEY": "secret"}}'),
        (".claude.json", '{"primaryApiKey": "secret"}'),
    ],
)
def test_a_credential_in_the_files_of_the_cli_is_found_by_name(
    tmp_path: Path, file: str, content: str
) -> None:
    env = {"HOME": str(tmp_path), "CLAUDE_CODE_PATH": "/no/cli"}
    (tmp_path / ".claude").mkdir()
    (tmp_path / file).write_text("{")
    assert found(env)["credential"].state == "problem"
    (tmp_path / file).write_text(content)
    assert found(env)["credential"].state == "ok"
    assert "secret" not in str(examine(env))


def test_the_first_thing_that_is_missing_is_told_without_running_a_cli(
    env: dict[str, str], tmp_path: Path
) -> None:
    env["CLAUDE_CODE_PATH"] = str(tmp_path / "none")
    lacking = missing(env)
    assert lacking is not None
    assert lacking.name == "cli"
    ran = tmp_path / "ran"
    given = fake_cli(tmp_path, f"touch {ran}")
    lacking = missing(env, given)
    assert lacking is not None
    assert lacking.name == "credential"
    assert missing({**env, "ANTHROPIC_API_KEY": "x"}, given) is None
    assert not ran.exists()


def test_an_enclosing_session_is_noted(env: dict[str, str]) -> None:
    assert "enclosing session" not in found(env)
    assert "enclosing session" in found({**env, "CLAUDECODE": "1"})
