"""Messages between a runner and a server, and those of a newer one."""

from __future__ import annotations

import json

import pytest

from pilothouse.runner import messages
from pilothouse.runner.messages import (
    Drain,
    Draining,
    EndRun,
    FindTranscript,
    FoundTranscript,
    FromRunner,
    FromServer,
    Hello,
    MessageError,
    RunGone,
    RunTold,
    StartedRun,
    StartRun,
    Welcome,
)

OF_RUNNERS: list[FromRunner] = [
    Hello(
        host="there",
        program="1.0",
        name="box",
        cli="/bin/claude",
        cli_version="2.1.325",
        runs=(RunTold("s", "r", 1, 2), RunTold("s", "r", 1)),
        draining=True,
    ),
    StartedRun(1, ok=False, reason="no"),
    FoundTranscript(2, found=True),
    RunGone("r", "killed"),
    Draining(on=True),
]
OF_SERVERS: list[FromServer] = [
    Welcome("box"),
    StartRun(1, "s", "r", "t", ("claude", "-p"), {"A": "b"}, "/x", 1.5),
    FindTranscript(2, "s"),
    EndRun("r"),
    Drain(on=False),
]


@pytest.mark.parametrize("message", OF_RUNNERS, ids=lambda each: type(each).__name__)
def test_what_a_runner_says_arrives_as_it_was_said(message: FromRunner) -> None:
    assert messages.from_runner(messages.encode(message)) == message


@pytest.mark.parametrize("message", OF_SERVERS, ids=lambda each: type(each).__name__)
def test_what_a_server_says_arrives_as_it_was_said(message: FromServer) -> None:
    assert messages.from_server(messages.encode(message)) == message


@pytest.mark.parametrize("message", OF_RUNNERS, ids=lambda each: type(each).__name__)
def test_members_of_a_newer_peer_are_passed_over(message: FromRunner) -> None:
    newer = {**json.loads(messages.encode(message)), "of_tomorrow": [1]}
    assert messages.from_runner(json.dumps(newer)) == message


def test_kinds_of_a_newer_peer_are_none_at_all() -> None:
    assert messages.from_runner('{"type":"of_tomorrow"}') is None
    assert messages.from_server('{"type":"of_tomorrow","id":1}') is None


def test_a_side_does_not_take_the_words_of_its_own() -> None:
    assert messages.from_server(messages.encode(OF_RUNNERS[0])) is None
    assert messages.from_runner(messages.encode(OF_SERVERS[1])) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        "{}",
        '{"type":1}',
        '{"type":"run_gone"}',
        b'{"type":"\xff"}',
        '{"type":"draining","deep":' + "[" * 100_000,
    ],
    ids=range(8),
)
def test_what_is_no_message_is_an_error(text: str | bytes) -> None:
    with pytest.raises(MessageError):
        messages.from_runner(text)
