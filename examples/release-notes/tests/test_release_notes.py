"""The bot against a simulated CLI, and against a real one that was recorded."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from release_notes import PROMPT, Notes, NotesFailed, reads_history, write_notes

from pilothouse_sim import (
    ApiError,
    CassetteMaker,
    RecordedCLI,
    SimulatedCLI,
    SimulatedCLIMaker,
    gate,
    reply,
    tool,
)

LOOK = tool("Bash", command="git log v1.0..HEAD --oneline", description="Read the log")
PUSH = tool("Bash", command="git push --force", description="Publish it")
NOTES = "- A lamp on the mast."


def make_history(folder: Path) -> None:
    """Makes the folder a repository with one commit after its last release."""
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    for words in (
        ["init", "--quiet"],
        ["commit", "--quiet", "--allow-empty", "--message", "Build the boat"],
        ["tag", "v1.0"],
        ["commit", "--quiet", "--allow-empty", "--message", "Hang a lamp on the mast"],
    ):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)


def write(cli: SimulatedCLI | RecordedCLI) -> Notes:
    make_history(cli.cwd)
    return asyncio.run(write_notes(cli.cwd, "v1.0", cli.options()))


def test_the_agent_reads_the_log_and_its_words_are_the_notes(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(reply(LOOK), reply(NOTES))
    assert write(cli) == Notes(NOTES)
    asked, after_the_log = cli.requests
    assert asked.last == PROMPT.format(since="v1.0")
    assert "Hang a lamp on the mast" in after_the_log.last


def test_whatever_else_it_tries_is_refused(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(reply(PUSH), reply(NOTES))
    assert write(cli) == Notes(NOTES, refused=("git push --force",))
    assert "Nothing but `git log`" in cli.requests[-1].last


def test_an_error_of_the_api_is_told(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(ApiError(status=403, message="Out of credit."))
    with pytest.raises(NotesFailed, match=r"did not finish.*Out of credit\."):
        write(cli)


def test_a_cli_that_dies_is_told(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(reply(LOOK), reply(NOTES))
    cli.faults(crash=3, crash_signal=9)
    with pytest.raises(NotesFailed, match="the agent is gone"):
        write(cli)


def test_who_gives_up_waiting_leaves_nothing_behind(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(reply("- A ", gate("thinking"), "lamp."))

    async def give_up() -> None:
        writing = asyncio.create_task(write_notes(cli.cwd, "v1.0", cli.options()))
        await cli.reached("thinking")
        writing.cancel()
        await writing

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(give_up())


def test_a_real_cli_does_the_same(cassette: CassetteMaker):
    # The scenario is for the recording; a replay needs nothing but the file.
    cli = cassette("notes", reply(PUSH), reply(LOOK), reply(NOTES))
    assert write(cli) == Notes(NOTES, refused=("git push --force",))


@pytest.mark.parametrize(
    "command", ["git log", "git log v1.0..HEAD --oneline", "git log -n 5 --format=%h"]
)
def test_reading_the_history_is_allowed(command: str):
    assert reads_history(command)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git logs",
        "git log; rm -rf .",
        "git log > x",
        "git log --output=x",
        "git log $(x)",
    ],
)
def test_anything_more_is_not(command: str):
    assert not reads_history(command)
