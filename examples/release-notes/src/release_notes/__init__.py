"""Release notes from a repository's history: the agent may read the log, and nothing else."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from pilothouse import Allow, Client, Deny, Options, PermissionRequest, SessionEnded

__all__ = ["Notes", "NotesFailed", "main", "reads_history", "write_notes"]

PROMPT = (
    "Write release notes for the commits since {since}. Read them with `git log`. "
    "Answer with the notes alone, one line for each change."
)
# Options by name: some others, such as --output, write files.
_READING = re.compile(
    r"git log"
    r"(?: (?:--oneline|--no-merges|--reverse|--stat|--(?:format|pretty)=[\w%]+|-n ?\d+|[\w.^~/]+))*"
)


class NotesFailed(Exception):
    """There are no notes; the text says why."""


@dataclass(frozen=True)
class Notes:
    """What the agent wrote, and what it was refused on the way."""

    text: str
    refused: tuple[str, ...] = ()


def reads_history(command: str) -> bool:
    """Whether a shell command is one `git log` that only reads."""
    return _READING.fullmatch(command.strip()) is not None


async def write_notes(repository: Path, since: str, options: Options | None = None) -> Notes:
    """Lets an agent write notes about the commits since a tag."""
    refused: list[str] = []

    async def decide(request: PermissionRequest) -> Allow | Deny:
        wanted = str(request.input.get("command", request.tool_name))
        if request.tool_name == "Bash" and reads_history(wanted):
            return Allow()
        refused.append(wanted)
        return Deny("Nothing but `git log` may be run here.")

    options = replace(
        options or Options(),
        cwd=repository,
        tools=["Bash"],
        # Without this the CLI runs what it takes for harmless and asks nobody.
        settings={"permissions": {"ask": ["Bash"]}},
        on_permission=decide,
    )
    try:
        async with Client(options) as client:
            turn = await client.ask(PROMPT.format(since=since))
            # Closed before it is idle, a session would be interrupted.
            await client.wait_idle()
    except SessionEnded as error:
        raise NotesFailed(f"the agent is gone: {error}") from error
    if turn.outcome != "finished":
        raise NotesFailed(f"the agent did not finish: {turn.text or turn.reason}")
    return Notes(turn.text, tuple(refused))


def main() -> None:
    """`release-notes v1.0` writes the notes of the repository it is run in."""
    parser = argparse.ArgumentParser(prog="release-notes")
    parser.add_argument("since", help="the tag of the last release")
    try:
        notes = asyncio.run(write_notes(Path.cwd(), parser.parse_args().since))
    except NotesFailed as error:
        sys.exit(f"release-notes: {error}")
    sys.stdout.write(f"{notes.text}\n")
