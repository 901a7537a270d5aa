"""What scenes share: what the host says and does, and common calls of tools."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pilothouse_sim.scenario import AnyReply, Branch, Scenario, ToolCall, tool
from tests.differential.driver import Cli
from tests.support.raw_cli import ARGUMENTS, Message, allow, deny

__all__ = [
    "PARTIAL",
    "REPLAY",
    "SILENT",
    "UNTIL_GO",
    "allow",
    "bash",
    "deny",
    "has_text",
    "initialized",
    "is_ask",
    "put",
    "script",
    "settings",
    "turns",
]

PARTIAL = "--include-partial-messages"
REPLAY = "--replay-user-messages"
SILENT = tuple(flag for flag in ARGUMENTS if not flag.startswith("--permission-prompt-tool"))
"""The usual start without anybody to ask for permissions."""
# Ends with the working directory too: nothing of a scene may outlive it.
UNTIL_GO = "touch started; while [ -e started ] && [ ! -e go ]; do sleep 0.05; done; echo over"

Play = Callable[[Cli], Awaitable[None]]


def script(*replies: AnyReply, branches: list[Branch] | None = None) -> Scenario:
    """A scenario of these replies."""
    return Scenario(replies=list(replies), branches=branches or [])


def bash(command: str, **more: Any) -> ToolCall:
    """A call of the Bash tool."""
    return tool("Bash", command=command, description="Run it", **more)


def is_ask(message: Message) -> bool:
    """Whether the CLI asks for permission."""
    return message["type"] == "control_request" and (
        message["request"]["subtype"] == "can_use_tool"
    )


def has_text(message: Message) -> bool:
    """Whether a piece of the model's text came."""
    return message["type"] == "stream_event" and message["event"]["type"] == "content_block_delta"


def turns(*prompts: Any) -> Play:
    """Plays prompts one after the other."""

    async def play(cli: Cli) -> None:
        for words in prompts:
            cli.prompt(words)
            await cli.settle()

    return play


def initialized(*prompts: str, **fields: Any) -> Play:
    """Sends `initialize`, then plays prompts one after the other."""

    async def play(cli: Cli) -> None:
        await cli.control("initialize", **fields)
        await turns(*prompts)(cli)

    return play


def put(**files: str) -> Callable[[Path], None]:
    """Lays files into the working directory; `__` stands for a dot in their names."""

    def prepare(cwd: Path) -> None:
        for name, words in files.items():
            (cwd / name.replace("__", ".")).write_text(words)

    return prepare


def settings(**members: Any) -> str:
    """The flag that gives settings inline."""
    return f"--settings={json.dumps(members)}"
