"""However much is unread, what the CLI asks is answered: through the pipes of a real process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from pilothouse import Allow, Client, Hooks, Options, ToolServer, UnknownMessage, deny_tool, tool
from tests.support.waiting import DEADLINE

UNREAD = 10_000

# At the first prompt it writes more than any pipe holds, asks, and ends its turn when it has all
# the answers.
FLOODING_CLI = """import json, sys

def write(**message):
    sys.stdout.write(json.dumps(message) + "\\n")

def ask(name, **request):
    write(type="control_request", request_id=name, request=request)

asked = {}
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        request = message["request"]
        body = {"subtype": "success", "request_id": message["request_id"], "response": {"pid": 1}}
        write(type="control_response", response=body)
        if request["subtype"] == "initialize":
            [hook] = request["hooks"]["PreToolUse"][0]["hookCallbackIds"]
    elif message["type"] == "user":
        uuid = message["uuid"]
        for number in range(UNREAD):
            write(type="noise", number=number, padding="x" * 400)
        ask("permission", subtype="can_use_tool", tool_name="Bash", input={"command": "rm x"},
            tool_use_id="t1")
        event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
        ask("hook", subtype="hook_callback", callback_id=hook, input=event)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "ahoy", "arguments": {}}}
        ask("tool", subtype="mcp_message", server_name="ship", message=call)
    elif message["type"] == "control_response":
        asked[message["response"]["request_id"]] = message["response"]["response"]
        if len(asked) == 3:
            write(type="result", subtype="success", user_message_uuid=uuid,
                  result=json.dumps(asked))
    sys.stdout.flush()
"""


@tool
async def ahoy() -> str:
    """Greet."""
    return "ahoy"


@pytest.fixture
def flooding_cli(tmp_path: Path) -> Path:
    script = tmp_path / "claude"
    script.write_text(f"#!{sys.executable}\nUNREAD = {UNREAD}\n{FLOODING_CLI}")
    script.chmod(0o755)
    return script


async def test_what_is_asked_behind_unread_messages_is_answered_before_any_is_read(
    flooding_cli: Path,
) -> None:
    hooks = Hooks()

    @hooks.on("PreToolUse")
    async def check(event: Any) -> Any:
        return deny_tool("no")

    async def allow(request: Any) -> Allow:
        return Allow()

    options = Options(
        cli_path=flooding_cli,
        on_permission=allow,
        hooks=hooks,
        mcp_servers={"ship": ToolServer([ahoy], name="ship")},
    )
    async with asyncio.timeout(DEADLINE), Client(options) as client:
        turn = await (await client.say("go"))
        answers = turn.text
        assert '"behavior": "allow"' in answers
        assert '"permissionDecision": "deny"' in answers
        assert '"text": "ahoy"' in answers
        # Only now is anything read: all of it is there, in order.
        await client.aclose()
        numbers = [e.data["number"] async for e in client if isinstance(e, UnknownMessage)]
    assert numbers == list(range(UNREAD))
