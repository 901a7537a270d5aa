"""Which CLI a server runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pilothouse.errors import ServerError
from pilothouse.server.cli_choice import choose
from pilothouse.server.engines import open_engine, open_journal
from pilothouse.settings import load


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def env(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine without a CLI and without a credential."""
    monkeypatch.setattr("pilothouse.client.locate.usual_places", lambda _: [])
    home.mkdir()
    return {"HOME": str(home), "PATH": str(home / "bin")}


@pytest.fixture
def cli(home: Path, env: dict[str, str]) -> Path:
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def snapshot(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_without_a_cli_the_simulator_is_used_and_the_user_told(env: dict[str, str]) -> None:
    choice = choose(load(env=env), env)
    assert choice.simulated
    assert "sessions run on the simulator: cli: " in choice.note
    assert "\n" not in choice.note
    assert choice.lack is not None
    assert choice.lack.startswith("sessions need the Claude Code CLI: no Claude Code CLI on PATH")
    assert "; install it: npm install -g @anthropic-ai/claude-code" in choice.lack


def test_without_a_credential_the_simulator_is_used_and_the_user_told(
    env: dict[str, str], cli: Path
) -> None:
    choice = choose(load(env=env), env)
    assert choice.simulated
    assert "credential: none found; run `claude` once and sign in" in choice.note
    assert choice.lack is not None
    assert choice.lack.startswith("Claude Code is not signed in: none found; run `claude` once")


@pytest.mark.parametrize("simulate", ["auto", "never"])
def test_a_cli_that_was_named_and_is_not_there_is_an_error_and_no_reason_to_simulate(
    env: dict[str, str], cli: Path, simulate: str
) -> None:
    env |= {"CLAUDE_CODE_PATH": "/nowhere/claude", "ANTHROPIC_API_KEY": "x"}
    told = r"cli_path names /nowhere/claude, which does not exist \(CLAUDE_CODE_PATH\); correct it"
    with pytest.raises(ServerError, match=told):
        choose(load(env=env, flags={"simulate": simulate}), env)
    assert choose(load(env=env, flags={"simulate": "always"}), env).simulated


def test_the_line_that_names_a_cli_wrongly_is_told(env: dict[str, str], home: Path) -> None:
    config = home / "config.toml"
    config.write_text('max_sessions = 2\ncli_path = "gone/claude"\n')
    told = rf"names {home}/gone/claude, which does not exist \({config}:2\)"
    with pytest.raises(ServerError, match=told):
        choose(load(env=env, file=config), env)


def test_the_simulator_by_its_own_name_needs_no_credential(env: dict[str, str], home: Path) -> None:
    installed = home / "bin/pilothouse-sim"
    for named in ("pilothouse-sim", str(installed)):
        env["CLAUDE_CODE_PATH"] = named
        installed.parent.mkdir(exist_ok=True)
        installed.touch(0o755)
        choice = choose(load(env=env), env)
        assert (choice.simulated, choice.lack) == (True, None)
        assert choice.note.endswith("because CLAUDE_CODE_PATH names it")
    installed.unlink()
    with pytest.raises(ServerError, match="pilothouse-sim, which does not exist"):
        choose(load(env=env), env)


async def test_an_engine_tells_what_it_lacks(env: dict[str, str]) -> None:
    choice = choose(load(env=env), env)
    engine = await open_engine(choice, await open_journal(None))
    health = await engine.health()
    await engine.aclose()
    assert (health.ok, health.simulated, health.lack) == (True, True, choice.lack)


def test_with_both_the_cli_of_the_user_is_used(env: dict[str, str], cli: Path) -> None:
    env["ANTHROPIC_API_KEY"] = "x"
    choice = choose(load(env=env), env)
    assert not choice.simulated
    assert choice.cli_path == cli
    assert (choice.note, choice.lack) == ("", None)
    assert choice.env["ANTHROPIC_API_KEY"] == "x"
    assert "CLAUDE_CONFIG_DIR" not in choice.env


def test_the_setting_decides_before_what_was_found(env: dict[str, str], cli: Path) -> None:
    env["ANTHROPIC_API_KEY"] = "x"
    wanted = choose(load(env=env, flags={"simulate": "always"}), env)
    assert (wanted.simulated, wanted.lack) == (True, None)
    cli.unlink()
    with pytest.raises(ServerError, match="CLAUDE_CODE_PATH"):
        choose(load(env=env, flags={"simulate": "never"}), env)


def test_a_moved_config_folder_reaches_the_cli(env: dict[str, str], cli: Path) -> None:
    env["ANTHROPIC_API_KEY"] = "x"
    choice = choose(load(env=env, flags={"claude_config_dir": "/elsewhere"}), env)
    assert choice.env["CLAUDE_CONFIG_DIR"] == "/elsewhere"


def test_what_an_enclosing_session_told_its_tools_reaches_no_cli(
    env: dict[str, str], cli: Path
) -> None:
    env |= {"ANTHROPIC_API_KEY": "x", "CLAUDECODE": "1", "PWD": "/somewhere"}
    assert not choose(load(env=env), env).env.keys() & {"CLAUDECODE", "PWD"}


def test_the_simulator_runs_in_folders_of_its_own(env: dict[str, str], home: Path) -> None:
    env |= {"ANTHROPIC_API_KEY": "a-secret", "CLAUDE_CODE_USE_BEDROCK": "1"}
    settings = load(env=env)
    before = snapshot(home)
    choice = choose(settings, env)
    own = settings.state_dir / "simulated"
    assert choice.settings.claude_config_dir == own / "home/.claude"
    assert choice.env["HOME"] == str(own / "home")
    assert choice.env["CLAUDE_CONFIG_DIR"] == str(own / "home/.claude")
    assert "a-secret" not in choice.env.values()
    assert "CLAUDE_CODE_USE_BEDROCK" not in choice.env
    assert choice.journal.parent == choice.settings.state_dir == own
    assert all(path.is_relative_to(home / ".local") for path in snapshot(home) - before)


def test_the_simulator_that_is_written_runs(env: dict[str, str]) -> None:
    choice = choose(load(env=env), env)
    told = subprocess.run(
        [choice.cli_path, "--version"], env=choice.env, capture_output=True, text=True, timeout=60
    )
    assert "(Claude Code)" in told.stdout


def test_the_simulators_folder_is_for_its_user_alone(env: dict[str, str]) -> None:
    settings = load(env=env)
    folder = settings.state_dir / "simulated"
    folder.mkdir(parents=True, mode=0o755)
    choose(settings, env)
    assert {folder.stat().st_mode & 0o777, (folder / "home").stat().st_mode & 0o777} == {0o700}


def test_a_place_for_the_simulator_that_cannot_be_used_is_one_line(env: dict[str, str]) -> None:
    settings = load(env=env)
    settings.state_dir.mkdir(parents=True)
    (settings.state_dir / "simulated").touch()
    with pytest.raises(ServerError, match=r"simulated cannot be used: .*; see to its folder"):
        choose(settings, env)
