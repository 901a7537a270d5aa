"""A session that a person has begun in the real CLI's own terminal, taken up over MCP."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pilothouse_sim.clis import RealCLI
from pilothouse_sim.plugin import RealCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.clients.mcp_client import connected, end_sessions
from tests.support.server.killable import with_cli
from tests.support.server.machine import Machine
from tests.support.versions import NEWEST
from tests.support.waiting import DEADLINE

ROWS, COLUMNS = 40, 120


def settle_in(cli: RealCLI) -> None:
    """What the CLI keeps of a user who has used it before, and in this folder."""
    kept = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [cli.environment["ANTHROPIC_API_KEY"]]},
        "projects": {str(cli.cwd): {"hasTrustDialogAccepted": True}},
    }
    (cli.home / ".claude/.claude.json").write_text(json.dumps(kept))


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A person's side of a terminal, and the CLI's."""
    own, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.set_blocking(own, False)
    try:
        yield own, other
    finally:
        os.close(own)
        os.close(other)


async def talk_in_terminal(cli: RealCLI, prompt: str, answer: str) -> str:
    """Say something to the CLI at a terminal, read the answer and leave; the session's id."""
    with terminal() as (own, other):
        process = await asyncio.create_subprocess_exec(
            *(str(cli.path), prompt),
            env={},
            cwd=cli.cwd,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        asyncio.get_running_loop().add_reader(own, lambda: os.read(own, 1 << 16))
        try:
            return await written(cli, answer)
        finally:
            process.kill()
            await process.wait()
            asyncio.get_running_loop().remove_reader(own)


async def written(cli: RealCLI, answer: str) -> str:
    """Wait for the transcript that has this answer."""
    async with asyncio.timeout(DEADLINE):
        while True:
            for each in (cli.home / ".claude/projects").rglob("*.jsonl"):
                if answer in each.read_text():
                    return each.stem
            # Only the file tells, and it tells nobody.
            await asyncio.sleep(0.05)


@pytest.mark.real
async def test_a_session_begun_in_a_terminal_goes_on_over_mcp(
    real_cli: RealCLIMaker, tmp_path: Path
) -> None:
    cli = real_cli(
        "Two fathoms.",
        reply(tool("Bash", command="touch harbour", description="Drop anchor")),
        "At anchor.",
        version=NEWEST,
        strict=False,
    )
    settle_in(cli)
    session = await talk_in_terminal(cli, "How deep is it here?", "Two fathoms.")
    machine = Machine(tmp_path)
    machine.env |= with_cli(cli)
    try:
        async with connected(machine, mode="auto") as peer:
            [listed] = (await peer.call("claude_list"))["sessions"]
            assert listed["sessionId"] == session
            assert listed["projectDirectory"] == str(cli.cwd)
            assert listed["displayText"] == "How deep is it here?"
            told = await peer.call(
                "claude_say",
                sessionId=session,
                message="Drop anchor.",
                permissionMode="default",
            )
            assert (told["sessionId"], told["resumed"]) == (session, True)
            await peer.answer(session, "tool_approval", "allow")
            assert (await peer.settled(session))["result"] == "At anchor."
    finally:
        await end_sessions(machine)
        await machine.aclose()
    assert (cli.cwd / "harbour").exists()
    assert "How deep is it here?" in str(cli.requests[-1].body["messages"])
