"""What a machine offers to sessions: its folders, its CLI, its environment, its transcripts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pilothouse.runner.workplace import NotHere, Workplace, is_plain


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def place(tmp_path: Path, *roots: Path, cli: Path | None = None, **env: str) -> Workplace:
    given = {"HOME": str(tmp_path), "PATH": os.defpath, **env}
    return Workplace(roots=roots, given_cli=str(cli) if cli else None, env=given)


# -- folders


def test_any_directory_will_do_without_roots(tmp_path: Path) -> None:
    assert place(tmp_path).directory(str(tmp_path)) == tmp_path.resolve()


def test_without_a_directory_it_is_the_home_folder(tmp_path: Path) -> None:
    assert place(tmp_path).directory(None) == tmp_path.resolve()


@pytest.mark.parametrize("asked", ["work", "./work", "~"])
def test_a_directory_is_told_in_full(tmp_path: Path, asked: str) -> None:
    with pytest.raises(NotHere, match="not absolute"):
        place(tmp_path).directory(asked)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotHere, match="is no directory"):
        place(tmp_path).directory(str(tmp_path / "file"))


def test_a_directory_whose_path_is_no_text_is_refused_in_words_that_are(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path / "b") + b"\xff"))
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    for asked in (odd, tmp_path / "link"):
        with pytest.raises(NotHere, match="is not UTF-8; rename it") as refused:
            place(tmp_path).directory(str(asked))
        str(refused.value).encode()
    with pytest.raises(NotHere, match="outside the runner's roots") as refused:
        place(tmp_path, odd).directory(str(tmp_path))
    str(refused.value).encode()


@pytest.mark.parametrize("asked", ["missing", "file/inside", "nul\0", "loop"])
def test_what_is_not_there_is_refused(tmp_path: Path, asked: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NotHere, match="there is no directory"):
        place(tmp_path).directory(f"{tmp_path}/{asked}")


def test_a_root_may_be_a_link_and_one_of_several(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "other").mkdir()
    workplace = place(tmp_path, tmp_path / "other", tmp_path / "link")
    assert workplace.directory(f"{tmp_path}/link/inside") == (real / "inside").resolve()


def test_a_folder_whose_name_only_begins_like_a_root_is_outside(tmp_path: Path) -> None:
    for name in ("work", "work-of-others"):
        (tmp_path / name).mkdir()
    with pytest.raises(NotHere, match="outside"):
        place(tmp_path, tmp_path / "work").directory(f"{tmp_path}/work-of-others")


# -- folders that a command line opens


def settings(*folders: str) -> str:
    return json.dumps({"permissions": {"allow": [], "additionalDirectories": folders}, "x": 1})


def check(
    workplace: Workplace, cwd: Path, *words: str, files: dict[str, str] | None = None
) -> None:
    workplace.check(["--print", *words, "--verbose"], cwd, workplace.env, files or {})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A root with a folder in it, and a link that leads out of it."""
    made = tmp_path / "work"
    (made / "inside").mkdir(parents=True)
    (made / "out").symlink_to(tmp_path)
    (made / "-out").symlink_to(tmp_path)
    (made / "there.json").write_text(settings("/etc"))
    (made / "fine.json").write_text(settings("inside"))
    return made


OUTSIDE = [
    ["--add-dir=/etc"],
    ["--add-dir", "/etc"],
    ["--add-dir", "inside", "/etc"],
    ["--add-dir=inside", "/etc"],
    ["--add-dir=.."],
    ["--add-dir=out"],
    ["--add-dir", "-out"],
    ["--add-dir=~"],
    ["--add-dir=~/other"],
    ["--add-dir= /etc"],
    ["--add-dir=/missing"],
    [f"--settings={settings('inside', '/etc')}"],
    ["--settings", settings("..")],
    [f"--settings= \ufeff{settings('/etc')}"],
    ['--settings={"permissi\\u006fns":{"additionalDirectories":["/etc"]}}'],
    ["--settings=there.json"],
    ["--settings", "there.json"],
    ["--settings=fine.json", "--settings=there.json"],
    ["--settings=/of/the/server.json"],
    [f"--managed-settings={settings('/etc')}"],
]


@pytest.mark.parametrize("words", OUTSIDE, ids=" ".join)
def test_folders_outside_of_the_roots_are_refused(
    tmp_path: Path, work: Path, words: list[str]
) -> None:
    files = {"/of/the/server.json": settings("/etc")}
    with pytest.raises(NotHere, match=r"is outside the runner's roots \(.*work\)"):
        check(place(tmp_path, work), work, *words, files=files)
    check(place(tmp_path), work, *words, files=files)


INSIDE = [
    [],
    ["--add-dir=inside", "--add-dir=."],
    ["--add-dir", "inside", "inside/not/there"],
    ["--model=/etc", "/etc"],
    ["--settings", ""],
    [f"--settings={settings('inside')}", "/etc"],
    ["--settings={}"],
    ['--settings={"permissions":null}'],
    ["--settings=fine.json"],
    ["--settings=/of/the/server.json"],
]


@pytest.mark.parametrize("words", INSIDE, ids=" ".join)
def test_folders_within_the_roots_are_let_be(tmp_path: Path, work: Path, words: list[str]) -> None:
    files = {"/of/the/server.json": settings("inside")}
    check(place(tmp_path, work), work, *words, files=files)


@pytest.mark.parametrize(
    "given",
    [
        "{",
        '{"permissions":1}',
        '{"permissions":{"additionalDirectories":"/"}}',
        "missing",
        "nul\0",
        "inside",
        '{"x":' + "[" * 100_000,
    ],
    ids=range(7),
)
def test_settings_that_cannot_be_read_are_refused_where_there_are_roots(
    tmp_path: Path, work: Path, given: str
) -> None:
    with pytest.raises(NotHere, match="settings"):
        check(place(tmp_path, work), work, f"--settings={given}")


def test_a_folder_that_leads_nowhere_is_refused(tmp_path: Path, work: Path) -> None:
    with pytest.raises(NotHere, match="leads"):
        check(place(tmp_path, work), work, "--add-dir=nul\0")


# -- the CLI


def test_the_cli_is_found_where_the_client_finds_it(tmp_path: Path) -> None:
    cli = program(tmp_path / "claude", "echo 2.1.37")
    assert place(tmp_path, cli=cli).cli_told() == (str(cli), "2.1.37")
    assert place(tmp_path, CLAUDE_CODE_PATH=str(cli)).cli_told() == (str(cli), "2.1.37")
    assert place(tmp_path, PATH=f"{tmp_path}:{os.defpath}").cli_told() == (str(cli), "2.1.37")


def test_a_cli_that_was_updated_is_asked_again(tmp_path: Path) -> None:
    workplace = place(tmp_path, cli=program(tmp_path / "claude", "echo 2.1.37"))
    assert workplace.cli_told()[1] == "2.1.37"
    program(tmp_path / "claude", "echo '2.1.325 (Claude Code)'")
    assert workplace.cli_told()[1] == "2.1.325"


def test_a_cli_that_is_not_there_or_says_nothing_has_no_version(tmp_path: Path) -> None:
    assert place(tmp_path, cli=tmp_path / "none").cli_told() == (None, None)
    silent = program(tmp_path / "claude", "exit 1")
    assert place(tmp_path, cli=silent).cli_told() == (str(silent), None)


# -- the environment


def test_a_session_does_not_take_the_runners_session_for_its_own(tmp_path: Path) -> None:
    workplace = place(tmp_path, CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="x", LANG="C", ASKED="no")
    made = workplace.environment({"ASKED": "yes"})
    assert made == {"HOME": str(tmp_path), "PATH": os.defpath, "LANG": "C", "ASKED": "yes"}


# -- transcripts


def test_transcripts_are_looked_for_in_the_clis_own_folder(tmp_path: Path) -> None:
    project = tmp_path / "config/projects/-a-project"
    project.mkdir(parents=True)
    (project / "abc-1.jsonl").touch()
    workplace = place(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "config"))
    assert workplace.has_transcript("abc-1")
    assert not workplace.has_transcript("abc-2")
    assert not place(tmp_path).has_transcript("abc-1")


@pytest.mark.parametrize("session_id", ["*", "abc-?", "[a]bc-1", "../-a-project/abc-1", ""])
def test_what_is_no_id_finds_nothing(tmp_path: Path, session_id: str) -> None:
    project = tmp_path / ".claude/projects/-a-project"
    project.mkdir(parents=True)
    (project / "abc-1.jsonl").touch()
    assert not place(tmp_path).has_transcript(session_id)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a\n", "ä", "a" * 129])
def test_what_could_lead_elsewhere_is_no_plain_name(name: str) -> None:
    assert not is_plain(name)


def test_the_interpreter_of_its_cli_is_found_here(tmp_path: Path) -> None:
    cli, helm = program(tmp_path / "claude", ""), program(tmp_path / "helm", "")
    cli.write_text("#!/usr/bin/env helm\n")
    assert place(tmp_path, cli=cli, PATH=str(tmp_path)).command() == [str(helm), str(cli)]
    with pytest.raises(NotHere, match="needs helm"):
        place(tmp_path, cli=cli).command()
