"""The command line is the real CLI's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse_sim.simulator.flags import BadFlag, LaunchFlags, accepted, parse, played
from pilothouse_sim.simulator.launch_checks import check
from pilothouse_sim.simulator.main import main
from pilothouse_sim.simulator.mcp.config import configured
from pilothouse_sim.simulator.user_extensions import read_agents


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
        *[
            (
                [f"--max-turns={value}"],
                f"error: option '--max-turns <turns>' argument '{value}' is invalid. "
                "must be a number",
            )
            for value in ("inf", "nan")
        ],
        (
            ["--max-budget-usd", "nan"],
            "error: option '--max-budget-usd <amount>' argument 'nan' is invalid. "
            "--max-budget-usd must be a positive number greater than 0",
        ),
        (
            ["--speed", "x"],
            "error: option '--speed <factor>' argument 'x' is invalid. "
            "--speed must be a positive number greater than 0",
        ),
    ],
)
def test_mistakes_are_told_in_the_clis_words(argv: list[str], words: str) -> None:
    with pytest.raises(BadFlag, match="error") as caught:
        parse(argv)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{bad", "Error: Invalid --agents configuration:\ninvalid JSON: "),
        ("[]", "configuration:\nInvalid input: expected record, received array"),
        ('{"a": 3}', "configuration:\na: Invalid input: expected object, received number"),
        (
            '{"a": {"description": null}}',
            "a.description: Invalid input: expected string, received null\n"
            "a.prompt: Invalid input: expected string, received undefined",
        ),
        ("nowhere.json", "nowhere.json (a value that is not a JSON object is read as a file"),
    ],
)
def test_agents_of_another_shape_are_refused(given: str, words: str) -> None:
    with pytest.raises(BadFlag) as caught:
        read_agents(given)
    assert words in str(caught.value)


def test_servers_of_another_shape_are_left_out(tmp_path: Path) -> None:
    launch = parse(["--mcp-config", '{"mcpServers": {"a": 3, "b": {"command": "c"}}}'])
    assert list(configured(launch, tmp_path, {})) == ["b"]


DIAL = ["-p", "--sdk-url", "ws://127.0.0.1:1"]


def test_who_dials_streams_both_ways_unless_told_otherwise() -> None:
    # S14, as 2.1.119 and 2.1.37 do
    launch = parse(DIAL)
    assert (launch.input_format, launch.output_format) == ("stream-json", "stream-json")
    check(launch)


@pytest.mark.parametrize(
    ("formats", "words"),
    [
        (["--input-format", "text"], "--sdk-url requires both --input-format=stream-json"),
        (["--output-format", "json"], "--input-format=stream-json requires output-format"),
        (
            ["--input-format", "text", "--output-format", "stream-json"],
            "--sdk-url requires both --input-format=stream-json",
        ),
    ],
)
def test_who_dials_in_another_format_ends_at_once(formats: list[str], words: str) -> None:
    # S14
    with pytest.raises(BadFlag, match=words):
        check(parse([*DIAL, *formats]))


SELDOM = [
    "enable-auth-status",
    "deep-link-origin",
    "reply-on-resume",
    "include-unsupported-models",
    "allow-other-models",
    "host-auth-is-org-sign-in",
    "enable-auto-mode",
    "agents-view-if-allowed",
    "plan-mode-required",
    "debug-to-stderr",
]
SELDOM_WITH_VALUE = [
    "append-subagent-system-prompt",
    "append-subagent-system-prompt-file",
    "plan-mode-instructions",
    "inherit-permission-mode",
    "watch-artifact",
    "watch-artifact-no-autoreact",
    "prefill",
    "deep-link-repo",
    "deep-link-last-fetch",
    "rewind-files",
    "fast-mode",
    "workload",
    "client-data-url",
    "advisor",
    "proactivity",
    "messaging-socket-path",
    "agent-id",
    "agent-name",
    "team-name",
    "agent-color",
    "parent-session-id",
    "lead-verify-key",
    "teammate-mode",
    "agent-type",
    "runner-declares",
    "session-began-as-copy",
    "forward-home-settings",
    "attach-serve",
    "pool",
    "correlation-id",
    "ref",
    "on-branch",
    "dangerously-load-development-channels",
    "remote",
    "rc",
]


@pytest.mark.parametrize("name", SELDOM)
def test_switches_that_are_seldom_used_are_taken(name: str) -> None:
    assert parse([f"--{name}", "hello"]) == LaunchFlags(prompt="hello")


@pytest.mark.parametrize("name", SELDOM_WITH_VALUE)
def test_flags_that_are_seldom_used_take_their_value(name: str) -> None:
    assert parse([f"--{name}=on", "hello"]) == LaunchFlags(prompt="hello")
    assert parse([f"--{name}", "on", "--verbose"]) == LaunchFlags(verbose=True)


def test_a_short_form_may_have_more_than_one_letter() -> None:
    assert parse(["-d2e", "hello"]) == LaunchFlags(prompt="hello")


def test_the_help_tells_what_is_played_from_what_is_only_accepted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    about, _, rest = told.partition("Played:\n")
    does, _, takes = rest.partition("Accepted, without effect:\n")
    assert "pilothouse-sim" in about
    assert does.split() == [f"--{name}" for name in played()]
    assert takes.split() == [f"--{name}" for name in accepted()]
    assert "--continue" in does
    assert "--rewind-files" in takes
