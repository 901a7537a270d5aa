"""The program at work: a CLI is started with the line that it prints, as a person would."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from dial_in import FIRST, serve

from pilothouse_sim import SimulatedCLI, SimulatedCLIMaker, reply, tool

TOUCH = tool("Bash", command="touch made", description="Make it")


def talk(cli: SimulatedCLI) -> list[str]:
    """Everything that the program shows while one CLI comes and goes."""
    shown: list[str] = []
    started: list[subprocess.Popen[bytes]] = []

    def paste(line: str) -> None:
        # The first line is the command; a person pastes it into another terminal.
        if not started:
            env = {"PATH": os.environ["PATH"], **cli.environment}
            started.append(subprocess.Popen(["sh", "-c", line], env=env))
        shown.append(line)

    try:
        asyncio.run(serve(paste, cli=cli.path, cwd=cli.cwd, port=0))
        assert started[0].wait(timeout=60) == 0
    finally:
        started[0].kill()
        started[0].wait()
    return shown


def test_the_flow_of_the_document(simulated_cli: SimulatedCLIMaker):
    cli = simulated_cli(reply("Let me see.", TOUCH), reply("I can make files."))
    command, *shown = talk(cli)
    assert "--sdk-url=ws://127.0.0.1:" in command
    kinds = [each.split()[0] for each in shown]
    assert kinds == [
        "[CONNECTED]",
        "[INIT]",
        "[ASSISTANT]",
        "[PERMISSION]",
        "[ASSISTANT]",
        "[RESULT]",
        "[DISCONNECTED]",
    ]
    assert shown[3].startswith("[PERMISSION] Bash: {'command': 'touch made'")
    assert shown[4] == "[ASSISTANT] I can make files."
    assert (Path(cli.cwd) / "made").exists()
    assert cli.requests[0].last == FIRST
