"""Where the CLI is looked for, in which order, and what is said when it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse import CLINotFound
from pilothouse.client.locate import cli_command, find_cli, usual_places


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, on a machine without a CLI outside of it."""
    inside = [place for place in usual_places(tmp_path) if tmp_path in place.parents]
    monkeypatch.setattr("pilothouse.client.locate.usual_places", lambda home: inside)
    return tmp_path


def test_the_given_program_comes_before_all_others(places: Path):
    given, other = program(places / "given"), program(places / "bin/claude")
    env = {"CLAUDE_CODE_PATH": str(other), "PATH": str(other.parent)}
    assert find_cli(given, env) == given
    assert find_cli(str(given), env) == given


def test_the_variable_comes_before_the_path(places: Path):
    named, other = program(places / "named"), program(places / "bin/claude")
    env = {"CLAUDE_CODE_PATH": str(named), "PATH": str(other.parent)}
    assert find_cli(None, env) == named


def test_the_path_comes_before_the_usual_places(places: Path):
    on_path, usual = program(places / "bin/claude"), program(places / ".local/bin/claude")
    env = {"PATH": str(on_path.parent), "HOME": str(places)}
    assert find_cli(None, env) == on_path
    assert find_cli(None, {"HOME": str(places)}) == usual


def test_the_usual_places_are_searched_in_their_order(places: Path):
    for place in reversed([each for each in usual_places(places) if places in each.parents]):
        program(place)
        assert find_cli(None, {"HOME": str(places), "PATH": ""}) == place


def test_a_bare_name_is_looked_up_on_the_path(places: Path):
    other = program(places / "bin/claude-next")
    assert find_cli("claude-next", {"PATH": str(other.parent)}) == other


def test_a_tilde_is_the_home(places: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(places))
    other = program(places / "tools/claude")
    assert find_cli("~/tools/claude", {}) == other


def test_what_is_no_program_is_passed_over(places: Path):
    (places / ".local/bin").mkdir(parents=True)
    (places / ".local/bin/claude").write_text("not executable")
    (places / ".claude/local/claude").mkdir(parents=True)
    usual = program(places / ".bun/bin/claude")
    assert find_cli(None, {"HOME": str(places)}) == usual


def test_a_named_program_that_is_not_there_is_not_replaced_by_another(places: Path):
    other = program(places / "bin/claude")
    env = {"PATH": str(other.parent), "HOME": str(places)}
    with pytest.raises(CLINotFound, match=r"cli_path names .*/nowhere, which does not exist"):
        find_cli(places / "nowhere", env)
    with pytest.raises(CLINotFound, match=r"CLAUDE_CODE_PATH names .*which does not exist"):
        find_cli(None, env | {"CLAUDE_CODE_PATH": str(places / "nowhere")})


def test_a_named_program_that_cannot_run_is_told_apart(places: Path):
    (places / "claude").write_text("not executable")
    with pytest.raises(CLINotFound, match="is not executable"):
        find_cli(places / "claude", {})


def test_without_any_cli_the_error_says_what_to_do(places: Path):
    with pytest.raises(CLINotFound, match="set CLAUDE_CODE_PATH"):
        find_cli(None, {"HOME": str(places), "PATH": str(places)})
    with pytest.raises(CLINotFound):
        find_cli(None, {})


def test_a_relative_name_is_made_absolute(places: Path, monkeypatch: pytest.MonkeyPatch):
    program(places / "bin/claude")
    monkeypatch.chdir(places)
    assert find_cli("bin/claude", {}) == places / "bin/claude"


def script(path: Path, first: str) -> Path:
    made = program(path)
    made.write_text(f"{first}\n")
    return made


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/usr/bin/env node", []),
        ("#! /usr/bin/env node ", []),
        ("#!/usr/bin/env -S node --no-warnings", ["--no-warnings"]),
    ],
)
def test_the_interpreter_of_a_script_is_found_here(places: Path, first: str, words: list[str]):
    node, cli = program(places / "bin/node"), script(places / "claude", first)
    env = {"PATH": str(node.parent), "CLAUDE_CODE_PATH": str(cli)}
    assert cli_command(None, env) == [str(node), *words, str(cli)]
    assert cli_command(cli, env) == [str(node), *words, str(cli)]


def test_what_names_its_interpreter_by_path_is_started_as_it_is(places: Path):
    for number, first in enumerate(["#!/bin/sh", "", "\x7fELF", "#!", "#!/usr/bin/env -i node"]):
        cli = script(places / str(number), first)
        assert cli_command(cli, {"PATH": "/nowhere"}) == [str(cli)]


def test_a_script_without_its_interpreter_is_not_found(places: Path):
    cli = script(places / "claude", "#!/usr/bin/env node")
    with pytest.raises(CLINotFound, match=r"needs node, which is not on PATH; install it"):
        cli_command(cli, {"PATH": str(places / "nowhere")})


def test_a_program_on_a_relative_path_is_named_from_the_root(
    places: Path, monkeypatch: pytest.MonkeyPatch
):
    """A session works elsewhere, where the same path may lead to a program of the project's."""
    cli, node = script(places / "bin/claude", "#!/usr/bin/env node"), program(places / "bin/node")
    monkeypatch.chdir(places)
    assert cli_command(None, {"PATH": "bin"}) == [str(node), str(cli)]
