"""A small MCP server on stdio, run by a real CLI: it shouts, and has one resource."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "shout",
    "description": "Says it louder.",
    "inputSchema": {"type": "object", "properties": {"words": {"type": "string"}}},
}
RESOURCE = {"uri": "ui://feather", "name": "feather", "mimeType": "text/html"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "parrot", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": params["arguments"]["words"].upper()}]}
        case "resources/list":
            return {"resources": [RESOURCE]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "mimeType": "text/html", "text": "green"}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
