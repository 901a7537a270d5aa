"""The command line is the real CLI's."""

from __future__ import annotations

import pytest

from pilothouse.simulator.flags import BadFlag, parse


@pytest.mark.parametrize(
    "argv",
    [
        ["--model", "opus", "--max-turns", "3"],
        ["--model=opus", "--max-turns=3"],
        ["--max-turns=3", "--model", "opus"],
    ],
)
def test_values_follow_or_are_joined_by_an_equals_sign(argv: list[str]) -> None:
    launch = parse(argv)
    assert (launch.model, launch.max_turns) == ("opus", 3)


@pytest.mark.parametrize("flag", ["--allowedTools", "--allowed-tools"])
def test_lists_take_commas_blanks_and_repetition(flag: str) -> None:
    launch = parse([flag, "Read,Write", "Bash(git log:*)", flag, "Edit Glob"])
    assert launch.allowed_tools == ["Read", "Write", "Bash(git log:*)", "Edit", "Glob"]


def test_an_empty_list_of_tools_is_not_the_same_as_none() -> None:
    assert parse(["--tools", ""]).tools == []
    assert parse([]).tools is None


def test_a_list_ends_at_the_next_flag() -> None:
    launch = parse(["--add-dir", "a", "b", "--verbose", "hello"])
    assert (launch.add_dir, launch.verbose, launch.prompt) == (["a", "b"], True, "hello")


def test_resume_takes_an_id_or_none() -> None:
    assert parse(["--resume", "abc"]).resume == "abc"
    assert parse(["--resume=abc"]).resume == "abc"
    assert parse(["-r", "--verbose"]).resume == ""
    assert parse([]).resume is None


def test_single_letters_are_known() -> None:
    launch = parse(["-p", "-c", "hi"])
    assert (launch.print, launch.continue_, launch.prompt) == (True, True, "hi")


def test_words_after_two_dashes_are_the_prompt() -> None:
    assert parse(["-p", "--", "--not-a-flag"]).prompt == "--not-a-flag"


def test_a_system_prompt_may_be_empty_or_look_like_a_flag() -> None:
    assert parse(["--system-prompt", ""]).system_prompt == ""
    assert parse(["--system-prompt", "-x"]).system_prompt == "-x"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--bogus"], "error: unknown option '--bogus'"),
        (["--bogus=1"], "error: unknown option '--bogus=1'"),
        (["--max-turns"], "error: option '--max-turns <turns>' argument missing"),
    ],
)
def test_mistakes_are_told_in_the_clis_words(argv: list[str], words: str) -> None:
    with pytest.raises(BadFlag, match="error") as caught:
        parse(argv)
    assert str(caught.value) == words
