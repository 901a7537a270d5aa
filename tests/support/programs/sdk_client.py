"""The official Python SDK as the client of one turn: its messages, as JSON, on stdout.

A program of its own, for the SDK's process: `python sdk_client.py CLI_PATH CWD`, or with
`- CASSETTE` only what the SDK makes of recorded lines.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    create_sdk_mcp_server,
    tool,
)
from claude_agent_sdk._internal.message_parser import (
    parse_message,
)


@tool("add", "Add two numbers.", {"a": int, "b": int})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


async def before_tool(given: Any, tool_use_id: str | None, context: Any) -> Any:
    return {"systemMessage": "seen"}


async def allow(name: str, given: dict[str, Any], context: Any) -> Any:
    if name == "AskUserQuestion":
        given = {**given, "answers": {"Which colour?": "Blue"}}
    return PermissionResultAllow(updated_input=given)


async def main(cli_path: str, cwd: str) -> None:
    options = ClaudeAgentOptions(
        cli_path=cli_path,
        cwd=cwd,
        can_use_tool=allow,
        hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[before_tool])]},
        mcp_servers={"ship": create_sdk_mcp_server("ship", tools=[add])},
        allowed_tools=["mcp__ship"],
    )
    async with ClaudeSDKClient(options) as client:
        await client.query("work")
        async for message in client.receive_response():
            show(message)


def parse(cassette: str) -> None:
    """Show what the SDK makes of the lines that the CLI wrote in a cassette."""
    for line in Path(cassette).read_text().splitlines()[1:]:
        entry = json.loads(line)
        message = entry.get("json", {})
        if entry["d"] == "out" and not message.get("type", "control").startswith("control"):
            show(parse_message(message))


def show(message: Any) -> None:
    if message is not None:
        fields = dataclasses.asdict(message)
        sys.stdout.write(json.dumps([type(message).__name__, fields], default=str) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "-":
        parse(sys.argv[2])
    else:
        asyncio.run(main(*sys.argv[1:]))
