"""The MCP Inspector's command line, over stdio and over HTTP; each call is a client of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.mcp_client import COMMAND, TOOLS, http
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / ".cache/inspector/node_modules"
INSPECTOR = MODULES / ".bin/mcp-inspector-cli"
NODE = os.environ.get("PILOTHOUSE_NODE") or shutil.which("node")

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        NODE is None or not INSPECTOR.exists(),
        reason="needs Node and the MCP Inspector: ./scripts/test brings both",
    ),
]


async def inspect(machine: Machine, server: list[str], method: str, *words: str) -> dict[str, Any]:
    """What the Inspector prints for one method."""
    assert NODE is not None
    process = await asyncio.create_subprocess_exec(
        *(NODE, str(INSPECTOR), "--cli", *server, "--method", method, *words),
        # It runs Node by its name.
        env=machine.env | {"PATH": f"{Path(NODE).parent}:{machine.env['PATH']}"},
        # It takes the place it runs in for a part of its own package.
        cwd=MODULES,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def call(machine: Machine, server: list[str], name: str, **given: object) -> dict[str, Any]:
    pairs = [f"{key}={value}" for key, value in given.items()]
    told = await inspect(
        machine, server, "tools/call", "--tool-name", name, *_each("--tool-arg", pairs)
    )
    assert not told.get("isError"), told
    return told["structuredContent"]


def _each(flag: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def over_http(machine: Machine) -> list[str]:
    running = machine.found()
    assert running is not None
    token = f"Authorization: Bearer {running.token}"
    return [f"{running.address}/mcp", "--transport", "http", "--header", token]


async def test_it_lists_and_calls_the_tools(machine: Machine, folder: Path) -> None:
    listed = await inspect(machine, COMMAND, "tools/list")
    assert {each["name"] for each in listed["tools"]} == TOOLS
    started = await call(machine, COMMAND, "claude_start", prompt="Hello?", workingDirectory=folder)
    # The session goes on in the server although its client has gone.
    session = started["sessionId"]
    status = await call(machine, COMMAND, "claude_status", sessionId=session, waitSeconds=50)
    assert status["status"] == "done"
    assert "I am the simulator of Pilothouse" in status["result"]


async def test_it_lists_what_there_is_over_http(machine: Machine, folder: Path) -> None:
    if machine.found() is None:
        await machine.serve()
    async with http(machine) as direct:
        request = {"prompt": "Hello?", "cwd": str(folder)}
        started = (await direct.post("/api/sessions", json=request)).raise_for_status().json()
    session, server = started["session_id"], over_http(machine)
    listed = await call(machine, server, "claude_list", workingDirectory=folder)
    assert [each["sessionId"] for each in listed["sessions"]] == [session]
    resources = (await inspect(machine, server, "resources/list"))["resources"]
    assert any(session in each["uri"] for each in resources)
    prompts = (await inspect(machine, server, "prompts/list"))["prompts"]
    assert prompts
    assert all(each["description"] for each in prompts)
