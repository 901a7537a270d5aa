"""MCP servers for the sessions of these tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.support.places import PROGRAMS

PARROT = PROGRAMS / "parrot.py"

# Asking through a resolver works in every era of the protocol: the newest CLI and the newest `mcp`
# agree on the one in which a server sends no requests of its own.
CLERK = """
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

class Signature(BaseModel):
    name: str = Field(description="as in the book")

async def ask() -> Elicit[Signature]:
    return Elicit("Your name?", Signature)

server = MCPServer("clerk")

@server.tool()
async def sign(answer: Annotated[ElicitationResult[Signature], Resolve(ask)]) -> str:
    return f"{answer.action}: {getattr(answer, 'data', None)}"

server.run()
"""


def server(path: Path, text: str | None = None) -> dict[str, Any]:
    """The configuration of the server in this file, which is written if there is a text."""
    if text is not None:
        path.write_text(text)
    return {"type": "stdio", "command": sys.executable, "args": [str(path)]}
