"""Ready-made configuration for the usual MCP clients: `pilothouse mcp --print-config NAME`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["CLIENTS", "NAME", "Config", "command_of", "config_of", "print_config"]

NAME: Final = "pilothouse"
"""What clients call this server; permission rules and tool names begin with it."""


class _Client(NamedTuple):
    """Where a client keeps its servers."""

    key: str
    has_type: bool
    where: str


_CLIENTS: Final = {
    "claude-desktop": _Client(
        "mcpServers",
        False,
        "Put this into claude_desktop_config.json (Settings, Developer, Edit Config): on macOS in"
        " ~/Library/Application Support/Claude, on Linux in ~/.config/Claude. Then restart it.",
    ),
    "claude-code": _Client(
        "mcpServers",
        True,
        "Put this into .mcp.json in the project's folder, or, for every project, run: {add}",
    ),
    "cursor": _Client(
        "mcpServers",
        True,
        "Put this into ~/.cursor/mcp.json, or into .cursor/mcp.json in the project's folder.",
    ),
    "vscode": _Client(
        "servers",
        True,
        "Put this into .vscode/mcp.json in the project's folder, or, for every project, into the"
        " file that the command `MCP: Open User Configuration` opens.",
    ),
    "zed": _Client(
        "context_servers",
        False,
        "Put this into Zed's settings, ~/.config/zed/settings.json (`zed: open settings file`).",
    ),
}

CLIENTS: Final = tuple(_CLIENTS)
"""Those there is a configuration for."""


class Config(NamedTuple):
    """The text that a client needs, and the place for it."""

    text: str
    """JSON, as the client's file has it."""
    hint: str


def command_of(*arguments: str) -> list[str]:
    """Return the command line that runs this program from anywhere: `command_of("mcp")`."""
    started = Path(sys.argv[0])
    if started.name == NAME and started.is_file():
        return [str(started.absolute()), *arguments]
    installed = Path(sys.executable).with_name(NAME)
    if installed.is_file():
        return [str(installed.absolute()), *arguments]
    # Not one that is on PATH, which may be another installation. And a client starts it anywhere:
    # nothing there may pass for this package.
    return [sys.executable, "-P", "-m", "pilothouse", *arguments]


def config_of(name: str, command: Sequence[str]) -> Config:
    """Return the configuration with which a client starts the server by this command line."""
    client = _CLIENTS[name]
    program, *arguments = command
    server: dict[str, Any] = {"command": program, "args": arguments}
    if client.has_type:
        server = {"type": "stdio", **server}
    add = shlex.join(["claude", "mcp", "add", "--scope", "user", NAME, "--", *command])
    text = json.dumps({client.key: {NAME: server}}, indent=2, ensure_ascii=False)
    return Config(text, client.where.format(add=add))


def print_config(name: str, command: Sequence[str]) -> None:
    """Print JSON to stdout, so that it can be piped, and the place for it to stderr."""
    config = config_of(name, command)
    sys.stderr.write(f"{config.hint}\n")
    sys.stderr.flush()
    sys.stdout.write(f"{config.text}\n")
    sys.stdout.flush()
