"""A demonstration turn: the library is real, the CLI is the simulator, in its own folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from pilothouse import (
    Allow,
    Client,
    Options,
    PermissionRequest,
    ResultMessage,
    StreamEvent,
    Turn,
)
from pilothouse.simulator_program import write_simulator

__all__ = ["demonstrate"]

PROMPT = "Leave me a note."
NOTE = "note.txt"
COMMAND = {"command": f"echo 'All is well.' > {NOTE}", "description": "Write a note"}
SCENARIO = {
    "replies": [
        {"type": "reply", "steps": [{"type": "tool", "name": "Bash", "input": COMMAND}]},
        {
            "type": "reply",
            "steps": [{"type": "text", "text": f"The note is in {NOTE}.", "chunk": 8}],
        },
    ]
}


async def demonstrate(show: Callable[[str], None]) -> Turn:
    """One turn with streamed text and one permission request, told line by line."""

    async def decide(request: PermissionRequest) -> Allow:
        show(f"  asked      may {request.tool_name} run: {request.input['command']}")
        show("  answered   allow")
        return Allow()

    with tempfile.TemporaryDirectory(prefix="pilothouse-demo-") as folder:
        home, project = Path(folder), Path(folder) / "project"
        project.mkdir()
        options = Options(
            cli_path=write_simulator(home / "bin", {}),
            cwd=project,
            env=_environment(home),
            inherit_env=False,
            on_permission=decide,
            include_partial_messages=True,
        )
        async with Client(options) as client:
            show(f"  session    {client.session_id}")
            show(f"  prompt     {PROMPT}")
            prompt = await client.say(PROMPT)
            async for event in client:
                if isinstance(event, StreamEvent) and event.text:
                    show(f"  delta      {event.text!r}")
                elif isinstance(event, ResultMessage):
                    break
            turn = await prompt
        show(f"  {NOTE}   {(project / NOTE).read_text()!r}")
    show(f"  turn       {turn.outcome}, {turn.text!r}, ${turn.cost_usd:.4f} (not real money)")
    return turn


def _environment(home: Path) -> dict[str, str]:
    """The whole environment of the simulator: a home of its own, and what its model says."""
    scenario = home / "scenario.json"
    scenario.write_text(json.dumps(SCENARIO))
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "LANG": "C.UTF-8",
        "TMPDIR": tempfile.gettempdir(),
        "PILOTHOUSE_SCENARIO": str(scenario),
    }
