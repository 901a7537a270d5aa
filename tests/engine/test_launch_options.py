"""What callers may give a session's CLI besides the options that have a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilothouse.api.requests import SessionOptions
from pilothouse.engine.launch_options import (
    EITHER,
    SWITCHES,
    VALUES,
    check_directories,
    check_flags,
    permitted_directory,
)
from pilothouse.errors import DirectoryRefused, InvalidOption


@pytest.mark.parametrize(
    ("flag", "option"),
    [
        ("settings", "settings"),
        ("--settings", "settings"),
        ("settings={}", "settings"),
        ("Settings", "settings"),
        ("setting-sources", "setting_sources"),
        ("no-session-persistence", "persist_session"),
        ("permission-mode", "mode"),
        ("dangerously-skip-permissions", "mode"),
        ("allowedTools", "allowed_tools"),
        ("allowed-tools", "allowed_tools"),
        ("mcp-config", "mcp_servers"),
        ("add-dir", "add_dirs"),
        ("system-prompt-file", "system_prompt"),
        ("json-schema", "json_schema"),
    ],
)
def test_a_flag_with_an_option_of_its_own_is_refused_by_that_name(flag: str, option: str) -> None:
    with pytest.raises(InvalidOption, match=f"use the option `{option}`"):
        check_flags({flag: "x"})


@pytest.mark.parametrize(
    "flag",
    [
        *("p", "-p", "print", "verbose", "input-format", "output-format", "replay-user-messages"),
        *("session-id", "resume", "r", "continue", "fork-session", "resume-session-at"),
        *("permission-prompt-tool", "permission-prompts", "include-partial-messages"),
        *("sdk-url", "plugin-dir", "plugin-url", "project-config-root"),
        *("debug-file", "bare", "trust-workspace", "some-flag-of-tomorrow", "", "=", "--"),
    ],
)
def test_a_flag_that_is_not_known_to_be_harmless_is_refused(flag: str) -> None:
    for value in (None, "x"):
        with pytest.raises(InvalidOption, match="leave it out; those that are: agent,"):
            check_flags({flag: value})


def test_a_harmless_flag_passes() -> None:
    check_flags({"debug": None, "betas": "a,b", "name": "mine", "include-hook-events": None})
    check_flags({"debug": "api"})


def test_no_flag_takes_the_next_one_for_its_value() -> None:
    with pytest.raises(InvalidOption, match="needs a value"):
        check_flags({"name": None})
    with pytest.raises(InvalidOption, match="takes no value"):
        check_flags({"include-hook-events": "x"})


def test_a_harmless_flag_in_another_spelling_is_refused_with_the_right_one() -> None:
    with pytest.raises(InvalidOption, match="write it as 'debug'"):
        check_flags({"--debug=api": None})


def test_where_no_roots_are_set_any_directory_may_be_added() -> None:
    check_directories(SessionOptions(add_dirs=["/no/such"]), "/", ())


def test_an_added_directory_is_within_the_roots(tmp_path: Path) -> None:
    inner = tmp_path / "root" / "inner"
    inner.mkdir(parents=True)
    (inner / "out").symlink_to(tmp_path)
    roots = (tmp_path / "root",)
    check_directories(SessionOptions(add_dirs=[str(inner), "inner"]), str(roots[0]), roots)
    for outside in (str(tmp_path), "..", "inner/out", "~", "inner/missing"):
        with pytest.raises(DirectoryRefused):
            check_directories(SessionOptions(add_dirs=[outside]), str(roots[0]), roots)


@pytest.mark.parametrize("given", [None, {}, {"permissions": []}, {"permissions": {}}])
def test_settings_without_directories_add_none(given: dict[str, object] | None) -> None:
    check_directories(SessionOptions(settings=given), "/", (Path("/nowhere"),))


def test_the_flags_that_pass_are_documented() -> None:
    told = (Path(__file__).parents[2] / "docs" / "howto-sessions.md").read_text()
    assert [each for each in sorted(VALUES | SWITCHES | EITHER) if f"`{each}`" not in told] == []


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory whose name is not UTF-8."""
    path = Path(os.fsdecode(os.fsencode(tmp_path / "b") + b"\xff\xfe"))
    path.mkdir()
    return path


def test_a_directory_whose_path_is_no_text_is_refused(tmp_path: Path, odd: Path) -> None:
    (odd / "within").mkdir()
    (tmp_path / "link").symlink_to(odd)
    for given in (odd, odd / "within", tmp_path / "link", tmp_path / "link/within", "/\ud800"):
        for roots in ((), (tmp_path,)):
            with pytest.raises(DirectoryRefused, match="is not UTF-8; rename it") as refused:
                permitted_directory(str(given), roots)
            str(refused.value).encode()


def test_an_added_directory_has_a_path_that_is_text(tmp_path: Path, odd: Path) -> None:
    (tmp_path / "link").symlink_to(odd)
    for given in (str(odd), odd.name, str(tmp_path / "link"), "link", "\ud800"):
        for roots in ((), (tmp_path,)):
            wanted = [
                SessionOptions(add_dirs=[given]),
                SessionOptions(settings={"permissions": {"additionalDirectories": [given]}}),
            ]
            for each in wanted:
                with pytest.raises(DirectoryRefused, match="is not UTF-8"):
                    check_directories(each, str(tmp_path), roots)


def test_roots_that_are_no_text_can_be_told(tmp_path: Path, odd: Path) -> None:
    with pytest.raises(DirectoryRefused, match="outside the allowed roots") as refused:
        permitted_directory(str(tmp_path), (odd,))
    str(refused.value).encode()
